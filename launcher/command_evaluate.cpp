#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/text_collectives.h"
#include "launcher/arguments.h"
#include "launcher/command.h"
#include "launcher/json_text.h"
#include "launcher/parallel_command.h"
#include "runtime/agreement.h"
#include "runtime/checkpoint.h"
#include "runtime/config_load.h"
#include "runtime/dataset_setup.h"
#include "runtime/evaluator.h"
#include "runtime/implementation_choice.h"
#include "runtime/loss.h"
#include "runtime/model_setup.h"
#include "runtime/training_state_io.h"

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using runtime::Config;
using runtime::Evaluation;
using runtime::Scores;
using Of = runtime::Evaluation::Of;

struct EvaluateOptions {
  std::string path;
  data::Split split = data::Split::kTest;
  std::string data_file;
  bool as_json = false;
};

data::Split parse_split(const std::string& name) {
  for (const data::Split split :
       {data::Split::kTrain, data::Split::kValidation, data::Split::kTest, data::Split::kAll}) {
    if (name == data::to_string(split)) {
      return split;
    }
  }
  throw runtime::UsageError("--split is train, validation, test or all, not '" + name + "'");
}

json number(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json scores_json(const Scores& scores, bool with_rmse) {
  json result = {{"mse", number(scores.mse)}, {"mae", number(scores.mae)}};
  if (with_rmse) {
    result["rmse"] = number(scores.rmse);
  }
  return result;
}

json both_units(const Scores& normalized, const Scores& original) {
  return {{"normalized", scores_json(normalized, false)},
          {"original", scores_json(original, true)}};
}

json evaluation_json(const Evaluation& evaluation, const data::Dataset& dataset,
                     const EvaluateOptions& options, const std::string& checkpoint,
                     int64_t windows) {
  json result = both_units(evaluation.normalized(Of::kModel), evaluation.original(Of::kModel));
  result["checkpoint"] = checkpoint;
  result["split"] = data::to_string(options.split);
  result["windows"] = windows;
  result["values"] = static_cast<int64_t>(evaluation.observed_values());
  const auto& targets = dataset.spec().targets;
  for (size_t t = 0; t < targets.size(); ++t) {
    result["per_target"][targets[t]] = both_units(evaluation.normalized_of_target(Of::kModel, t),
                                                  evaluation.original_of_target(Of::kModel, t));
  }
  result["per_step"] = json::array();
  for (int64_t step = 0; step < dataset.spec().horizon; ++step) {
    result["per_step"].push_back(both_units(evaluation.normalized_of_step(Of::kModel, step),
                                            evaluation.original_of_step(Of::kModel, step)));
  }
  result["baselines"]["naive"] =
      both_units(evaluation.normalized(Of::kNaive), evaluation.original(Of::kNaive));
  result["baselines"]["seasonal_naive"] =
      evaluation.season() > 0 ? both_units(evaluation.normalized(Of::kSeasonalNaive),
                                           evaluation.original(Of::kSeasonalNaive))
                              : json(nullptr);
  if (evaluation.season() > 0) {
    result["baselines"]["seasonal_naive"]["season"] = evaluation.season();
  }
  return result;
}

void print_row(const char* name, const Scores& normalized, const Scores& original) {
  std::printf("%-22s %12.6g %12.6g %12.6g %12.6g\n", name, original.rmse, original.mae,
              normalized.mse, normalized.mae);
}

void print_table(const Evaluation& evaluation, const data::Dataset& dataset,
                 const EvaluateOptions& options, const std::string& checkpoint, int64_t windows) {
  std::printf("checkpoint %s\n%s part: %lld windows of %lld rows -> %lld\n\n", checkpoint.c_str(),
              data::to_string(options.split), static_cast<long long>(windows),
              static_cast<long long>(dataset.spec().window),
              static_cast<long long>(dataset.spec().horizon));
  std::printf("%-22s %12s %12s %12s %12s\n", "", "RMSE", "MAE", "MSE", "MAE");
  std::printf("%-22s %12s %12s %12s %12s\n", "", "orig. units", "orig. units", "normalised",
              "normalised");
  const auto row = [&evaluation](const char* name, Of of) {
    print_row(name, evaluation.normalized(of), evaluation.original(of));
  };
  row("model", Of::kModel);
  row("last value", Of::kNaive);
  if (evaluation.season() > 0) {
    const std::string name = "value " + std::to_string(evaluation.season()) + " rows ago";
    row(name.c_str(), Of::kSeasonalNaive);
  }
  const auto& targets = dataset.spec().targets;
  if (targets.size() > 1) {
    std::printf("\nmodel, by target\n");
    for (size_t t = 0; t < targets.size(); ++t) {
      print_row(targets[t].c_str(), evaluation.normalized_of_target(Of::kModel, t),
                evaluation.original_of_target(Of::kModel, t));
    }
  }
}

// The training's precision where this device has it, else fp32.
runtime::PrecisionMode precision_here(const Config& config, const Session& session) {
  try {
    return runtime::resolve_precision(config.precision.mode, session.device, *session.host);
  } catch (const runtime::Error&) {
    return runtime::PrecisionMode::kFp32;
  }
}

// Of several ways to compute the model, the fastest here.
void choose_implementation(models::Forecaster& model, const Config& config,
                           runtime::PrecisionMode precision, const Session& session) {
  model.eval();
  const auto timed = runtime::time_on_all_ranks(
      model, config.eval.batch_size, runtime::model_shape(config), precision, /*as_graph=*/false,
      session.device, *session.host, session.host_name);
  if (!timed.empty()) model.use_implementation(runtime::fastest(timed));
}

int evaluate_checkpoint(const EvaluateOptions& options, Session& session) {
  std::string checkpoint;
  runtime::TrainingState state;
  Config config;
  std::shared_ptr<const data::Dataset> dataset;
  std::shared_ptr<models::Forecaster> model;
  connect_devices(session, "auto", std::chrono::seconds(600));
  // One rank looks, for a training may be moving the links.
  runtime::collectively(*session.host, session.host_name, [&] {
    if (session.host->rank() == 0) {
      checkpoint = runtime::resolve_checkpoint(options.path, runtime::Prefer::kBest);
    }
  });
  checkpoint = comm::broadcast_text(*session.host, checkpoint, 0);
  runtime::collectively(*session.host, session.host_name, [&] {
    state = runtime::read_checkpoint(checkpoint, runtime::Parts::kWeights);
    // RUN/checkpoints/step-...: data paths are relative to the run directory.
    const fs::path run = fs::absolute(checkpoint).parent_path().parent_path();
    config = runtime::parse_config(state.scalars.at("config").at("text").get<std::string>(),
                                   checkpoint + "/manifest.json", run.string());
    if (!options.data_file.empty()) {
      config.data.path = {fs::absolute(options.data_file).string()};
      config.data.dataset.clear();
    }
    dataset = data::Dataset::open(runtime::dataset_spec(
        config, runtime::normalizer_from_json(state.scalars.at("normalizer"))));
    if (dataset->windows(options.split) == 0) {
      throw runtime::ConfigError(std::string("the ") + data::to_string(options.split) +
                                 " part holds no window of " +
                                 std::to_string(config.data.window + config.data.horizon) +
                                 " rows: choose another --split or give longer --data");
    }
    model = runtime::make_model(config, runtime::Weights::kAny);
    runtime::load_model_weights(*model, state.weights);
    model->to(session.device);
    model->on_device();
  });
  const runtime::PrecisionMode precision = precision_here(config, session);
  runtime::apply_precision(precision, session.device);
  choose_implementation(*model, config, precision, session);

  runtime::EvaluationRequest request;
  request.split = options.split;
  request.batch_size = config.eval.batch_size;
  request.season = config.eval.season;
  request.point_output = runtime::point_output(config.train);
  request.baselines = true;
  const Evaluation evaluation = runtime::evaluate(*model, *dataset, request, precision,
                                                  session.device, *session.host, session.host_name);
  const int64_t windows = runtime::evaluated_windows(*dataset, request);
  // The sums are of all ranks, so that all come to the same end.
  if (evaluation.observed_values() == 0) {
    throw runtime::AgreedError(
        runtime::ExitCode::kInput,
        std::string("every target value in the windows of the ") + data::to_string(options.split) +
            " part is missing, so that there is nothing to compare with: choose another --split or "
            "--data");
  }
  if (session.host->rank() == 0) {
    if (options.as_json) {
      std::cout << text_of(evaluation_json(evaluation, *dataset, options, checkpoint, windows))
                << std::endl;
    } else {
      print_table(evaluation, *dataset, options, checkpoint, windows);
      std::fflush(stdout);
    }
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  cxxopts::Options table("longship evaluate",
                         "Compares a model's forecasts with what came, over every window of a part "
                         "of the data exactly once, next to the naive forecasts.\n"
                         "RUN means its best checkpoint, or its latest where there is no best.");
  table.custom_help("RUN|CHECKPOINT [--split test] [--data FILE] [--json]");
  table.positional_help("");
  table.add_options()  //
      ("split", "train, validation, test or all (default: test; all with --data)",
       cxxopts::value<std::string>(), "NAME")                                           //
      ("data", "evaluate on this file instead", cxxopts::value<std::string>(), "FILE")  //
      ("json", "print one JSON object")                                                 //
      ("h,help", "print this help")                                                     //
      ("path", "", cxxopts::value<std::vector<std::string>>());
  table.parse_positional({"path"});
  const cxxopts::ParseResult parsed = parse_arguments(table, arguments);
  if (parsed.count("help") > 0) {
    std::cout << table.help({""});
    return 0;
  }
  if (parsed.count("path") != 1) {
    throw runtime::UsageError("evaluate takes one run or checkpoint; see longship evaluate --help");
  }
  EvaluateOptions options;
  options.path = parsed["path"].as<std::vector<std::string>>().front();
  options.data_file = text_option(parsed, "data", "");
  options.split =
      parse_split(text_option(parsed, "split", options.data_file.empty() ? "test" : "all"));
  options.as_json = parsed.count("json") > 0;
  return run_parallel(std::chrono::seconds(600), [&options](Session& session) {
    return evaluate_checkpoint(options, session);
  });
}

}  // namespace

Command evaluate_command() {
  return {"evaluate", "measure a trained model on a part of the data", run};
}

}  // namespace longship::launcher
