#include "runtime/config_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config_support.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

using namespace longship::tests;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DumpConfig, IsCompleteAndKeepsAuto) {
  const std::string dump = dump_config(parse(kMinimal));
  EXPECT_THAT(dump, HasSubstr("run:\n  name: auto\n  directory: runs\n  seed: 42\n"));
  EXPECT_THAT(dump, HasSubstr("  path: [weather.h5]\n"));
  EXPECT_THAT(dump, HasSubstr("  micro_batch_size: auto\n"));
  EXPECT_THAT(dump, HasSubstr("  bucket_mib: auto\n"));
  EXPECT_THAT(dump, HasSubstr("log:\n  level: info\n  every_steps: auto\n  sample_order: false\n"));
}

void expect_round_trip(const std::string& file) {
  const Config config = parse(file);
  const std::string dump = dump_config(config);
  const Config again = parse_config(dump, "config.yaml", config.base_directory, {});
  EXPECT_THAT(compare_configs(config, again), IsEmpty()) << dump;
  EXPECT_EQ(again.data.path, config.data.path);
  EXPECT_EQ(again.data.inputs, config.data.inputs);
  EXPECT_EQ(again.model.options.values(), config.model.options.values());
  EXPECT_EQ(dump_config(again), dump);
}

TEST(DumpConfig, ParsesBackToTheSame) {
  for (const char* more :
       {"",
        "train: {steps: 100, batch_size: 12, micro_batch_size: 4}\n"
        "eval: {every_steps: 5, season: 24}\n"
        "checkpoint: {every_steps: 7}\n"
        "comm: {bucket_mib: 0.5, wire: bf16}\n",
        "optimizer: {name: sgd, lr: 0.1, momentum: 0, decay_biases: no}\n"
        "schedule: {name: step, step_size: 10, gamma: 0.25}\n"
        "train: {loss: quantile, quantiles: [0.05, 0.5, 0.95], epochs: 0.5}\n"}) {
    expect_round_trip(kMinimal + more);
  }
}

TEST(DumpConfig, KeepsTextsThatYamlWouldReadOtherwise) {
  expect_round_trip(R"(
data:
  path: ['-a, b.h5', "x\ny: #z", 'Zürich''s', '~', '$HOME', 'back\slash']
  inputs: ['yes', '1e-3', 'null', '[a]', 'a: b', 'auto']
  targets: ['{c}']
  window: 4
  split: {validation: 2013-10-01, test: 2013-11-15T06:00}
  missing: drop
model: {name: lstm, dropout: 0.1, init: torch}
)");
}

TEST(MoveConfig, LeadsToTheSameFilesFromAnotherFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "configs");
  std::filesystem::create_directories(folder / "runs/first");
  Config config = parse_config(kMinimal, "run.yaml", folder / "configs", {"data.path=[/abs/y.h5]"});
  config.data.path.push_back("../weather.h5");
  const Config moved = move_config(config, folder / "runs/first");
  EXPECT_THAT(moved.data.path, ElementsAre("/abs/y.h5", "../../configs/../weather.h5"));
  EXPECT_EQ(std::filesystem::weakly_canonical(resolve_paths(moved)[1]),
            std::filesystem::weakly_canonical(folder / "weather.h5"));
  EXPECT_THAT(compare_configs(config, moved), IsEmpty());
}

TEST(CompareConfigs, SaysWhatMayChange) {
  const std::vector<ConfigChange> changes = compare_configs(
      parse(kMinimal), parse_with("optimizer: {lr: 5e-4}\ntrain: {batch_size: 512, epochs: 20}\n",
                                  {"data.window=96"}));
  ASSERT_EQ(changes.size(), 4u);
  EXPECT_EQ(changes[0].key, "data.window");
  EXPECT_EQ(changes[0].old_value, "48");
  EXPECT_EQ(changes[0].new_value, "96");
  EXPECT_FALSE(changes[0].allowed);
  EXPECT_EQ(changes[1].key, "train.epochs");
  EXPECT_TRUE(changes[1].allowed);
  EXPECT_EQ(changes[2].key, "train.batch_size");
  EXPECT_FALSE(changes[2].allowed);
  EXPECT_EQ(changes[3].key, "optimizer.lr");
  EXPECT_EQ(changes[3].new_value, "0.0005");
  EXPECT_TRUE(changes[3].allowed);
}

TEST(CompareConfigs, ComparesTheOptionsOfOneModelOnly) {
  const std::string lstm = kMinimal.substr(0, kMinimal.find("model")) + "model: {name: lstm}\n";
  const std::vector<ConfigChange> other = compare_configs(parse(kMinimal), parse(lstm));
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].key, "model.name");
  EXPECT_FALSE(other[0].allowed);
  const std::vector<ConfigChange> option =
      compare_configs(parse(lstm), parse(lstm, {"model.hidden_size=8"}));
  ASSERT_EQ(option.size(), 1u);
  EXPECT_EQ(option[0].key, "model.hidden_size");
  EXPECT_EQ(option[0].new_value, "8");
  EXPECT_FALSE(option[0].allowed);
}

TEST(CompareConfigs, ReportsOtherDataAsAllowed) {
  const std::vector<ConfigChange> changes =
      compare_configs(parse(kMinimal), parse(kMinimal, {"data.path=/other.h5"}));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].key, "data.path");
  EXPECT_TRUE(changes[0].allowed);
}

}  // namespace
}  // namespace longship::runtime
