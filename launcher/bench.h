#pragma once

#include <cxxopts.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config.h"

namespace longship::launcher {

// `longship bench KIND`: measures a part of the program on this machine, with the ranks that it was
// started with. Each prints a table on standard output, or with --json one object; all times are
// medians over blocks of repetitions, since machines are shared.
int bench_train(const std::vector<std::string>& words);
int bench_infer(const std::vector<std::string>& words);
int bench_allreduce(const std::vector<std::string>& words);
int bench_loader(const std::vector<std::string>& words);

// The options that benchmarks of a model share: [CONFIG | --preset NAME] --set --json --help.
struct BenchRequest {
  std::string path;  // of a run file; empty: the preset
  std::string preset;
  std::vector<std::string> overrides;
  bool as_json = false;
};
void add_bench_options(cxxopts::Options& table);
// Parses the words with the table's own options too. Nothing when only help was wanted, which is
// printed. Throws runtime::UsageError.
std::optional<cxxopts::ParseResult> parse_bench(cxxopts::Options& table,
                                                const std::vector<std::string>& words,
                                                BenchRequest& request);

// A run file's settings for a benchmark: of the file given, or of a preset on synthetic series.
//   seed-lstm          inputs 100, window 50, hidden 256 x 3, micro-batch 256 (the seed article's)
//   patch-transformer  7 columns, 512 -> 96, width 128, 3 layers, batch 32
// Synthetic series are written to a file below `folder`, which must outlive their use. Throws as
// load_config() does, UsageError for an unknown preset.
runtime::Config bench_config(const std::string& path, const std::string& preset,
                             const std::vector<std::string>& overrides, const std::string& folder);

// A fresh folder for a benchmark's files, removed with them at the end.
class BenchFolder {
 public:
  BenchFolder();
  ~BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

double median(std::vector<double> values);

}  // namespace longship::launcher
