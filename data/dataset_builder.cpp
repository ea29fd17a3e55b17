#include "data/dataset_builder.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "data/error.h"
#include "data/fingerprint.h"
#include "data/missing_values.h"
#include "data/normalizer_fit.h"
#include "data/split_rows.h"
#include "data/time_parser.h"

namespace longship::data {
namespace {

void check_spec(const DatasetSpec& spec) {
  const auto positive = [](int64_t value, const char* key) {
    if (value < 1) {
      throw DataError(std::string(key) + " is " + std::to_string(value) +
                      "; it must be at least 1");
    }
  };
  positive(spec.window, "data.window");
  positive(spec.horizon, "data.horizon");
  positive(spec.stride, "data.stride");
  const auto distinct = [](const std::vector<std::string>& names, const char* key) {
    if (names.empty()) throw DataError(std::string(key) + " names no column");
    std::set<std::string> seen;
    for (const std::string& name : names) {
      if (!seen.insert(name).second)
        throw DataError(std::string(key) + " names '" + name + "' twice");
    }
  };
  distinct(spec.inputs, "data.inputs");
  distinct(spec.targets, "data.targets");
  check_split(spec.split);
}

// Inputs first, so that they are neighbours in memory.
std::vector<std::string> used_columns(const DatasetSpec& spec) {
  std::vector<std::string> used = spec.inputs;
  for (const std::string& target : spec.targets) {
    if (std::find(used.begin(), used.end(), target) == used.end()) used.push_back(target);
  }
  return used;
}

std::span<const int64_t> time_of(const SeriesTable& table, size_t series) {
  if (table.time.empty()) return {};
  return std::span(table.time)
      .subspan(static_cast<size_t>(table.offsets[series]),
               static_cast<size_t>(table.offsets[series + 1] - table.offsets[series]));
}

void check_time(const SeriesTable& table) {
  for (size_t s = 0; s < table.series.size(); ++s) {
    const std::span<const int64_t> time = time_of(table, s);
    const auto bad = std::adjacent_find(time.begin(), time.end(), std::greater_equal<>());
    if (bad == time.end()) continue;
    throw DataError(table.place(s) + ", row " + std::to_string(bad - time.begin() + 1) +
                    ": its time stamp, " + format_time(*(bad + 1)) +
                    ", does not come after the one before, " + format_time(*bad) +
                    "; write the rows in order of time, each time once (in pandas: "
                    "df[~df.index.duplicated()].sort_index())");
  }
}

void keep_series(SeriesTable& table, const std::vector<bool>& keep) {
  if (std::all_of(keep.begin(), keep.end(), [](bool k) { return k; })) return;
  SeriesTable kept;
  kept.columns = table.columns;
  kept.notes = table.notes;
  std::vector<at::Tensor> values;
  for (size_t s = 0; s < table.series.size(); ++s) {
    if (!keep[s]) continue;
    const int64_t rows = table.offsets[s + 1] - table.offsets[s];
    kept.series.push_back(table.series[s]);
    if (!table.files.empty()) kept.files.push_back(table.files[s]);
    kept.offsets.push_back(kept.rows() + rows);
    const std::span<const int64_t> time = time_of(table, s);
    kept.time.insert(kept.time.end(), time.begin(), time.end());
    values.push_back(table.values.narrow(0, table.offsets[s], rows));
  }
  kept.values = at::cat(values, 0);
  table = std::move(kept);
}

void leave_out_short_series(SeriesTable& table, const DatasetSpec& spec) {
  const int64_t needed = spec.window + spec.horizon;
  const std::string need = std::to_string(needed) + " rows (window " + std::to_string(spec.window) +
                           " + horizon " + std::to_string(spec.horizon) + ")";
  std::vector<bool> keep;
  std::vector<std::string> left_out;
  int64_t longest = 0;
  std::string longest_name = "none";
  for (size_t s = 0; s < table.series.size(); ++s) {
    const int64_t rows = table.offsets[s + 1] - table.offsets[s];
    keep.push_back(rows >= needed);
    if (!keep.back()) left_out.push_back(table.series[s] + " (" + std::to_string(rows) + ")");
    if (rows > longest) {
      longest = rows;
      longest_name = table.series[s];
    }
  }
  if (left_out.size() == table.series.size()) {
    throw DataError("no series is long enough for one window: the longest, '" + longest_name +
                    "', has " + std::to_string(longest) + " rows, a window needs " + need +
                    "; give more rows or a smaller data.window or data.horizon");
  }
  if (left_out.empty()) return;
  table.notes.push_back(std::to_string(left_out.size()) + " of " +
                        std::to_string(table.series.size()) +
                        " series are left out, shorter than " + need + ": " + listed(left_out, 5));
  keep_series(table, keep);
}

std::vector<SplitBounds> split_series(const SeriesTable& table, const SplitSpec& spec) {
  std::vector<SplitBounds> bounds;
  bounds.reserve(table.series.size());
  for (size_t s = 0; s < table.series.size(); ++s) {
    bounds.push_back(split_rows(spec, table.offsets[s + 1] - table.offsets[s], time_of(table, s)));
  }
  return bounds;
}

// Leaves out the series with a used column that cannot be filled: one without a single value, or,
// where the series is trained on, one whose first value comes after its training part. That value
// would be carried back into the training part.
void leave_out_unfillable_series(SeriesTable& table, const MissingMask& mask,
                                 const DatasetSpec& spec) {
  const std::vector<SplitBounds> bounds = split_series(table, spec.split);
  std::vector<bool> keep;
  std::vector<std::string> left_out;
  for (size_t s = 0; s < table.series.size(); ++s) {
    const int64_t offset = table.offsets[s];
    const int64_t rows = table.offsets[s + 1] - offset;
    const auto [train_begin, train_end] = bounds[s][0];
    const bool trained = !spec.normalizer && train_end > train_begin;
    bool whole = true;
    for (int64_t column = 0; whole && column < mask.columns; ++column) {
      int64_t first = 0;
      while (first < rows && mask.at(offset + first, column)) ++first;
      whole = first < (trained ? train_end : rows);
      if (whole) continue;
      left_out.push_back(table.series[s] + " (" + table.columns[static_cast<size_t>(column)] +
                         (first < rows ? ", first in row " + std::to_string(first) : "") + ")");
    }
    keep.push_back(whole);
  }
  if (left_out.empty()) return;
  const std::string where = spec.normalizer ? "" : " by the end of its training part";
  if (left_out.size() == table.series.size()) {
    throw DataError("no series has a value of every used column" + where +
                    "; without one: " + listed(left_out, 5) + "; leave the column out" +
                    (spec.normalizer ? "" : " or move data.split"));
  }
  table.notes.push_back(std::to_string(left_out.size()) + " of " +
                        std::to_string(table.series.size()) +
                        " series are left out, without a value of a used column" + where + ": " +
                        listed(left_out, 5));
  keep_series(table, keep);
}

// Row ranges hold for every series; where one ends before them, its parts are smaller.
void tell_cut_ranges(SeriesTable& table, const SplitSpec& spec) {
  const auto* ranges = std::get_if<SplitRows>(&spec);
  if (ranges == nullptr) return;
  int64_t last = 0;
  for (const auto& [begin, end] : *ranges) {
    if (end > begin) last = std::max(last, end);
  }
  size_t cut = 0;
  size_t shortest = 0;
  const auto rows = [&](size_t s) { return table.offsets[s + 1] - table.offsets[s]; };
  for (size_t s = 0; s < table.series.size(); ++s) {
    if (rows(s) < last) ++cut;
    if (rows(s) < rows(shortest)) shortest = s;
  }
  if (cut == 0) return;
  table.notes.push_back("data.split: the row ranges go to row " + std::to_string(last) + ", and " +
                        std::to_string(cut) + " of " + std::to_string(table.series.size()) +
                        " series end before (the shortest, '" + table.series[shortest] + "', has " +
                        std::to_string(rows(shortest)) + " rows): their parts are cut there");
}

std::string counts_text(const SeriesTable& table, const MissingMask& mask) {
  std::vector<std::string> counts;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (mask.counts[i] > 0)
      counts.push_back(table.columns[i] + " " + std::to_string(mask.counts[i]));
  }
  return listed(counts);
}

// Fills or marks missing values by policy. Returns where they were.
MissingMask treat_missing(SeriesTable& table, const DatasetSpec& spec) {
  MissingMask mask = find_missing(table);
  if (!mask.any()) return mask;
  if (spec.missing == MissingPolicy::kError) refuse_missing(table, mask);
  auto* values = table.values.mutable_data_ptr<float>();
  if (spec.missing == MissingPolicy::kDrop) {
    for (size_t i = 0; i < mask.flags.size(); ++i) {
      // One bit pattern, so that equal data have one fingerprint.
      if (mask.flags[i] != 0) values[i] = std::numeric_limits<float>::quiet_NaN();
    }
    table.notes.push_back("missing values per column: " + counts_text(table, mask) +
                          "; windows that touch one are left out");
    return mask;
  }
  leave_out_unfillable_series(table, mask, spec);
  mask = find_missing(table);
  if (!mask.any()) return mask;
  values = table.values.mutable_data_ptr<float>();
  const std::vector<SplitBounds> bounds = split_series(table, spec.split);
  for (size_t s = 0; s < table.series.size(); ++s) {
    const std::array<int64_t, 2> borders = {bounds[s][1][0], bounds[s][2][0]};
    for (int64_t column = 0; column < mask.columns; ++column) {
      fill_column(values + table.offsets[s] * mask.columns + column,
                  table.offsets[s + 1] - table.offsets[s], mask.columns, borders, spec.missing);
    }
  }
  table.notes.push_back(
      std::string("missing values filled by ") +
      (spec.missing == MissingPolicy::kInterpolate ? "interpolation" : "the value before") +
      ", per column: " + counts_text(table, mask));
  return mask;
}

// Adds a series' windows with starts in [first, last], without those that touch a missing value.
class WindowAdder {
 public:
  WindowAdder(const DatasetParts& parts, const MissingMask& mask, bool drop)
      : spec_(parts.spec), drop_(drop && mask.any()) {
    if (!drop_) return;
    const auto rows = static_cast<size_t>(parts.table.rows());
    any_.assign(rows + 1, 0);
    target_.assign(rows + 1, 0);
    for (size_t row = 0; row < rows; ++row) {
      const auto at = static_cast<int64_t>(row);
      int64_t any = 0;
      for (int64_t column = 0; column < mask.columns; ++column) any |= mask.at(at, column) ? 1 : 0;
      int64_t target = 0;
      for (const int64_t column : parts.target_columns) target |= mask.at(at, column) ? 1 : 0;
      any_[row + 1] = any_[row] + any;
      target_[row + 1] = target_[row] + target;
    }
  }

