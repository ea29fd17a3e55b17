#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"
#include "models/forecaster.h"
#include "runtime/precision.h"

namespace longship::runtime {

// Errors of one forecast, as means.
struct Scores {
  double mse = 0;
  double mae = 0;
  double rmse = 0;
};

// Errors of a model and of the naive forecasts over a split: every window counted exactly once,
// values that were filled in rather than measured left out. Sums are made in double precision over
// fixed batches of windows, so the result depends neither on the batch size nor on the ranks but
// for the last digits of a double.
class Evaluation {
 public:
  // season: rows after which the seasonal naive forecast repeats; 0 for none.
  Evaluation(std::vector<std::string> targets, const std::vector<double>& target_scales,
             int64_t horizon, int64_t season);

  // Adds a batch. forecast and target (batch, horizon, targets), observed as in data::Batch.
  void add_model(const at::Tensor& forecast, const at::Tensor& target, const at::Tensor& observed);
  // history (batch, window, targets) as Dataset::history().
  void add_naive(const at::Tensor& history, const at::Tensor& target, const at::Tensor& observed);
  // Adds up all ranks' sums. Collective, one all-reduce.
  void reduce(comm::Communicator& host);

  // Rows after which the seasonal naive forecast repeats; 0 when it was not asked for, or when a
  // window holds no full season.
  int64_t season() const { return season_; }
  double observed_values() const;  // target values compared

  enum class Of { kModel, kNaive, kSeasonalNaive };
  Scores normalized(Of of) const;
  Scores original(Of of) const;  // in the data's units
  Scores original_of_target(Of of, size_t target) const;
  Scores normalized_of_target(Of of, size_t target) const;
  Scores normalized_of_step(Of of, int64_t step) const;  // step of the horizon, 0-based
  Scores original_of_step(Of of, int64_t step) const;

 private:
  Scores scores(Of of, bool original_units, std::optional<int64_t> step,
                std::optional<size_t> target) const;

  std::vector<std::string> targets_;
  int64_t season_;
  at::Tensor scales_;  // (targets,) float64
  at::Tensor sums_;  // (1 + 3 * 2, horizon, targets) float64: count, then squared, absolute of each
};

struct EvaluationRequest {
  data::Split split = data::Split::kValidation;
  int64_t batch_size = 256;
  int64_t max_windows = 0;   // 0: all; else that many, evenly spaced
  int64_t season = 0;        // rows; 0: from the data's step (one day, or one week for days)
  int64_t point_output = 0;  // which of the model's outputs is the point forecast
  bool baselines = false;
};

// Windows that an evaluation looks at.
int64_t evaluated_windows(const data::Dataset& dataset, const EvaluationRequest& request);

// The season in rows that follows from the time between rows: a day for steps under a day that
// divide it, a week for daily rows; 0 when unknown.
int64_t season_of(const data::Dataset& dataset, int64_t configured);

// Evaluates the model over a split on all ranks; each takes a run of the batches. Collective: one
// all-reduce on `host`; a rank that fails makes all ranks throw the same error.
Evaluation evaluate(models::Forecaster& model, const data::Dataset& dataset,
                    const EvaluationRequest& request, PrecisionMode precision, c10::Device device,
                    comm::Communicator& host, const std::string& host_name);

}  // namespace longship::runtime
