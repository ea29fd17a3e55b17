#include "data/series_store.h"

#include <ATen/Functions.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "data/error.h"
#include "data/foreign_reader.h"
#include "data/hdf5_file.h"
#include "data/hdf5_guard.h"
#include "data/series_file.h"

namespace longship::data {
namespace {

namespace fs = std::filesystem;

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string nearest_hint(const std::vector<std::string>& available, const std::string& wanted) {
  const auto nearest = std::min_element(
      available.begin(), available.end(), [&](const std::string& a, const std::string& b) {
        return edit_distance(a, wanted) < edit_distance(b, wanted);
      });
  if (nearest == available.end() || edit_distance(*nearest, wanted) > wanted.size() / 3 + 1)
    return "";
  return "; did you mean '" + *nearest + "'?";
}

std::vector<std::string> files_of_folder(const fs::path& folder) {
  static constexpr const char* kSuffixes[] = {".h5", ".hdf5", ".nc", ".he5"};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string suffix = entry.path().extension().string();
    if (entry.is_regular_file() &&
        std::find(std::begin(kSuffixes), std::end(kSuffixes), suffix) != std::end(kSuffixes)) {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> files_of_glob(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  if (status == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status != 0 && status != GLOB_NOMATCH)
    throw DataError(pattern + ": the pattern cannot be read");
  return files;
}

// Gives a series its file's name where another file has a series of that name; its path where files
// in other folders are called alike.
void tell_apart(std::vector<SeriesTable>& tables, const std::vector<std::string>& files) {
  std::map<std::string, int> uses;
  for (const SeriesTable& table : tables) {
    for (const std::string& name : table.series) ++uses[name];
  }
  std::map<std::string, int> namesakes;
  for (const std::string& file : files) ++namesakes[fs::path(file).filename().string()];
  for (size_t i = 0; i < tables.size(); ++i) {
    const std::string short_name = fs::path(files[i]).filename().string();
    const std::string& label = namesakes[short_name] > 1 ? files[i] : short_name;
    for (std::string& name : tables[i].series) {
      if (uses[name] > 1) name.insert(0, label + "/");
    }
  }
}

void refuse_lost(const SeriesTable& table) {
  if (table.lost.empty()) return;
  const size_t more = table.lost.size() - 1;
  throw DataError(table.lost.front() +
                  (more == 0 ? "" : " (and of " + std::to_string(more) + " more columns)") +
                  "; subtract an offset from the column or rescale it, or leave it out of "
                  "data.inputs and data.targets");
}

}  // namespace

std::string SeriesTable::place(size_t index) const {
  return (files.empty() ? "" : files[index] + ": ") + "series '" + series[index] + "'";
}

int64_t regular_step(const std::vector<int64_t>& offsets, const std::vector<int64_t>& time) {
  if (time.empty()) return 0;
  int64_t step = 0;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t row = offsets[s] + 1; row < offsets[s + 1]; ++row) {
      const int64_t difference =
          time[static_cast<size_t>(row)] - time[static_cast<size_t>(row - 1)];
      if (step == 0) step = difference;
      if (difference != step || difference <= 0) return 0;
    }
  }
  return step;
}

std::vector<std::string> expand_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    std::vector<std::string> found;
    if (fs::is_directory(path, error)) {
      found = files_of_folder(path);
      if (found.empty()) {
        throw DataError(path + " is a folder without HDF5 files (*.h5, *.hdf5, *.nc, *.he5)");
      }
    } else if (!fs::exists(path, error) && path.find_first_of("*?[") != std::string::npos) {
      found = files_of_glob(path);
      if (found.empty()) throw DataError(path + ": no file matches this pattern");
    } else {
      found = {path};
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  if (files.empty()) throw DataError("no data file is named; set data.path");
  std::set<std::string> seen;
  for (const std::string& file : files) {
    std::error_code error;
    if (!seen.insert(fs::weakly_canonical(file, error).string()).second) {
      throw DataError(file + " is named twice in data.path; its rows would count twice");
    }
  }
  return files;
}

SeriesTable read_series_from(const std::string& path, const std::string& dataset,
                             const std::vector<std::string>& columns, Content content) {
  const auto table = std::make_shared<SeriesTable>();
  guarded_hdf5(path, [=] { *table = read_series_unguarded(path, dataset, columns, content); });
  return std::move(*table);
}

SeriesTable read_series_unguarded(const std::string& path, const std::string& dataset,
                                  const std::vector<std::string>& columns, Content content) {
  const Hdf5Handle file = open_hdf5_file(path);
  const bool own_format = is_series_file(file.get()) && dataset.empty();
  SeriesTable table = own_format ? read_series_file(file.get(), path, columns, content)
                                 : read_foreign(file.get(), path, dataset, columns, content);
  table.files.assign(table.series.size(), path);
  return table;
}

SeriesTable read_series(const std::vector<std::string>& paths, const std::string& dataset,
                        const std::vector<std::string>& columns) {
  const std::vector<std::string> files = expand_paths(paths);
  std::vector<SeriesTable> tables;
  for (const std::string& file : files) {
    tables.push_back(read_series_from(file, dataset, columns));
    refuse_lost(tables.back());
    if (tables.back().columns != tables.front().columns) {
      throw DataError(file + " has other columns (" + listed(tables.back().columns) + ") than " +
                      files.front() + " (" + listed(tables.front().columns) + ")");
    }
    if (tables.back().time.empty() != tables.front().time.empty()) {
      throw DataError(
          file + (tables.back().time.empty() ? " has no time stamps, " : " has time stamps, ") +
          files.front() + " differs; import both alike");
    }
  }
  if (tables.size() == 1) return std::move(tables.front());

  tell_apart(tables, files);
  SeriesTable all;
  all.columns = tables.front().columns;
  std::vector<at::Tensor> values;
  for (SeriesTable& table : tables) {
    const int64_t base = all.rows();
    for (size_t s = 0; s < table.series.size(); ++s)
      all.offsets.push_back(base + table.offsets[s + 1]);
    all.series.insert(all.series.end(), table.series.begin(), table.series.end());
    all.files.insert(all.files.end(), table.files.begin(), table.files.end());
    all.time.insert(all.time.end(), table.time.begin(), table.time.end());
    all.notes.insert(all.notes.end(), table.notes.begin(), table.notes.end());
    values.push_back(std::move(table.values));
  }
  all.values = at::cat(values, 0);
  return all;
}

void list_lost(SeriesTable& table, const std::vector<Narrowing>& narrowings,
               const std::vector<std::string>& names, const std::string& where) {
  for (size_t i = 0; i < narrowings.size(); ++i) {
    const auto change = narrowings[i].lost();
    if (!change) continue;
    table.lost.push_back(where + ": column '" + names[i] + "' has in rows " +
                         std::to_string(change->row_before) + " and " +
                         std::to_string(change->row) + " the values " + change->text());
  }
}

std::vector<int64_t> find_columns(const std::vector<std::string>& available,
                                  const std::vector<std::string>& wanted,
                                  const std::string& where) {
  std::vector<int64_t> positions;
  if (wanted.empty()) {
    positions.resize(available.size());
    std::iota(positions.begin(), positions.end(), int64_t{0});
    return positions;
  }
  std::map<std::string, std::vector<int64_t>> index;
  for (size_t i = 0; i < available.size(); ++i) {
    index[available[i]].push_back(static_cast<int64_t>(i));
  }
  for (const std::string& name : wanted) {
    const auto found = index.find(name);
    if (found == index.end()) {
      throw DataError(where + " has no column '" + name + "'" + nearest_hint(available, name) +
                      "; it has " + listed(available));
    }
    if (found->second.size() > 1) {
      std::vector<std::string> places;
      places.reserve(found->second.size());
      for (const int64_t place : found->second) places.push_back(std::to_string(place + 1));
      throw DataError(where + " has the column '" + name + "' more than once, at positions " +
                      listed(places) + "; rename them or leave it out");
    }
    positions.push_back(found->second.front());
  }
  return positions;
}

std::string listed(const std::vector<std::string>& names, size_t most) {
  std::string text;
  const size_t shown = names.size() > most + 1 ? most : names.size();
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (shown < names.size()) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

}  // namespace longship::data
