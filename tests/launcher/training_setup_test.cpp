#include "launcher/training_setup.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../runtime/rank_group.h"
#include "../runtime/test_series.h"
#include "runtime/agreement.h"
#include "runtime/model_setup.h"

namespace longship::launcher {
namespace {

using testing::Each;
using testing::HasSubstr;

runtime::Context context_of(comm::Communicator& host) {
  return {host, host, host, c10::kCPU, "node", nullptr};
}

// settle_micro_batch_size() on each of `ranks` ranks.
std::vector<int64_t> settled(const runtime::Config& config, int ranks,
                             const std::optional<runtime::LoadedCheckpoint>& checkpoint = {}) {
  const tests::Group group = comm::make_local_group(ranks);
  std::vector<int64_t> sizes(static_cast<size_t>(ranks));
  const auto model = runtime::make_model(config);
  tests::play_ranks(ranks, [&](int rank) {
    runtime::Context context = context_of(tests::member(group, rank));
    sizes[static_cast<size_t>(rank)] =
        settle_micro_batch_size(config, checkpoint, *model, 0, context);
  });
  return sizes;
}

TEST(SettleMicroBatchSize, TakesTheConfiguredThenTheStoredThenTheLargest) {
  const tests::TemporaryFolder nowhere;
  const runtime::Config fixed = tests::wave_config(nowhere);
  const runtime::Config automatic = tests::wave_config(nowhere, {"train.micro_batch_size=auto"});
  runtime::LoadedCheckpoint checkpoint;
  checkpoint.state.scalars["order"] = {{"micro_batch_size", 3}};
  EXPECT_THAT(settled(fixed, 2, checkpoint), Each(4));
  EXPECT_THAT(settled(automatic, 2, checkpoint), Each(3));
  EXPECT_THAT(settled(automatic, 1), Each(24));
  EXPECT_THAT(settled(automatic, 5), Each(4));
}

TEST(SettleMicroBatchSize, ABatchThatCannotFeedEveryRankIsOneErrorOfAll) {
  const tests::TemporaryFolder nowhere;
  const runtime::Config config =
      tests::wave_config(nowhere, {"train.micro_batch_size=auto", "train.batch_size=2"});
  EXPECT_THROW(settled(config, 3), runtime::AgreedError);
}

TEST(AgreeOnInputs, NamesTheRankWithOtherSettingsOrData) {
  const tests::TemporaryFolder nowhere;
  const auto refusals = [&](const std::string& lr_of_rank_1, uint64_t data_of_rank_1) {
    const tests::Group group = comm::make_local_group(3);
    std::vector<std::string> texts(3);
    tests::play_ranks(3, [&](int rank) {
      const bool odd = rank == 1;
      const runtime::Config config =
          tests::wave_config(nowhere, {"optimizer.lr=" + (odd ? lr_of_rank_1 : "0.1")});
      try {
        agree_on_inputs(config, odd ? data_of_rank_1 : 7, tests::member(group, rank), "node");
      } catch (const runtime::AgreedError& error) {
        texts[static_cast<size_t>(rank)] = error.what();
      }
    });
    return texts;
  };
  EXPECT_THAT(refusals("0.1", 7), Each(""));
  EXPECT_THAT(refusals("0.2", 7), Each(HasSubstr("rank 1 (node) has other settings than rank 0")));
  EXPECT_THAT(refusals("0.1", 8), Each(HasSubstr("rank 1 (node) has other training data")));
}

TEST(DescribeDevices, CountsEqualOnes) {
  const tests::Group group = comm::make_local_group(3);
  std::vector<std::string> texts(3);
  at::set_num_threads(1);
  tests::play_ranks(3, [&](int rank) {
    texts[static_cast<size_t>(rank)] = describe_devices(context_of(tests::member(group, rank)));
  });
  EXPECT_THAT(texts, Each("3 x CPU with 1 thread"));
}

Session session_alone() {
  Session session;
  session.host = comm::make_local_communicator();
  session.host_name = "node";
  return session;
}

class OpenRunDirectory : public testing::Test {
 protected:
  runtime::Config config(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"run.directory=" + folder_ / "runs"};
    all.insert(all.end(), more.begin(), more.end());
    return tests::wave_config(folder_, all);
  }
  static TrainOptions options(const std::string& resume) {
    TrainOptions chosen;
    chosen.config_path = "/some/where/waves.yaml";
    chosen.resume = resume;
    return chosen;
  }
  const tests::TemporaryFolder folder_;
  Session session_ = session_alone();
};

TEST_F(OpenRunDirectory, MakesANameFromTheRunFile) {
  runtime::Config settings = config();
  const RunPlace place = open_run_directory(options("auto"), settings, session_);
  EXPECT_FALSE(place.existed);
  EXPECT_THAT(settings.run.name, testing::StartsWith("waves-"));
  EXPECT_EQ(place.root, folder_ / ("runs/" + settings.run.name));
}

TEST_F(OpenRunDirectory, ComparesWithTheRunThatItHolds) {
  runtime::Config settings = config({"run.name=one"});
  {
    const RunPlace place = open_run_directory(options("auto"), settings, session_);
    place.directory->write_config(settings);
  }
  EXPECT_TRUE(open_run_directory(options("auto"), settings, session_).existed);

  const auto refusal = [&](runtime::Config changed, const std::string& resume) -> std::string {
    try {
      open_run_directory(options(resume), changed, session_);
    } catch (const runtime::AgreedError& error) {
      EXPECT_EQ(error.code(), runtime::ExitCode::kInput);
      return error.what();
    }
    return "(not refused)";
  };
  EXPECT_THAT(refusal(settings, "none"), HasSubstr("--resume none never overwrites"));
  EXPECT_THAT(refusal(config({"run.name=one", "data.horizon=3"}), "auto"),
              HasSubstr("data.horizon (2 there, 3 now)"));
  EXPECT_EQ(refusal(config({"run.name=one", "train.steps=80", "optimizer.lr=0.5"}), "auto"),
            "(not refused)");
}

TEST_F(OpenRunDirectory, TakesTheMicroBatchSizeThatAutoBecame) {
  runtime::Config automatic = config({"run.name=two", "train.micro_batch_size=auto"});
  {
    const RunPlace place = open_run_directory(options("auto"), automatic, session_);
    place.directory->write_config(automatic);
    EXPECT_EQ(place.directory->chosen_micro_batch_size(), 0);
    place.directory->write_run({{"resolved", {{"micro_batch_size", 12}}}});
    EXPECT_EQ(place.directory->chosen_micro_batch_size(), 12);
  }
  runtime::Config same = config({"run.name=two", "train.micro_batch_size=12"});
  EXPECT_TRUE(open_run_directory(options("auto"), same, session_).existed);
  // And the other way round.
  {
    const RunPlace place = open_run_directory(options("auto"), same, session_);
    place.directory->write_config(same);
  }
  EXPECT_TRUE(open_run_directory(options("auto"), automatic, session_).existed);
  runtime::Config other = config({"run.name=two", "train.micro_batch_size=8"});
  EXPECT_THROW(open_run_directory(options("auto"), other, session_), runtime::AgreedError);
}

}  // namespace
}  // namespace longship::launcher
