#include "runtime/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "rank_group.h"
#include "runtime/agreement.h"
#include "runtime/dataset_setup.h"
#include "runtime/model_setup.h"
#include "test_series.h"
#include "two_ways_model.h"

namespace longship::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(EarlyStop, KeepsTheBestAndStopsAfterPatience) {
  EarlyStop stop;
  EXPECT_TRUE(stop.observe(3, 10, 2));
  EXPECT_FALSE(stop.observe(3, 20, 2));  // equal is not better
  EXPECT_FALSE(stop.stopped);
  EXPECT_TRUE(stop.observe(2, 30, 2));
  EXPECT_EQ(stop.evaluations_since_best, 0);
  EXPECT_FALSE(stop.observe(4, 40, 2));
  EXPECT_FALSE(stop.observe(5, 50, 2));
  EXPECT_TRUE(stop.stopped);
  EXPECT_EQ(stop.best, 2);
  EXPECT_EQ(stop.best_step, 30);
}

TEST(EarlyStop, ANanIsNeverTheBest) {
  EarlyStop stop;
  EXPECT_FALSE(stop.observe(std::nan(""), 1, 2));
  EXPECT_FALSE(stop.best);
  EXPECT_TRUE(stop.observe(7, 2, 2));
  EXPECT_FALSE(stop.observe(std::nan(""), 3, 2));
  EXPECT_FALSE(stop.observe(std::nan(""), 4, 2));
  EXPECT_TRUE(stop.stopped);
  EXPECT_EQ(stop.best, 7);
}

TEST(EarlyStop, WithoutPatienceNeverStops) {
  EarlyStop stop;
  stop.observe(1, 1, 0);
  for (int64_t step = 2; step < 100; ++step) stop.observe(2, step, 0);
  EXPECT_FALSE(stop.stopped);
}

class Records : public MetricSink {
 public:
  void write(const MetricRecord& record) override {
    all.push_back(record);
    if (on_record) on_record(record);
  }
  std::vector<MetricRecord> of(const std::string& split) const {
    std::vector<MetricRecord> found;
    for (const MetricRecord& record : all) {
      if (record.split == split) found.push_back(record);
    }
    return found;
  }
  std::vector<MetricRecord> all;
  std::function<void(const MetricRecord&)> on_record;
};

// How a run ended on one rank.
struct End {
  ExitCode code = ExitCode::kInternal;
  std::string error;
  int64_t step = 0;
  std::string implementation;
  std::vector<at::Tensor> parameters;
};

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &actions_[i]);
    write_waves(folder_, {100, 120});
  }
  void TearDown() override {
    unsetenv("LONGSHIP_FAULT");
    // Ranks are threads here, so several StopSignals were alive at once.
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_[i], nullptr);
  }

  Config config(std::vector<std::string> overrides = {}) const {
    overrides.insert(overrides.begin(), {"log.every_steps=1", "eval.every_epochs=0"});
    return tests::wave_config(folder_, overrides);
  }

  // Trains on a group of ranks, from the newest checkpoint in `name` on.
  std::vector<End> train(const Config& config, int ranks, const std::string& name = "run") {
    records_.all.clear();
    const tests::Group host = comm::make_local_group(ranks);
    const tests::Group votes = comm::make_local_group(ranks);
    const tests::Group gradients = comm::make_local_group(ranks);
    const auto dataset = data::Dataset::open(dataset_spec(config));
    std::vector<std::shared_ptr<models::Forecaster>> models;
    for (int rank = 0; rank < ranks; ++rank) {
      Config own = config;
      own.run.seed += rank * seed_difference_;
      models.push_back(make_(own));
    }
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log_);
    std::filesystem::create_directories(folder_ / name);
    std::vector<End> ends(static_cast<size_t>(ranks));
    tests::play_ranks(ranks, [&](int rank) {
      End& end = ends[static_cast<size_t>(rank)];
      const auto log = std::make_shared<spdlog::logger>("rank", sink);
      Context context{tests::member(host, rank),
                      tests::member(votes, rank),
                      tests::member(gradients, rank),
                      c10::kCPU,
                      "node",
                      log};
      Checkpointer checkpointer(folder_ / (name + "/checkpoints"), context.host, 3);
      const auto& model = models[static_cast<size_t>(rank)];
      TrainerParts parts{context,
                         config,
                         dataset,
                         model,
                         make_batch_plan(config.train, config.train.micro_batch_size,
                                         dataset->windows(data::Split::kTrain), rank, ranks),
                         PrecisionMode::kFp32,
                         &checkpointer};
      const auto loaded = checkpointer.load_newest();
      if (loaded) parts.implementation = stored_implementation(loaded->state);
      if (order_log_) parts.order_log = folder_ / ("order-" + std::to_string(rank));
      try {
        Trainer trainer(parts);
        if (rank == 0) trainer.report_to({&records_}, nullptr);
        if (loaded) trainer.restore(loaded->state);
        end.implementation = trainer.implementation();
        end.step = trainer.step();
        end.code = trainer.finished() ? ExitCode::kDone : trainer.run();
        end.step = trainer.step();
      } catch (const Error& error) {
        end.code = error.code();
        end.error = error.what();
      }
      for (const at::Tensor& parameter : model->parameters()) {
        end.parameters.push_back(parameter.detach().clone());
      }
    });
    return ends;
  }

  std::string target_of(const std::string& link) const {
    std::error_code error;
    return std::filesystem::read_symlink(folder_ / ("run/checkpoints/" + link), error).string();
  }

  static constexpr std::array<int, 3> kSignals = {SIGUSR1, SIGTERM, SIGINT};
  std::array<struct sigaction, 3> actions_{};
  tests::TemporaryFolder folder_;
  Records records_;
  std::ostringstream log_;
  std::function<std::shared_ptr<models::Forecaster>(const Config&)> make_ =
      [](const Config& config) { return make_model(config); };
  int64_t seed_difference_ = 0;
  bool order_log_ = false;
};

