#include "launcher/run_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../runtime/test_series.h"
#include "runtime/config_dump.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using runtime::ConfigError;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class RunSettings : public testing::Test {
 protected:
  runtime::Config config(const std::vector<std::string>& overrides = {}) const {
    return tests::wave_config(nowhere_, overrides);
  }
  const tests::TemporaryFolder nowhere_;
};

TEST_F(RunSettings, OnlyNoneRefusesToOverwrite) {
  EXPECT_NO_THROW(refuse_to_overwrite("runs/one", "auto"));
  EXPECT_NO_THROW(refuse_to_overwrite("runs/one", "runs/two"));
  EXPECT_THAT([] { refuse_to_overwrite("runs/one", "none"); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("a run in runs/one"), HasSubstr("another run.name"))));
}

TEST_F(RunSettings, FreeKeysMayChangeAndAreTold) {
  EXPECT_THAT(compare_with("it", config(), 0, config()), IsEmpty());
  EXPECT_THAT(compare_with("it", config(), 0, config({"optimizer.lr=0.5", "train.steps=9"})),
              testing::UnorderedElementsAre("optimizer.lr (0.001 there, 0.5 now)",
                                            "train.steps (8 there, 9 now)"));
}

TEST_F(RunSettings, FixedKeysMayNotChangeAndAreAllNamed) {
  EXPECT_THAT(
      [&] {
        compare_with("the run X", config(), 0, config({"run.seed=1", "data.window=5"}));
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("the run X was started with other settings"),
                                       HasSubstr("run.seed (42 there, 1 now)"),
                                       HasSubstr("data.window (6 there, 5 now)"))));
}

TEST_F(RunSettings, AutoAndWhatItBecameAreTheSameMicroBatchSize) {
  const runtime::Config automatic = config({"train.micro_batch_size=auto"});
  EXPECT_EQ(compare_with("it", automatic, 12, config({"train.micro_batch_size=12"})).size(), 1U);
  EXPECT_EQ(compare_with("it", config(), 0, automatic).size(), 1U);
  EXPECT_THROW(compare_with("it", automatic, 12, config({"train.micro_batch_size=8"})),
               ConfigError);
}

TEST_F(RunSettings, ACheckpointsSettingsAreComparedWhereverItsDataLie) {
  const nlohmann::json scalars = {{"config", {{"text", runtime::dump_config(config())}}},
                                  {"order", {{"micro_batch_size", 4}}}};
  EXPECT_EQ(settings_of("/runs/a/checkpoints/step-000000001", scalars).data.window, 6);
  EXPECT_EQ(micro_batch_size_of(scalars), 4);
  EXPECT_NO_THROW(compare_with_checkpoint("c", scalars, config({"data.path=/other/place.h5"})));
  EXPECT_THAT([&] { compare_with_checkpoint("c", scalars, config({"data.horizon=3"})); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("the run of c"), HasSubstr("data.horizon (2 there, 3 now)"))));
}

TEST_F(RunSettings, APathToStartFromIsKeptInFull) {
  EXPECT_EQ(started_from("auto", "/runs/a"), "/runs/a");
  EXPECT_EQ(started_from("none", ""), "");
  EXPECT_EQ(started_from("x/../runs/b", "/runs/a"),
            (std::filesystem::current_path() / "runs/b").string());
}

}  // namespace
}  // namespace longship::launcher
