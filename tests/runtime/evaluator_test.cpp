#include "runtime/evaluator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rank_group.h"
#include "runtime/agreement.h"
#include "runtime/dataset_setup.h"
#include "runtime/model_setup.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;
using Of = Evaluation::Of;

void expect_scores(const Scores& scores, double mse, double mae) {
  EXPECT_NEAR(scores.mse, mse, 1e-12);
  EXPECT_NEAR(scores.mae, mae, 1e-12);
  EXPECT_NEAR(scores.rmse, std::sqrt(mse), 1e-12);
}

// Two samples, two steps, two targets with scales 2 and 10; forecast minus target is `kError`.
class EvaluationTest : public testing::Test {
 protected:
  const at::Tensor error_ =
      at::tensor({1.0, 0.0, 2.0, -1.0, -3.0, 2.0, 0.0, 1.0}, at::kFloat).view({2, 2, 2});
  const at::Tensor target_ = at::randn({2, 2, 2}).round();
  Evaluation evaluation_{{"a", "b"}, {2, 10}, 2, 0};
};

TEST_F(EvaluationTest, Normalised) {
  evaluation_.add_model(target_ + error_, target_, {});
  EXPECT_EQ(evaluation_.observed_values(), 8);
  expect_scores(evaluation_.normalized(Of::kModel), 20.0 / 8, 10.0 / 8);
}

TEST_F(EvaluationTest, InOriginalUnits) {
  evaluation_.add_model(target_ + error_, target_, {});
  // Squares 14 of the first target, 6 of the second; absolutes 6 and 4.
  expect_scores(evaluation_.original(Of::kModel), (14 * 4 + 6 * 100) / 8.0, (6 * 2 + 4 * 10) / 8.0);
}

TEST_F(EvaluationTest, ByTargetAndByStep) {
  evaluation_.add_model(target_ + error_, target_, {});
  expect_scores(evaluation_.normalized_of_target(Of::kModel, 0), 14.0 / 4, 6.0 / 4);
  expect_scores(evaluation_.original_of_target(Of::kModel, 0), 14.0, 3.0);
  expect_scores(evaluation_.normalized_of_target(Of::kModel, 1), 6.0 / 4, 1);
  expect_scores(evaluation_.original_of_target(Of::kModel, 1), 150, 10);
  expect_scores(evaluation_.normalized_of_step(Of::kModel, 0), 14.0 / 4, 6.0 / 4);
  expect_scores(evaluation_.normalized_of_step(Of::kModel, 1), 6.0 / 4, 1);
  // Step 0 has the errors 1 and -3 of the first target, 0 and 2 of the second.
  expect_scores(evaluation_.original_of_step(Of::kModel, 0), (10 * 4 + 4 * 100) / 4.0,
                (4 * 2 + 2 * 10) / 4.0);
}

TEST_F(EvaluationTest, LeavesOutWhatWasNotObserved) {
  at::Tensor observed = at::ones({2, 2, 2}, at::kBool);
  observed[1][0][0] = false;
  at::Tensor target = target_.clone();
  target[1][0][0] = std::numeric_limits<float>::quiet_NaN();
  evaluation_.add_model(target_ + error_, target, observed);
  EXPECT_EQ(evaluation_.observed_values(), 7);
  expect_scores(evaluation_.normalized(Of::kModel), 11.0 / 7, 7.0 / 7);
  expect_scores(evaluation_.normalized_of_target(Of::kModel, 0), 5.0 / 3, 3.0 / 3);
}

TEST_F(EvaluationTest, OfNothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(evaluation_.normalized(Of::kModel).mse));
  evaluation_.add_model(target_ + error_, target_, at::zeros({2, 2, 2}, at::kBool));
  EXPECT_TRUE(std::isnan(evaluation_.original(Of::kModel).rmse));
}

TEST_F(EvaluationTest, BatchesAddUp) {
  for (int64_t i = 0; i < 2; ++i) {
    const at::Tensor target = target_.narrow(0, i, 1);
    evaluation_.add_model(target + error_.narrow(0, i, 1), target, {});
  }
  expect_scores(evaluation_.normalized(Of::kModel), 20.0 / 8, 10.0 / 8);
}

TEST(NaiveForecast, RepeatsTheLastValue) {
  Evaluation evaluation({"a"}, {1}, 3, 0);
  const at::Tensor history = at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({1, 4, 1});
  evaluation.add_model(at::zeros({1, 3, 1}), at::full({1, 3, 1}, 6.0f), {});
  evaluation.add_naive(history, at::full({1, 3, 1}, 6.0f), {});
  expect_scores(evaluation.normalized(Of::kNaive), 4, 2);
}