void expect_close(const End& found, const End& expected, double tolerance) {
  ASSERT_EQ(found.parameters.size(), expected.parameters.size());
  for (size_t i = 0; i < found.parameters.size(); ++i) {
    EXPECT_LE((found.parameters[i] - expected.parameters[i]).abs().max().item<double>(), tolerance);
  }
}

TEST_F(TrainerTest, TrainsToTheEndAndSaves) {
  const auto ends = train(config(), 2);
  for (const End& end : ends) {
    EXPECT_EQ(end.error, "");
    EXPECT_EQ(end.code, ExitCode::kDone);
    EXPECT_EQ(end.step, 8);
    expect_close(end, ends[0], 0);
  }
  EXPECT_EQ(target_of("latest"), "step-000000008");
  ASSERT_EQ(records_.of("train").size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const MetricRecord& record = records_.all[i];
    EXPECT_EQ(record.step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(record.applied, record.step);
    EXPECT_GT(record.loss, 0);
    EXPECT_GT(record.grad_norm, 0);
    EXPECT_GT(record.samples_per_s, 0);
    EXPECT_FLOAT_EQ(static_cast<float>(record.lr), 1e-3f);
    EXPECT_EQ(record.loss_scale, 1);
  }
  // A finished run has nothing left to do.
  const auto again = train(config(), 2);
  EXPECT_EQ(again[1].step, 8);
  EXPECT_TRUE(records_.all.empty());
}

TEST_F(TrainerTest, LossesAreTheSameForAnyNumberOfRanksAndAnyInterval) {
  train(config(), 1, "alone");
  const auto alone = records_.of("train");
  train(config({"log.every_steps=4"}), 3, "three");
  const auto three = records_.of("train");
  ASSERT_EQ(three.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    double mean = 0;
    for (size_t k = 0; k < 4; ++k) mean += alone[4 * i + k].loss / 4;
    EXPECT_NEAR(three[i].loss, mean, 1e-5 * mean);
  }
}

TEST_F(TrainerTest, ResumesWithTheBitsOfAnUninterruptedRun) {
  const std::vector<std::string> keys = {"model.name=lstm", "model.hidden_size=8",
                                         "model.dropout=0.2", "comm.wire=fp16",
                                         "train.clip_norm=0.5"};
  const auto with_steps = [&](const char* steps) {
    std::vector<std::string> all = keys;
    all.emplace_back(steps);
    return config(all);
  };
  const End whole = train(with_steps("train.steps=10"), 2, "whole").front();
  EXPECT_EQ(train(with_steps("train.steps=4"), 2).front().step, 4);
  const End resumed = train(with_steps("train.steps=10"), 2).back();
  EXPECT_EQ(resumed.error, "");
  EXPECT_EQ(resumed.step, 10);
  EXPECT_EQ(records_.of("train").front().step, 5);
  expect_close(resumed, whole, 0);
}

TEST_F(TrainerTest, TakesTheFastestImplementationAndTheSameWhenItGoesOn) {
  bool other_is_quick = false;
  make_ = [&](const Config& config) {
    torch::manual_seed(1);
    const auto model = std::make_shared<tests::TwoWays>(model_shape(config));
    if (other_is_quick) model->slow = "quick";
    return model;
  };
  EXPECT_EQ(train(config({"train.steps=2"}), 2).back().implementation, "quick");
  EXPECT_THAT(log_.str(), HasSubstr("model computed by quick, "));
  other_is_quick = true;
  EXPECT_EQ(train(config({"train.steps=2"}), 2, "another").back().implementation, "slow");
  const End resumed = train(config({"train.steps=4"}), 2).back();
  EXPECT_EQ(resumed.step, 4);
  EXPECT_EQ(resumed.implementation, "quick") << "as before, although it is the slower one now";
  EXPECT_THAT(log_.str(), HasSubstr("model computed by quick, as in this run before"));
  make_ = [](const Config& config) { return make_model(config); };
  EXPECT_EQ(train(config({"train.steps=2"}), 1, "linear").front().implementation, "");
}

TEST_F(TrainerTest, RefusesToGoOnWithOtherData) {
  train(config({"train.steps=2"}), 1);
  write_waves(folder_, {100, 120}, /*seed=*/2);
  const End end = train(config(), 1).front();
  EXPECT_EQ(end.code, ExitCode::kInput);
  EXPECT_THAT(end.error, HasSubstr("training data changed since the checkpoint was written"));
}

TEST_F(TrainerTest, RefusesACheckpointOfAnotherModel) {
  train(config({"train.steps=2"}), 1);
  const End end = train(config({"model.name=lstm", "model.hidden_size=8"}), 1).front();
  EXPECT_EQ(end.code, ExitCode::kCheckpoint);
  EXPECT_THAT(end.error, HasSubstr("lacks head.bias"));
}

TEST_F(TrainerTest, EvaluatesKeepsTheBestAndStopsEarly) {
  Config settings = config({"eval.every_steps=2", "eval.patience=2", "train.steps=20"});
  settings.optimizer.lr = 0;  // so that no evaluation is better than the first
  for (const End& end : train(settings, 3)) {
    EXPECT_EQ(end.code, ExitCode::kDone);
    EXPECT_EQ(end.step, 6);
  }
  EXPECT_EQ(target_of("best"), "step-000000002");
  EXPECT_EQ(target_of("latest"), "step-000000006");
  const auto evaluations = records_.of("validation");
  ASSERT_EQ(evaluations.size(), 3u);
  EXPECT_EQ(evaluations[0].step, 2);
  EXPECT_EQ(evaluations[0].loss, evaluations[0].extra.at("mse"));
  EXPECT_EQ(evaluations[2].loss, evaluations[0].loss);
  EXPECT_THAT(log_.str(), HasSubstr("stopping early: no better mse for 2 evaluations"));

  // It stays stopped, unless more patience is asked for.
  EXPECT_EQ(train(settings, 3).front().step, 6);
  settings.eval.patience = 4;
  EXPECT_EQ(train(settings, 3).front().step, 10);
}

TEST_F(TrainerTest, AnEvaluationWithoutAnObservedTargetJudgesNothing) {
  data::SeriesTable table = tests::wave_table({100});
  table.values.narrow(0, 70, 10).fill_(std::nanf(""));  // the validation part
  data::write_series_file(folder_ / "series.h5", table, true);
  const Config settings = config(
      {"eval.every_steps=2", "eval.patience=1", "train.steps=8", "data.missing=forward_fill"});
  for (const End& end : train(settings, 2)) {
    EXPECT_EQ(end.code, ExitCode::kDone) << end.error;
    EXPECT_EQ(end.step, 8);  // no patience is lost over it
  }
  EXPECT_THAT(records_.of("validation"), testing::IsEmpty());
  EXPECT_EQ(target_of("best"), "");
  EXPECT_THAT(log_.str(), HasSubstr("step 2: the validation windows hold no observed value"));
}

TEST_F(TrainerTest, SavesEverySoManySteps) {
  train(config({"checkpoint.every_steps=3", "checkpoint.at_start=true"}), 2);
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path() / "run/checkpoints")) {
    names.insert(entry.path().filename().string());
  }
  // The newest three; that of the start has expired.
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"step-000000003", "step-000000006", "step-000000008", "latest"}));
  EXPECT_EQ(names.count("step-000000000"), 0u);
  EXPECT_EQ(names.count("best"), 0u);
}

