#include "data/foreign_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/array_reader.h"
#include "data/error.h"
#include "data/hdf5_dataset.h"
#include "data/hdf5_file.h"
#include "data/pandas_reader.h"
#include "data/time_axis.h"

namespace longship::data {
namespace {

// Something that could be meant: a frame, an array, or the one-dimensional datasets of a group.
struct Candidate {
  enum class Kind { kFrame, kArray, kColumns } kind = Kind::kArray;
  std::string path;
  std::string shape;
  std::vector<std::string> datasets;  // of kColumns
};

bool below(const std::string& path, const std::string& group) {
  return group == "/" || path == group || path.starts_with(group + "/");
}

bool is_dimension_without_values(const Hdf5Dataset& dataset) {
  const auto name = string_attribute(dataset.id(), "NAME");
  return name && name->front().starts_with("This is a netCDF dimension but not a netCDF variable");
}

struct Search {
  std::vector<Candidate> candidates;
  std::vector<std::string> refused;  // datasets that hold no usable numbers, with the reason
};

void sort_in(const Hdf5Dataset& dataset, std::map<std::string, Candidate>& groups, Search& search) {
  const Hdf5DatasetInfo& info = dataset.info();
  const std::string& path = dataset.path();
  if (!info.is_number()) {
    search.refused.push_back(path + " (" + info.type + ")");
  } else if (info.is_null || info.shape.empty() || info.elements() == 0 || info.shape.size() > 3) {
    search.refused.push_back(path + " (" + info.shape_text() + ")");
  } else if (info.shape.size() > 1) {
    search.candidates.push_back({Candidate::Kind::kArray, path, info.shape_text(), {}});
  } else if (!is_time_axis(dataset) && !cuts_series(dataset) &&
             !is_dimension_without_values(dataset)) {
    const std::string group = group_of(path);
    // Columns of one group are as long as each other; others are another candidate.
    Candidate& columns = groups[group + " " + info.shape_text()];
    columns.kind = Candidate::Kind::kColumns;
    columns.path = group;
    columns.shape = info.shape_text();
    columns.datasets.push_back(path);
  }
}

Search search_below(hid_t file, const std::string& path, const std::string& group) {
  Search search;
  std::map<std::string, Candidate> groups;
  std::string frame;  // what lies in a frame is no candidate of its own
  for (const Hdf5Entry& entry : walk_hdf5(file, path)) {
    if (!below(entry.path, group)) continue;
    if (!frame.empty() && below(entry.path, frame)) continue;
    if (entry.kind == Hdf5Entry::Kind::kGroup && is_pandas_object(file, path, entry.path)) {
      frame = entry.path;
      search.candidates.push_back({Candidate::Kind::kFrame, entry.path, "pandas frame", {}});
    } else if (entry.kind == Hdf5Entry::Kind::kDataset) {
      sort_in(Hdf5Dataset(file, path, entry.path), groups, search);
    } else if (entry.kind == Hdf5Entry::Kind::kDangling) {
      search.refused.push_back(entry.path + " (" + entry.note + ")");
    }
  }
  for (auto& [key, columns] : groups) search.candidates.push_back(std::move(columns));
  return search;
}

// "/a (3, 2)"; of the datasets of a group all that are as long: "/a, /b (3,)".
std::string in_words(const Candidate& candidate) {
  if (candidate.kind != Candidate::Kind::kColumns) return candidate.path + " " + candidate.shape;
  return listed(candidate.datasets, 6) + " " + candidate.shape;
}

// Whether a candidate may have these columns; of frames and arrays that is told when they are read.
bool may_have(const Candidate& candidate, const std::vector<std::string>& columns) {
  if (candidate.kind != Candidate::Kind::kColumns) return true;
  return std::all_of(columns.begin(), columns.end(), [&](const std::string& column) {
    return std::any_of(candidate.datasets.begin(), candidate.datasets.end(),
                       [&](const std::string& path) { return column_name(path) == column; });
  });
}

SeriesTable read_candidate(hid_t file, const std::string& path, const Candidate& candidate,
                           const std::vector<std::string>& columns, Content content) {
  switch (candidate.kind) {
    case Candidate::Kind::kFrame:
      return read_pandas(file, path, candidate.path, columns, content);
    case Candidate::Kind::kArray:
      return read_array(file, path, candidate.path, columns, content);
    case Candidate::Kind::kColumns:
      return read_column_datasets(file, path, candidate.datasets, columns, content);
  }
  throw DataError(path + ": " + candidate.path + " cannot be read");
}

SeriesTable read_only_candidate(hid_t file, const std::string& path, const std::string& group,
                                const std::vector<std::string>& columns, Content content) {
  Search search = search_below(file, path, group);
  const std::string where = group == "/" ? path : path + ": " + group;
  if (search.candidates.empty()) {
    throw DataError(where + " has no dataset of numbers to train on" +
                    (search.refused.empty() ? "" : "; it has " + listed(search.refused, 6)));
  }
  std::vector<std::string> choices;
  choices.reserve(search.candidates.size());
  for (const Candidate& candidate : search.candidates) choices.push_back(in_words(candidate));
  // Datasets of other lengths may stand beside those that the columns name.
  if (search.candidates.size() > 1 && !columns.empty()) {
    std::erase_if(search.candidates, [&](const Candidate& c) { return !may_have(c, columns); });
  }
  if (search.candidates.size() != 1) {
    throw DataError(
        where + " has several datasets that could be meant: " + listed(choices, 8) +
        "; name one with data.dataset (of `data inspect`: --dataset), or in data.inputs "
        "and data.targets only columns of equal length");
  }
  const Candidate& only = search.candidates.front();
  SeriesTable table = read_candidate(file, path, only, columns, content);
  const size_t parts = only.datasets.size();
  table.notes.insert(table.notes.begin(),
                     path + ": read from " + only.path + ", " + only.shape +
                         (parts == 0 ? "" : " in each of " + std::to_string(parts) + " datasets"));
  return table;
}

}  // namespace

SeriesTable read_foreign(hid_t file, const std::string& path, const std::string& dataset,
                         const std::vector<std::string>& columns, Content content) {
  if (dataset.empty()) return read_only_candidate(file, path, "/", columns, content);
  std::string wanted = dataset.starts_with('/') ? dataset : "/" + dataset;
  while (wanted.size() > 1 && wanted.ends_with('/')) wanted.pop_back();
  const Hdf5Handle object = open_hdf5_object(file, path, wanted);
  if (H5Iget_type(object.get()) != H5I_GROUP)
    return read_array(file, path, wanted, columns, content);
  if (is_pandas_object(file, path, wanted))
    return read_pandas(file, path, wanted, columns, content);
  return read_only_candidate(file, path, wanted, columns, content);
}

}  // namespace longship::data
