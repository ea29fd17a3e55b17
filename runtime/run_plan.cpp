#include "runtime/run_plan.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "comm/gradient_shards.h"

namespace longship::runtime {
namespace {

std::string format(const char* form, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

// 1234567 -> "1,234,567"
std::string grouped(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + words[i];
  }
  return words.size() > kShown ? text + ", ... (" + std::to_string(words.size()) + ")" : text;
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return format(unit == 0 ? "%.0f " : "%.1f ", bytes) + kUnits[unit];
}

std::vector<std::string> RunPlan::lines() const {
  size_t width = 0;
  for (const auto& row : rows) {
    width = std::max(width, row.first.size());
  }
  std::vector<std::string> lines;
  lines.reserve(rows.size());
  for (const auto& [name, value] : rows) {
    lines.push_back(name + std::string(width + 2 - name.size(), ' ') + value);
  }
  return lines;
}

std::vector<std::string> plan_advice(const Config& config, const data::Dataset& dataset) {
  std::vector<std::string> lines;
  if (dataset.windows(data::Split::kValidation) == 0 &&
      (config.eval.every_epochs > 0 || config.eval.every_steps > 0)) {
    lines.emplace_back(
        "there are no validation windows (data.split): nothing is evaluated during the training, "
        "and eval.patience has no effect");
  }
  const int64_t windows = dataset.windows(data::Split::kTrain);
  if (config.train.batch_size > windows) {
    lines.push_back("train.batch_size " + std::to_string(config.train.batch_size) +
                    " is more than the " + grouped(windows) +
                    " training windows: a step goes over all of them " +
                    format("%.3g", static_cast<double>(config.train.batch_size) /
                                       static_cast<double>(windows)) +
                    " times");
  }
  return lines;
}

RunPlan make_run_plan(const RunPlanFacts& facts) {
  const Config& config = facts.config;
  const data::Dataset& dataset = facts.dataset;
  int64_t parameters = 0;
  for (const at::Tensor& parameter : facts.model.parameters()) {
    parameters += parameter.numel();
  }
  // A half-precision bucket carries the ranks' exponents behind its elements (comm/wire_scale.h).
  const bool alone = facts.ranks == 1 && (facts.backend == "local" || facts.backend == "auto");
  const bool half = config.comm.wire != "fp32";
  int64_t bucket_elements = 0;
  int64_t largest_bucket = 0;
  int64_t wire_bytes = 0;
  const bool shard = config.optimizer.shard;
  int64_t part_elements = 0;  // of the gradients that a rank gets
  for (const comm::BucketLayout& bucket : facts.reducer.layout()) {
    bucket_elements += bucket.elements;
    largest_bucket = std::max(largest_bucket, bucket.elements);
    if (shard) {
      // Gradients there, a rank's part of the parameters back.
      const int64_t part = comm::shard_elements(bucket.elements, facts.ranks);
      wire_bytes +=
          (half ? 2 * (part * facts.ranks + facts.ranks) : 4 * part * facts.ranks) + 4 * part;
      part_elements += part;
    } else {
      wire_bytes += half ? 2 * (bucket.elements + facts.ranks) : 4 * bucket.elements;
    }
  }
  const int states = config.optimizer.name == "adamw" ? 2 : config.optimizer.momentum > 0 ? 1 : 0;
  const int64_t state_elements = shard ? part_elements * (1 + states) : parameters * states;
  const double memory = 4.0 * static_cast<double>(parameters + bucket_elements + state_elements);

  RunPlan plan;
  plan.rows = {
      {"data", joined(config.data.path) + ": " + grouped(dataset.series_count()) + " series, " +
                   grouped(dataset.rows()) + " rows, " +
                   bytes_text(static_cast<double>(dataset.bytes())) + " in memory"},
      {"columns", joined(config.data.inputs) + " -> " + joined(config.data.targets)},
      {"windows", grouped(dataset.windows(data::Split::kTrain)) + " train, " +
                      grouped(dataset.windows(data::Split::kValidation)) + " validation, " +
                      grouped(dataset.windows(data::Split::kTest)) + " test (" +
                      std::to_string(config.data.window) + " rows -> " +
                      std::to_string(config.data.horizon) + ")"},
      {"model", config.model.name + ", " + grouped(parameters) + " parameters"},
      {"memory a rank",
       bytes_text(memory) + " for weights, gradients and " + config.optimizer.name + " state" +
           (shard ? " (1/" + std::to_string(facts.ranks) + " of it)" : "") + ", and activations"},
      {"devices", facts.devices + ", precision " + facts.precision},
      {"batch", facts.batches.describe(facts.ranks)},
      {"steps", grouped(facts.batches.total_steps) + " (" +
                    format("%.4g", facts.batches.epoch(facts.batches.total_steps)) + " epochs)"},
      {"buckets", std::to_string(facts.reducer.layout().size()) + " of up to " +
                      bytes_text(4.0 * static_cast<double>(largest_bucket)) +
                      (config.comm.bucket_mib > 0 ? "" : " (comm.bucket_mib: auto)")},
      {"wire", alone ? "nothing to send with one rank"
                     : config.comm.wire + " over " + facts.backend + ", " +
                           bytes_text(static_cast<double>(wire_bytes)) + " a step and rank"},
      {"optimizer", config.optimizer.name + ", lr " + format("%g", config.optimizer.lr) + ", " +
                        config.schedule.name + " schedule, warm-up of " +
                        std::to_string(config.schedule.warmup_steps) + " steps"},
  };
  return plan;
}

}  // namespace longship::runtime