TEST_F(TrainerTest, ASignalEndsTheRunWithACheckpointFromWhichItGoesOn) {
  const Config settings = config({"train.steps=1000000"});
  records_.on_record = [](const MetricRecord& record) {
    if (record.step == 5) std::raise(SIGUSR1);
  };
  const End end = train(settings, 1).front();
  EXPECT_EQ(end.error, "");
  EXPECT_EQ(end.code, ExitCode::kStopped);
  EXPECT_GE(end.step, 5);
  EXPECT_LT(end.step, 1'000'000);
  EXPECT_EQ(target_of("latest"), checkpoint_name(end.step));
  EXPECT_THAT(log_.str(), HasSubstr("stopped at step " + std::to_string(end.step)));

  int64_t first = 0;
  records_.on_record = [&first](const MetricRecord& record) {
    if (first == 0) {
      first = record.step;
      std::raise(SIGTERM);
    }
  };
  EXPECT_EQ(train(settings, 1).front().code, ExitCode::kStopped);
  EXPECT_EQ(first, end.step + 1);
}

TEST_F(TrainerTest, DivergenceEndsAllRanksAndNamesStepRankAndPlace) {
  // The first step throws the weights far off, the second to infinity; all later ones are skipped.
  const auto ends = train(config({"optimizer.name=sgd", "optimizer.momentum=0", "optimizer.lr=1e25",
                                  "train.max_skipped=3"}),
                          2);
  for (const End& end : ends) {
    EXPECT_EQ(end.code, ExitCode::kDiverged);
    EXPECT_THAT(end.error,
                AllOf(HasSubstr("the last 3 steps up to step 5"),
                      HasSubstr("on rank 0 the loss of micro-batch 0 is not a number"),
                      HasSubstr("There is no checkpoint"), HasSubstr("lower optimizer.lr")));
    EXPECT_EQ(end.error, ends[0].error);
  }
  EXPECT_EQ(target_of("latest"), "");
}