TEST(SeasonalNaiveForecast, RepeatsTheLastSeasonInPhaseBeyondItsLength) {
  Evaluation evaluation({"a"}, {1}, 5, 3);
  const at::Tensor history = at::tensor({9.0f, 2.0f, 3.0f, 4.0f}).view({1, 4, 1});
  const at::Tensor target = at::zeros({1, 5, 1});
  evaluation.add_model(target, target, {});
  evaluation.add_naive(history, target, {});
  // The forecast is 2, 3, 4, 2, 3.
  expect_scores(evaluation.normalized(Of::kSeasonalNaive), (4 + 9 + 16 + 4 + 9) / 5.0, 14.0 / 5);
  EXPECT_NEAR(evaluation.normalized_of_step(Of::kSeasonalNaive, 3).mae, 2, 1e-12);
}

TEST(SeasonalNaiveForecast, OfAFullWindowStartsAtItsFirstRow) {
  Evaluation evaluation({"a"}, {1}, 1, 4);
  const at::Tensor target = at::zeros({1, 1, 1});
  evaluation.add_model(target, target, {});
  evaluation.add_naive(at::tensor({9.0f, 2.0f, 3.0f, 4.0f}).view({1, 4, 1}), target, {});
  expect_scores(evaluation.normalized(Of::kSeasonalNaive), 81, 9);
}

// A file with 101 validation windows, and an untrained linear model on it.
class EvaluateTest : public testing::Test {
 protected:
  EvaluateTest() {
    write_waves(folder_, {180});
    config_ = tests::wave_config(folder_);
    data::DatasetSpec spec = dataset_spec(config_);
    spec.split = data::SplitRows{{{0, 60}, {60, 162}, {162, 180}}};
    dataset_ = data::Dataset::open(spec);
    model_ = make_model(config_);
    request_.season = 4;
    request_.baselines = true;
  }

  // The evaluation that each of `ranks` ranks gets.
  std::vector<Evaluation> evaluate_on(int ranks) {
    const tests::Group group = comm::make_local_group(ranks);
    std::vector<std::optional<Evaluation>> found(static_cast<size_t>(ranks));
    std::vector<std::shared_ptr<models::Forecaster>> models;
    for (int rank = 0; rank < ranks; ++rank) models.push_back(make_model(config_));
    tests::play_ranks(ranks, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      found[r] = evaluate(*models[r], *dataset_, request_, PrecisionMode::kFp32, c10::kCPU,
                          tests::member(group, rank), "node");
    });
    std::vector<Evaluation> all;
    for (const auto& one : found) all.push_back(*one);
    return all;
  }

  tests::TemporaryFolder folder_;
  Config config_;
  std::shared_ptr<const data::Dataset> dataset_;
  std::shared_ptr<models::Forecaster> model_;
  EvaluationRequest request_;
};

TEST_F(EvaluateTest, CountsEveryWindowOnceAndAgreesWithASumByHand) {
  ASSERT_EQ(dataset_->windows(data::Split::kValidation), 101);
  double squared = 0;
  double absolute = 0;
  double naive = 0;
  double seasonal = 0;
  for (int64_t w = 0; w < 101; ++w) {
    const std::vector<int64_t> window = {w};
    const data::Batch batch = dataset_->gather(request_.split, window);
    const at::Tensor history = dataset_->history(request_.split, window).to(at::kDouble);
    models::Inputs inputs;
    inputs.past = batch.past;
    const at::Tensor forecast = model_->forward(inputs).values.detach();
    for (int64_t h = 0; h < 2; ++h) {
      const auto target = batch.target[0][h][0].item<double>();
      const double error = forecast[0][h][0][0].item<double>() - target;
      squared += error * error;
      absolute += std::abs(error);
      naive += std::abs(history[0][5][0].item<double>() - target);
      seasonal += std::abs(history[0][2 + h][0].item<double>() - target);
    }
  }
  const Evaluation evaluation = evaluate_on(1).front();
  EXPECT_EQ(evaluation.observed_values(), 202);
  EXPECT_EQ(evaluation.season(), 4);
  EXPECT_NEAR(evaluation.normalized(Of::kModel).mse, squared / 202, 1e-6);
  EXPECT_NEAR(evaluation.normalized(Of::kModel).mae, absolute / 202, 1e-6);
  EXPECT_NEAR(evaluation.normalized(Of::kNaive).mae, naive / 202, 1e-9);
  EXPECT_NEAR(evaluation.normalized(Of::kSeasonalNaive).mae, seasonal / 202, 1e-9);
  const double scale = dataset_->normalizer().scale[dataset_->normalizer().index("a")];
  EXPECT_NEAR(evaluation.original(Of::kModel).mae, scale * absolute / 202, 1e-6);
}

