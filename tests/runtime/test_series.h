#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "data/series_store.h"
#include "runtime/config_load.h"
#include "temporary_folder.h"

namespace longship::data {
// As in data/series_file.h, which includes hdf5.h and so is for the data folder alone.
void write_series_file(const std::string& path, const SeriesTable& table, bool overwrite);
}  // namespace longship::data

namespace longship::tests {

// Rows of every series: "a" is a wave with noise, "b" another, both from the seed; hourly from
// 1970.
inline data::SeriesTable wave_table(const std::vector<int64_t>& rows, uint64_t seed = 1) {
  constexpr int64_t kHour = int64_t{3600} * 1000000000;
  data::SeriesTable table;
  table.columns = {"a", "b"};
  at::manual_seed(seed);
  std::vector<at::Tensor> parts;
  for (const int64_t count : rows) {
    const at::Tensor t = at::arange(count, at::kFloat);
    const at::Tensor noise = 0.1 * at::randn({count, 2});
    parts.push_back(at::stack({10 + 3 * (t * 0.26).sin(), 2 * (t * 0.11).cos() - 5}, 1) + noise);
    std::string name = "s";
    name += std::to_string(table.series.size());
    table.series.push_back(name);
    table.offsets.push_back(table.offsets.back() + count);
    for (int64_t i = 0; i < count; ++i) table.time.push_back(i * kHour);
  }
  table.values = at::cat(parts).contiguous();
  return table;
}

// Writes waves to FOLDER/series.h5.
inline std::string write_waves(const TemporaryFolder& folder, const std::vector<int64_t>& rows,
                               uint64_t seed = 1) {
  const std::string path = folder / "series.h5";
  data::write_series_file(path, wave_table(rows, seed), /*overwrite=*/true);
  return path;
}

// A run on write_waves()'s file: window 6, horizon 2, inputs a and b, target a, linear model, G
// = 6.
inline runtime::Config wave_config(const TemporaryFolder& folder,
                                   const std::vector<std::string>& overrides = {}) {
  return runtime::parse_config(
      "data: {path: series.h5, inputs: [a, b], targets: [a], window: 6, horizon: 2}\n"
      "model: {name: linear}\n"
      "train: {steps: 8, batch_size: 24, micro_batch_size: 4}\n"
      "comm: {wire: fp32}\n",
      "run.yaml", folder.path().string(), overrides);
}

}  // namespace longship::tests
