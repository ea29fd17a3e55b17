#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

#include "data/series_writer.h"
#include "data/synthetic.h"
#include "launcher/arguments.h"
#include "launcher/bench.h"
#include "runtime/config_load.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;

struct Preset {
  data::SyntheticSpec series;
  int64_t targets = 0;  // the first columns
  std::string text;     // of the run file, without data.path and the columns
};

std::map<std::string, Preset> presets() {
  return {
      {"seed-lstm",
       {{.series = 2, .rows = 50'000, .columns = 100},
        1,
        "model: {name: lstm, hidden_size: 256, num_layers: 3}\n"
        "train: {epochs: 100, batch_size: 256, micro_batch_size: 256, clip_norm: 1.0}\n"
        "data: {window: 50, horizon: 1"}},
      {"patch-transformer",
       {{.series = 1, .rows = 20'000, .columns = 7},
        7,
        "model: {name: patch_transformer, width: 128, heads: 16, feed_forward: 256, num_layers: 3, "
        "dropout: 0.2}\n"
        "train: {epochs: 100, batch_size: 32, micro_batch_size: 32, clip_norm: 1.0}\n"
        "data: {window: 512, horizon: 96"}},
  };
}

std::string column_list(int64_t count) {
  std::string text = "[";
  for (int64_t i = 0; i < count; ++i) text += (i == 0 ? "x" : ", x") + std::to_string(i);
  return text + "]";
}

}  // namespace

runtime::Config bench_config(const std::string& path, const std::string& preset,
                             const std::vector<std::string>& overrides, const std::string& folder) {
  if (!path.empty()) return runtime::load_config(path, overrides);
  const std::map<std::string, Preset> all = presets();
  const auto found = all.find(preset);
  if (found == all.end()) {
    std::string names;
    for (const auto& [name, unused] : all) names += (names.empty() ? "" : " or ") + name;
    throw runtime::UsageError("there is no preset '" + preset + "': --preset is " + names);
  }
  const Preset& chosen = found->second;
  data::write_series_file((fs::path(folder) / "series.h5").string(),
                          data::make_synthetic(chosen.series), /*overwrite=*/true);
  const std::string text = chosen.text +
                           ", path: series.h5, inputs: " + column_list(chosen.series.columns) +
                           ", targets: " + column_list(chosen.targets) +
                           "}\n"
                           "schedule: {name: cosine, warmup_steps: 10}\n"
                           "comm: {wire: fp16}\n";
  return runtime::parse_config(text, "preset " + preset, folder, overrides);
}

void add_bench_options(cxxopts::Options& table) {
  table.custom_help("[CONFIG | --preset NAME] [OPTIONS]").positional_help("");
  table.add_options()("preset", "seed-lstm (default) or patch-transformer, on synthetic series",
                      cxxopts::value<std::string>(), "NAME");
  table.add_options()("set", "sets a key of the run file (may be repeated)",
                      cxxopts::value<std::vector<std::string>>(), "KEY=VALUE");
  table.add_options()("json", "print one JSON object");
  table.add_options()("h,help", "print this help");
  table.add_options()("config", "a run file", cxxopts::value<std::vector<std::string>>());
  table.parse_positional({"config"});
}

std::optional<cxxopts::ParseResult> parse_bench(cxxopts::Options& table,
                                                const std::vector<std::string>& words,
                                                BenchRequest& request) {
  cxxopts::ParseResult parsed = parse_arguments(table, words);
  if (parsed.count("help") > 0) {
    std::cout << table.help({""});
    return std::nullopt;
  }
  if (parsed.count("config") > 0) {
    const auto paths = parsed["config"].as<std::vector<std::string>>();
    if (paths.size() > 1) throw runtime::UsageError("a benchmark takes one run file");
    if (parsed.count("preset") > 0) {
      throw runtime::UsageError("a benchmark takes a run file or --preset, not both");
    }
    request.path = paths.front();
  }
  request.preset = text_option(parsed, "preset", "seed-lstm");
  if (parsed.count("set") > 0) request.overrides = parsed["set"].as<std::vector<std::string>>();
  request.as_json = parsed.count("json") > 0;
  return parsed;
}

BenchFolder::BenchFolder() {
  std::string pattern = (fs::temp_directory_path() / "longship-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw runtime::ConfigError("cannot make a folder for the benchmark in " +
                               fs::temp_directory_path().string() + ": set TMPDIR to another");
  }
  path_ = pattern;
}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace longship::launcher