TEST_F(EvaluateTest, DependsNeitherOnRanksNorOnTheBatchSize) {
  const Evaluation expected = evaluate_on(1).front();
  for (const int64_t batch_size : {1, 8, 64}) {
    request_.batch_size = batch_size;
    const Evaluation alone = evaluate_on(1).front();
    EXPECT_EQ(alone.observed_values(), 202) << batch_size;
    // A product of another size may round otherwise in float32.
    EXPECT_NEAR(alone.normalized(Of::kModel).mse, expected.normalized(Of::kModel).mse, 1e-6);
    for (int ranks = 2; ranks <= 7; ++ranks) {
      for (const Evaluation& one : evaluate_on(ranks)) {
        EXPECT_EQ(one.observed_values(), 202) << batch_size << ", ranks " << ranks;
        for (const Of of : {Of::kModel, Of::kNaive, Of::kSeasonalNaive}) {
          EXPECT_NEAR(one.normalized(of).mse, alone.normalized(of).mse, 1e-12) << ranks;
          EXPECT_NEAR(one.original(of).mae, alone.original(of).mae, 1e-12) << ranks;
        }
      }
    }
  }
}

TEST_F(EvaluateTest, LooksAtSoManyWindowsEvenlySpaced) {
  request_.max_windows = 10;
  EXPECT_EQ(evaluated_windows(*dataset_, request_), 10);
  const Evaluation some = evaluate_on(3).front();
  EXPECT_EQ(some.observed_values(), 20);
  double naive = 0;
  for (int64_t i = 0; i < 10; ++i) {
    const std::vector<int64_t> window = {i * 101 / 10};
    const at::Tensor history = dataset_->history(request_.split, window).to(at::kDouble);
    const at::Tensor target = dataset_->gather(request_.split, window).target.to(at::kDouble);
    naive += (history.select(1, 5).unsqueeze(1) - target).abs().sum().item<double>();
  }
  EXPECT_NEAR(some.normalized(Of::kNaive).mae, naive / 20, 1e-9);
  request_.max_windows = 1000;
  EXPECT_EQ(evaluated_windows(*dataset_, request_), 101);
}

TEST_F(EvaluateTest, KnowsNoSeasonLongerThanTheWindow) {
  request_.season = 7;
  EXPECT_EQ(evaluate_on(1).front().season(), 0);
  request_.season = 6;
  EXPECT_EQ(evaluate_on(1).front().season(), 6);
  request_.baselines = false;
  EXPECT_EQ(evaluate_on(1).front().season(), 0);
}

TEST_F(EvaluateTest, TakesTheSeasonFromTheDataStep) {
  EXPECT_EQ(season_of(*dataset_, 0), 24);
  EXPECT_EQ(season_of(*dataset_, 5), 5);
  const auto with_step = [&](int64_t seconds) {
    data::SeriesTable table = tests::wave_table({180});
    for (size_t i = 0; i < table.time.size(); ++i) {
      table.time[i] = static_cast<int64_t>(i) * seconds * 1000000000;
    }
    if (seconds == 0) table.time.clear();
    data::write_series_file(folder_ / "series.h5", table, true);
    return season_of(*data::Dataset::open(dataset_spec(config_)), 0);
  };
  EXPECT_EQ(with_step(900), 96);
  EXPECT_EQ(with_step(86400), 7);
  EXPECT_EQ(with_step(7 * 3600), 0);
  EXPECT_EQ(with_step(2 * 86400), 0);
  EXPECT_EQ(with_step(0), 0);
}

TEST_F(EvaluateTest, LeavesTheModelInItsMode) {
  model_->train();
  const auto alone = comm::make_local_communicator();
  evaluate(*model_, *dataset_, request_, PrecisionMode::kFp32, c10::kCPU, *alone, "node");
  EXPECT_TRUE(model_->is_training());
}

TEST_F(EvaluateTest, AFailingRankMakesAllFail) {
  const tests::Group group = comm::make_local_group(3);
  std::vector<std::shared_ptr<models::Forecaster>> models;
  for (int rank = 0; rank < 3; ++rank) {
    Config config = config_;
    // A model of another window cannot read these batches.
    config.data.window = rank == 1 ? 5 : 6;
    models.push_back(make_model(config));
  }
  request_.batch_size = 8;
  std::vector<std::string> errors(3);
  tests::play_ranks(3, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    try {
      evaluate(*models[r], *dataset_, request_, PrecisionMode::kFp32, c10::kCPU,
               tests::member(group, rank), "node");
    } catch (const AgreedError& error) {
      errors[r] = error.what();
    }
  });
  EXPECT_THAT(errors, testing::Each(HasSubstr("[rank 1 of 3 (node)]")));
}

}  // namespace
}  // namespace longship::runtime