  void add(WindowIndex& index, int64_t series, int64_t offset, int64_t first, int64_t last) {
    if (!drop_) {
      index.add(series, first, last, spec_.stride);
      return;
    }
    std::optional<int64_t> run;
    int64_t start = first;
    for (; start <= last; start += spec_.stride) {
      const bool usable = untouched(offset + start);
      if (!usable) ++dropped_;
      if (usable && !run) run = start;
      if (!usable && run) {
        index.add(series, *run, start - spec_.stride, spec_.stride);
        run.reset();
      }
    }
    if (run) index.add(series, *run, start - spec_.stride, spec_.stride);
  }

  int64_t take_dropped() { return std::exchange(dropped_, 0); }

 private:
  // The look-back rows need every used column (the naive forecasts read the targets there too), the
  // horizon rows the targets.
  bool untouched(int64_t row) const {
    const auto middle = static_cast<size_t>(row + spec_.window);
    const auto end = static_cast<size_t>(row + spec_.window + spec_.horizon);
    return any_[middle] == any_[static_cast<size_t>(row)] && target_[end] == target_[middle];
  }

  const DatasetSpec& spec_;
  bool drop_;
  std::vector<int64_t> any_;     // rows before this one with a missing value
  std::vector<int64_t> target_;  // the same of the target columns
  int64_t dropped_ = 0;
};

void index_windows(DatasetParts& parts, const std::vector<SplitBounds>& bounds,
                   const MissingMask& mask) {
  const DatasetSpec& spec = parts.spec;
  WindowAdder adder(parts, mask, spec.missing == MissingPolicy::kDrop);
  for (size_t split = 0; split < parts.windows.size(); ++split) {
    for (size_t s = 0; s < parts.table.series.size(); ++s) {
      const int64_t offset = parts.table.offsets[s];
      std::array<int64_t, 2> range = {0, parts.table.offsets[s + 1] - offset};
      if (split < bounds[s].size()) range = bounds[s][split];
      if (range[0] == range[1]) continue;
      // Only evaluation may look back over the border.
      const bool looks_back = split == static_cast<size_t>(Split::kValidation) ||
                              split == static_cast<size_t>(Split::kTest);
      const int64_t first = looks_back ? std::max<int64_t>(range[0] - spec.window, 0) : range[0];
      adder.add(parts.windows[split], static_cast<int64_t>(s), offset, first,
                range[1] - spec.window - spec.horizon);
    }
    const int64_t dropped = adder.take_dropped();
    if (dropped > 0 && split < 3) {
      parts.table.notes.push_back(std::string(to_string(static_cast<Split>(split))) + ": " +
                                  std::to_string(dropped) +
                                  " windows touch a missing value and are left out, " +
                                  std::to_string(parts.windows[split].size()) + " remain");
    }
  }
}

void check_windows(DatasetParts& parts, const std::vector<SplitBounds>& bounds) {
  const DatasetSpec& spec = parts.spec;
  const std::string need = std::to_string(spec.window + spec.horizon) + " rows (window " +
                           std::to_string(spec.window) + " + horizon " +
                           std::to_string(spec.horizon) + ")";
  // With a given normaliser nothing is trained here, so a training part is not needed.
  const Split must = spec.normalizer ? Split::kAll : Split::kTrain;
  if (parts.windows[static_cast<size_t>(must)].size() == 0) {
    int64_t longest = 0;
    std::string name = parts.table.series.front();
    for (size_t s = 0; s < bounds.size(); ++s) {
      const int64_t rows = must == Split::kAll ? parts.table.offsets[s + 1] - parts.table.offsets[s]
                                               : bounds[s][0][1] - bounds[s][0][0];
      if (rows > longest) {
        longest = rows;
        name = parts.table.series[s];
      }
    }
    const bool holes =
        spec.missing == MissingPolicy::kDrop && longest >= spec.window + spec.horizon;
    throw DataError("there is no " + std::string(must == Split::kAll ? "" : "training ") +
                    "window: the longest " + (must == Split::kAll ? "series" : "training part") +
                    " has " + std::to_string(longest) + " rows (series '" + name +
                    "'), a window needs " + need + ", stride " + std::to_string(spec.stride) +
                    (holes
                         ? "; every window touches a missing value: set data.missing to interpolate"
                         : "; give more rows, another data.split or a smaller data.window"));
  }
  for (const Split split : {Split::kValidation, Split::kTest}) {
    const auto i = static_cast<size_t>(split);
    const bool wanted = std::any_of(bounds.begin(), bounds.end(),
                                    [i](const SplitBounds& b) { return b[i][1] > b[i][0]; });
    if (wanted && parts.windows[i].size() == 0) {
      parts.table.notes.push_back(std::string("the ") + to_string(split) +
                                  " part has no window: its rows are fewer than the horizon, " +
                                  std::to_string(spec.horizon) + ", or all windows are left out");
    }
  }
}

void mark_filled_targets(DatasetParts& parts, const std::vector<SplitBounds>& bounds,
                         const MissingMask& mask) {
  if (!mask.any() || parts.spec.missing == MissingPolicy::kDrop) return;
  const auto targets = parts.target_columns.size();
  parts.target_filled.assign(static_cast<size_t>(parts.table.rows()) * targets, 0);
  bool any = false;
  for (size_t s = 0; s < parts.table.series.size(); ++s) {
    for (int64_t row = parts.table.offsets[s]; row < parts.table.offsets[s + 1]; ++row) {
      const int64_t within = row - parts.table.offsets[s];
      for (size_t i = 0; i < targets; ++i) {
        if (!mask.at(row, parts.target_columns[i])) continue;
        any = true;
        parts.target_filled[static_cast<size_t>(row) * targets + i] = 1;
        parts.filled_targets[static_cast<size_t>(Split::kAll)] = true;
        for (size_t split = 0; split < bounds[s].size(); ++split) {
          if (within >= bounds[s][split][0] && within < bounds[s][split][1]) {
            parts.filled_targets[split] = true;
          }
        }
      }
    }
  }
  if (!any) parts.target_filled.clear();
}

Normalizer make_normalizer(DatasetParts& parts, const std::vector<SplitBounds>& bounds,
                           const MissingMask& mask) {
  if (parts.spec.normalizer) return *parts.spec.normalizer;
  std::vector<std::array<int64_t, 2>> ranges;
  for (size_t s = 0; s < bounds.size(); ++s) {
    const int64_t offset = parts.table.offsets[s];
    ranges.push_back({offset + bounds[s][0][0], offset + bounds[s][0][1]});
  }
  Normalizer fitted = fit_normalizer(parts.spec.normalize, parts.table, mask, ranges);
  if (!fitted.constant.empty()) {
    parts.table.notes.push_back("constant in the training part, so only centred, not scaled: " +
                                listed(fitted.constant));
  }
  return fitted;
}

}  // namespace

DatasetParts build_dataset(const DatasetSpec& spec) {
  check_spec(spec);
  DatasetParts parts;
  parts.spec = spec;
  parts.table = read_series(spec.paths, spec.dataset, used_columns(spec));
  parts.input_columns = find_columns(parts.table.columns, spec.inputs, "the data");
  parts.target_columns = find_columns(parts.table.columns, spec.targets, "the data");
  check_time(parts.table);
  leave_out_short_series(parts.table, spec);
  tell_cut_ranges(parts.table, spec.split);
  const MissingMask mask = treat_missing(parts.table, spec);
  const std::vector<SplitBounds> bounds = split_series(parts.table, spec.split);
  index_windows(parts, bounds, mask);
  check_windows(parts, bounds);
  mark_filled_targets(parts, bounds, mask);
  parts.step_ns = regular_step(parts.table.offsets, parts.table.time);
  if (parts.step_ns == 0 && !parts.table.time.empty()) {
    parts.table.notes.push_back("the time between rows varies: windows count rows, not time");
  }
  parts.normalizer = make_normalizer(parts, bounds, mask);
  parts.fingerprint = fingerprint_of(parts.table, spec);
  normalize_in_place(parts.table, parts.normalizer);
  return parts;
}

}  // namespace longship::data
