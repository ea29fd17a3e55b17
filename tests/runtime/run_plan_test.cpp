#include "runtime/run_plan.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "comm/local_communicator.h"
#include "rank_group.h"
#include "runtime/dataset_setup.h"
#include "runtime/model_setup.h"
#include "runtime/trainer_parts.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(BytesText, TakesTheUnitThatFits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(1.5 * 1024 * 1024), "1.5 MiB");
  EXPECT_EQ(bytes_text(3.0 * (int64_t{1} << 40) * 2048), "6144.0 TiB");
}

TEST(RunPlan, AlignsItsLines) {
  EXPECT_THAT((RunPlan{{{"data", "x"}, {"optimizer", "y"}}}.lines()),
              ElementsAre("data       x", "optimizer  y"));
}

// The rows of a plan on 180 + 120 rows of data.
std::map<std::string, std::string> rows(const std::vector<std::string>& overrides, int ranks,
                                        const std::string& backend = "nccl") {
  const tests::TemporaryFolder folder;
  write_waves(folder, {1800, 200});
  const Config config = tests::wave_config(folder, overrides);
  const auto dataset = data::Dataset::open(dataset_spec(config));
  const auto model = make_model(config);
  const auto alone = comm::make_local_communicator();
  const auto reducer = make_reducer(config, *model, *alone);
  const BatchPlan batches = make_batch_plan(config.train, config.train.micro_batch_size,
                                            dataset->windows(data::Split::kTrain), 0, ranks);
  const RunPlan plan = make_run_plan(
      {config, *dataset, *model, batches, *reducer, ranks, "2 x GPU", "bf16", backend});
  return {plan.rows.begin(), plan.rows.end()};
}

TEST(RunPlan, SaysWhatTheRunWillDo) {
  auto plan = rows({}, 2);
  EXPECT_THAT(plan.at("data"),
              AllOf(HasSubstr("series.h5: 2 series, 2,000 rows, "), HasSubstr("KiB in memory")));
  EXPECT_EQ(plan.at("columns"), "a, b -> a");
  // Train rows 1260 and 140, validation 180 and 20 with the look-back into the part before.
  EXPECT_THAT(plan.at("windows"), StartsWith("1,386 train, 198 validation, "));
  EXPECT_EQ(plan.at("model"), "linear, 26 parameters");
  EXPECT_EQ(plan.at("devices"), "2 x GPU, precision bf16");
  EXPECT_EQ(plan.at("batch"), "24 = 6 micro-batches x 4, 3 a rank on 2 ranks");
  EXPECT_EQ(plan.at("steps"), "8 (0.1385 epochs)");
  EXPECT_EQ(plan.at("buckets"), "1 of up to 112 B (comm.bucket_mib: auto)");
  EXPECT_EQ(plan.at("optimizer"), "adamw, lr 0.001, constant schedule, warm-up of 0 steps");
}

// What the reducers of so many ranks really send.
int64_t bytes_sent(const std::string& wire, int ranks) {
  const tests::TemporaryFolder nowhere;
  const Config config = tests::wave_config(nowhere, {"comm.wire=" + wire});
  const tests::Group group = comm::make_local_group(ranks);
  std::vector<int64_t> bytes(static_cast<size_t>(ranks));
  tests::play_ranks(ranks, [&](int rank) {
    const auto model = make_model(config);
    bytes[static_cast<size_t>(rank)] =
        make_reducer(config, *model, tests::member(group, rank))->wire_bytes_per_step();
  });
  EXPECT_THAT(bytes, testing::Each(bytes.front()));
  return bytes.front();
}

// The bias of 2 elements, padded to 16 bytes, and the weight of 2 x 12.
TEST(RunPlan, CountsTheBytesOnTheWire) {
  EXPECT_EQ(rows({}, 1, "local").at("wire"), "nothing to send with one rank");
  // A library that was asked for is used as with many ranks.
  EXPECT_EQ(rows({}, 1).at("wire"), "fp32 over nccl, 112 B a step and rank");
  EXPECT_EQ(rows({}, 2).at("wire"), "fp32 over nccl, 112 B a step and rank");
  EXPECT_EQ(rows({}, 3).at("wire"), "fp32 over nccl, 112 B a step and rank");
  EXPECT_EQ(bytes_sent("fp32", 3), 112);
  // Behind the elements of a half type travels one exponent a rank.
  EXPECT_EQ(rows({"comm.wire=fp16"}, 2).at("wire"), "fp16 over nccl, 60 B a step and rank");
  EXPECT_EQ(rows({"comm.wire=bf16"}, 3).at("wire"), "bf16 over nccl, 62 B a step and rank");
  EXPECT_EQ(bytes_sent("fp16", 2), 60);
  EXPECT_EQ(bytes_sent("bf16", 3), 62);
}

TEST(RunPlan, CountsTheMemoryOfTheOptimizer) {
  const auto memory = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"model.name=lstm", "model.hidden_size=256",
                                    "model.num_layers=1"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return rows(all, 1).at("memory a rank");
  };
  // 4 * 256 * (2 + 256 + 2) + 2 * 256 + 2 = 266,754 parameters of 4 bytes: once as weights, once as
  // gradients, and the optimizer's.
  EXPECT_THAT(memory({}), StartsWith("4.1 MiB for weights, gradients and adamw state"));
  EXPECT_THAT(memory({"optimizer.name=sgd"}), StartsWith("3.1 MiB"));
  EXPECT_THAT(memory({"optimizer.name=sgd", "optimizer.momentum=0"}), StartsWith("2.0 MiB"));
}

}  // namespace
}  // namespace longship::runtime
