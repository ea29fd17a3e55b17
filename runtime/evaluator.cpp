#include "runtime/evaluator.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/agreement.h"

namespace longship::runtime {
namespace {

constexpr int kCount = 0;
constexpr int kSquared = 0;
constexpr int kAbsolute = 1;

// Window numbers of batch `batch`: all windows, or max_windows of them evenly spaced.
std::vector<int64_t> windows_of_batch(int64_t batch, int64_t batch_size, int64_t chosen,
                                      int64_t available) {
  const int64_t begin = batch * batch_size;
  const int64_t end = std::min(begin + batch_size, chosen);
  std::vector<int64_t> windows(static_cast<size_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) {
    windows[static_cast<size_t>(i - begin)] = i * available / chosen;
  }
  return windows;
}

}  // namespace

Evaluation::Evaluation(std::vector<std::string> targets, const std::vector<double>& target_scales,
                       int64_t horizon, int64_t season)
    : targets_(std::move(targets)),
      season_(season),
      scales_(at::tensor(target_scales, at::kDouble)) {
  sums_ = at::zeros({1 + 3 * 2, horizon, static_cast<int64_t>(targets_.size())}, at::kDouble);
}

namespace {

// Adds |error| and error^2 of the observed values to rows `row` and `row + 1` of the sums.
void add_errors(const at::Tensor& sums, int64_t row, const at::Tensor& forecast,
                const at::Tensor& target, const at::Tensor& observed) {
  at::Tensor error = forecast.to(at::kCPU, at::kDouble) - target.to(at::kCPU, at::kDouble);
  if (observed.defined()) {
    error = at::where(observed.to(at::kCPU), error, at::zeros({}, at::kDouble));
  }
  sums[row + kSquared].add_(error.square().sum(0));
  sums[row + kAbsolute].add_(error.abs().sum(0));
}

int64_t row_of(Evaluation::Of of) {
  return 1 + 2 * static_cast<int64_t>(of);
}

}  // namespace

void Evaluation::add_model(const at::Tensor& forecast, const at::Tensor& target,
                           const at::Tensor& observed) {
  add_errors(sums_, row_of(Of::kModel), forecast, target, observed);
  if (observed.defined()) {
    sums_[kCount].add_(observed.to(at::kCPU, at::kDouble).sum(0));
  } else {
    sums_[kCount].add_(static_cast<double>(target.size(0)));
  }
}

void Evaluation::add_naive(const at::Tensor& history, const at::Tensor& target,
                           const at::Tensor& observed) {
  const int64_t window = history.size(1);
  const int64_t horizon = target.size(1);
  const at::Tensor last = history.narrow(1, window - 1, 1).expand_as(target);
  add_errors(sums_, row_of(Of::kNaive), last, target, observed);
  if (season_ > 0) {
    // Step h repeats the value of the same phase in the last full season of the window.
    const at::Tensor phase = at::arange(horizon, at::kLong).remainder(season_) + (window - season_);
    add_errors(sums_, row_of(Of::kSeasonalNaive), history.index_select(1, phase), target, observed);
  }
}

void Evaluation::reduce(comm::Communicator& host) {
  host.all_reduce(sums_, comm::ReduceOp::kSum);
}

double Evaluation::observed_values() const {
  return sums_[kCount].sum().item<double>();
}

Scores Evaluation::scores(Of of, bool original_units, std::optional<int64_t> step,
                          std::optional<size_t> target) const {
  const auto total = [&](int64_t row, const at::Tensor& weights) {
    at::Tensor values = sums_[row] * weights;
    if (target) {
      values = values.select(1, static_cast<int64_t>(*target)).unsqueeze(1);
    }
    if (step) {
      values = values[*step];
    }
    return values.sum().item<double>();
  };
  const at::Tensor one = at::ones_like(scales_);
  const double count = total(kCount, one);
  Scores result;
  if (count == 0) {
    const double nothing = std::nan("");
    return {nothing, nothing, nothing};
  }
  const at::Tensor unit = original_units ? scales_ : one;
  result.mse = total(row_of(of) + kSquared, unit * unit) / count;
  result.mae = total(row_of(of) + kAbsolute, unit) / count;
  result.rmse = std::sqrt(result.mse);
  return result;
}

Scores Evaluation::normalized(Of of) const {
  return scores(of, false, {}, {});
}
Scores Evaluation::original(Of of) const {
  return scores(of, true, {}, {});
}
Scores Evaluation::original_of_target(Of of, size_t target) const {
  return scores(of, true, {}, target);
}
Scores Evaluation::normalized_of_target(Of of, size_t target) const {
  return scores(of, false, {}, target);
}
Scores Evaluation::normalized_of_step(Of of, int64_t step) const {
  return scores(of, false, step, {});
}
Scores Evaluation::original_of_step(Of of, int64_t step) const {
  return scores(of, true, step, {});
}

int64_t evaluated_windows(const data::Dataset& dataset, const EvaluationRequest& request) {
  const int64_t available = dataset.windows(request.split);
  return request.max_windows > 0 ? std::min(request.max_windows, available) : available;
}

int64_t season_of(const data::Dataset& dataset, int64_t configured) {
  if (configured > 0) {
    return configured;
  }
  constexpr int64_t kDay = int64_t{86400} * 1000000000;
  const int64_t step = dataset.step_ns();
  if (step <= 0) {
    return 0;
  }
  if (step < kDay) {
    return kDay % step == 0 ? kDay / step : 0;
  }
  return step == kDay ? 7 : 0;
}

Evaluation evaluate(models::Forecaster& model, const data::Dataset& dataset,
                    const EvaluationRequest& request, PrecisionMode precision, c10::Device device,
                    comm::Communicator& host, const std::string& host_name) {
  const data::DatasetSpec& spec = dataset.spec();
  std::vector<double> scales;
  scales.reserve(spec.targets.size());
  for (const std::string& target : spec.targets) {
    scales.push_back(dataset.normalizer().scale[dataset.normalizer().index(target)]);
  }
  const int64_t season = season_of(dataset, request.season);
  Evaluation evaluation(spec.targets, scales, spec.horizon,
                        request.baselines && season <= spec.window ? season : 0);
  const int64_t available = dataset.windows(request.split);
  const int64_t chosen = evaluated_windows(dataset, request);
  const int64_t batches = (chosen + request.batch_size - 1) / request.batch_size;

  const bool was_training = model.is_training();
  model.eval();
  collectively(host, host_name, [&] {
    const at::NoGradGuard no_grad;
    for (int64_t b = batches * host.rank() / host.size();
         b < batches * (host.rank() + 1) / host.size(); ++b) {
      const std::vector<int64_t> windows =
          windows_of_batch(b, request.batch_size, chosen, available);
      const data::Batch batch = dataset.gather(request.split, windows);
      models::Inputs inputs;
      inputs.past = batch.past.to(device);
      at::Tensor forecast;
      {
        const AutocastGuard autocast(precision, device);
        forecast = model.forward(inputs).values.select(-1, request.point_output);
      }
      evaluation.add_model(forecast, batch.target, batch.observed);
      if (request.baselines) {
        evaluation.add_naive(dataset.history(request.split, windows), batch.target, batch.observed);
      }
    }
  });
  model.train(was_training);
  evaluation.reduce(host);
  return evaluation;
}

}  // namespace longship::runtime