TEST_F(TrainerTest, AnOverflowOnOneRankIsSkippedAndTrainingGoesOn) {
  setenv("LONGSHIP_FAULT", "overflow:rank=1,step=3", 1);
  for (const End& end : train(config(), 2)) {
    EXPECT_EQ(end.code, ExitCode::kDone);
    EXPECT_EQ(end.step, 8);
  }
  const auto records = records_.of("train");
  EXPECT_EQ(records[2].skipped, 1);
  EXPECT_TRUE(std::isnan(records[2].loss));
  EXPECT_EQ(records[3].skipped, 0);
  EXPECT_EQ(records[7].applied, 7);
}

TEST_F(TrainerTest, AnErrorOnOneRankEndsAllWithItsMessageOnce) {
  setenv("LONGSHIP_FAULT", "throw:rank=1,step=3", 1);
  for (const End& end : train(config({"train.steps=1000"}), 3)) {
    EXPECT_EQ(end.code, ExitCode::kInternal);
    EXPECT_EQ(end.error, "LONGSHIP_FAULT asked for an exception in step 3 [rank 1 of 3 (node)]");
  }
  EXPECT_EQ(target_of("latest"), "");
}

TEST_F(TrainerTest, RanksThatStartFromOtherWeightsAreRefused) {
  seed_difference_ = 1;
  for (const End& end : train(config(), 2)) {
    EXPECT_EQ(end.code, ExitCode::kInternal);
    EXPECT_THAT(end.error, HasSubstr("the ranks start from different weights"));
  }
}

TEST_F(TrainerTest, TheSampleOrderDoesNotDependOnTheRanks) {
  order_log_ = true;
  const auto lines = [&](int ranks) {
    std::set<std::string> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string path = folder_ / ("order-" + std::to_string(rank));
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) all.insert(line);
      std::filesystem::remove(path);
    }
    return all;
  };
  train(config(), 1, "alone");
  const auto alone = lines(1);
  EXPECT_EQ(alone.size(), 8u * 6);
  train(config(), 4, "four");
  EXPECT_EQ(lines(4), alone);
}

}  // namespace
}  // namespace longship::runtime
