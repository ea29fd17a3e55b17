#include "data/array_reader.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "data/error.h"
#include "data/hdf5_file.h"
#include "data/hdf5_sources.h"
#include "data/time_axis.h"

namespace longship::data {
namespace {

// The datasets directly in a group, opened.
std::vector<Hdf5Dataset> datasets_of(hid_t file, const std::string& path,
                                     const std::string& group) {
  std::vector<Hdf5Dataset> datasets;
  for (const Hdf5Entry& entry : walk_hdf5(file, path)) {
    if (entry.kind == Hdf5Entry::Kind::kDataset && group_of(entry.path) == group) {
      datasets.emplace_back(file, path, entry.path);
    }
  }
  return datasets;
}

std::optional<std::vector<int64_t>> time_beside(const std::vector<Hdf5Dataset>& beside,
                                                int64_t rows, std::vector<std::string>& notes) {
  for (const Hdf5Dataset& dataset : beside) {
    if (!is_time_axis(dataset) || dataset.info().shape.front() != rows) continue;
    std::string note;
    auto stamps = read_time_axis(dataset, note);
    if (!note.empty()) notes.push_back(note);
    if (stamps) return stamps;
    notes.push_back(dataset.name() + " has no units; rows are taken without time");
  }
  return std::nullopt;
}

std::vector<std::string> names_beside(const std::vector<Hdf5Dataset>& beside, int64_t count,
                                      std::initializer_list<std::string_view> usual) {
  for (const Hdf5Dataset& dataset : beside) {
    const std::string name = column_name(dataset.path());
    const bool fits = dataset.info().type_class == H5T_STRING &&
                      dataset.info().shape == std::vector<int64_t>{count};
    if (fits && std::find(usual.begin(), usual.end(), name) != usual.end()) {
      return dataset.read_strings();
    }
  }
  return {};
}

// Names of the columns of an array; made of the dataset's name when nothing names them.
std::vector<std::string> column_names(const Hdf5Dataset& dataset,
                                      const std::vector<Hdf5Dataset>& beside, bool& made_up) {
  const std::vector<int64_t>& shape = dataset.info().shape;
  made_up = false;
  if (shape.size() == 1) return {column_name(dataset.path())};
  const int64_t width = shape.back();
  const auto attribute = string_attribute(dataset.id(), "columns");
  if (attribute && static_cast<int64_t>(attribute->size()) == width) return *attribute;
  std::vector<std::string> names = names_beside(
      beside, width, {"columns", "column_names", "features", "feature_names", "names"});
  if (!names.empty()) return names;
  made_up = true;
  for (int64_t i = 0; i < width; ++i) {
    std::string name = column_name(dataset.path());
    name += '_';
    names.push_back(name += std::to_string(i));
  }
  return names;
}

// Where a flat array is cut into series: `offsets` (series + 1) from 0 to its rows.
std::vector<int64_t> offsets_beside(const std::vector<Hdf5Dataset>& beside, int64_t rows) {
  for (const Hdf5Dataset& dataset : beside) {
    if (!cuts_series(dataset)) continue;
    std::vector<int64_t> offsets = dataset.read_integers();
    if (offsets.size() >= 2 && offsets.front() == 0 && offsets.back() == rows &&
        std::is_sorted(offsets.begin(), offsets.end())) {
      return offsets;
    }
    throw DataError(dataset.name() + " stands beside the values but does not cut their " +
                    std::to_string(rows) + " rows into series (from 0 to all rows, ascending)");
  }
  return {0, rows};
}

void name_series(SeriesTable& table, const std::vector<Hdf5Dataset>& beside,
                 const std::string& file_path) {
  const auto count = static_cast<int64_t>(table.offsets.size()) - 1;
  table.series =
      names_beside(beside, count, {"series", "series_id", "series_names", "ids", "names"});
  if (!table.series.empty()) return;
  const std::string stem = std::filesystem::path(file_path).stem().string();
  for (int64_t s = 0; s < count; ++s) {
    table.series.push_back(count == 1 ? stem : stem + "_" + std::to_string(s));
  }
}

void check_shape(const Hdf5Dataset& dataset, bool names_known) {
  const Hdf5DatasetInfo& info = dataset.info();
  if (info.is_null || info.shape.empty()) {
    throw DataError(dataset.name() + " is " + info.shape_text() + "; a series needs rows");
  }
  if (info.shape.size() > 3) {
    throw DataError(dataset.name() + " has " + std::to_string(info.shape.size()) + " dimensions, " +
                    info.shape_text() +
                    "; (time), (time, columns) or (series, time, columns) is read");
  }
  if (info.elements() == 0) {
    throw DataError(dataset.name() + " is empty, " + info.shape_text() + "; a series needs rows");
  }
  if (info.stored_bytes == 0 && !info.is_virtual && !info.is_external) {
    throw DataError(dataset.name() + " was never written: it has a shape, " + info.shape_text() +
                    ", but no stored values");
  }
  const size_t rank = info.shape.size();
  if (rank >= 2 && !names_known && info.shape[rank - 2] < info.shape[rank - 1]) {
    throw DataError(dataset.name() + " has more columns than rows, " + info.shape_text() +
                    ", and no names of columns: time may be the last axis; store it as " +
                    (rank == 2 ? "(time, columns)" : "(series, time, columns)") +
                    " or add the attribute `columns`");
  }
}

std::vector<std::string> picked_names(const std::vector<std::string>& names,
                                      const std::vector<int64_t>& positions) {
  std::vector<std::string> picked;
  picked.reserve(positions.size());
  for (const int64_t position : positions) picked.push_back(names[static_cast<size_t>(position)]);
  return picked;
}

// A number as the dataset's type holds it: float32 data never equal a double such as 1e20.
double as_stored(const Hdf5Dataset& dataset, double value) {
  const Hdf5DatasetInfo& info = dataset.info();
  if (info.type_class != H5T_FLOAT || info.type_size > sizeof value) return value;
  const std::string what = dataset.name() + ": its missing value cannot be converted";
  const Hdf5Handle type = own(H5Dget_type(dataset.id()), H5Tclose, what);
  double stored = value;
  check_hdf5(H5Tconvert(H5T_NATIVE_DOUBLE, type.get(), 1, &stored, nullptr, H5P_DEFAULT), what);
  check_hdf5(H5Tconvert(type.get(), H5T_NATIVE_DOUBLE, 1, &stored, nullptr, H5P_DEFAULT), what);
  return std::isinf(stored) ? value : stored;
}

}  // namespace

std::string column_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  constexpr std::string_view kPrefix = "_nc4_non_coord_";
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  return name;
}

bool cuts_series(const Hdf5Dataset& dataset) {
  const std::string name = column_name(dataset.path());
  return dataset.info().type_class == H5T_INTEGER && dataset.info().shape.size() == 1 &&
         (name == "offsets" || name == "indptr");
}

Packing packing_of(const Hdf5Dataset& dataset, std::vector<std::string>& notes) {
  Packing packing;
  if (const auto scale = number_attribute(dataset.id(), "scale_factor"))
    packing.scale = scale->front();
  if (const auto offset = number_attribute(dataset.id(), "add_offset"))
    packing.offset = offset->front();
  for (const char* name : {"_FillValue", "missing_value"}) {
    const auto values = number_attribute(dataset.id(), name);
    if (!values) continue;
    for (const double value : *values) packing.missing.push_back(as_stored(dataset, value));
  }
  if (dataset.info().is_virtual) {
    // Parts of a virtual dataset that no source covers read as its fill value. That is 0 unless it
    // was set, and a 0 of a source is a value.
    const bool covered = virtual_sources_cover(dataset);
    if (!covered || dataset.fill_value_set()) packing.missing.push_back(dataset.fill_value());
    if (!covered) {
      std::ostringstream note;
      note << dataset.name() << " is a virtual dataset whose sources do not give every element; "
           << dataset.fill_value() << ", which the others read as, is taken as missing";
      notes.push_back(note.str());
    }
  }
  if (dataset.info().partly_written()) notes.push_back(dataset.unwritten_note());
  if (const auto is_unsigned = string_attribute(dataset.id(), "_Unsigned");
      is_unsigned && is_unsigned->front() == "true") {
    throw DataError(dataset.name() +
                    " has the attribute _Unsigned, which is not read; store it as an "
                    "unsigned type");
  }
  return packing;
}

SeriesTable read_array(hid_t file, const std::string& path, const std::string& dataset_path,
                       const std::vector<std::string>& columns, Content content) {
  const Hdf5Dataset dataset(file, path, dataset_path);
  const Hdf5DatasetInfo& info = dataset.info();
  if (!info.is_number()) throw DataError(dataset.name() + " holds " + info.type + ", not numbers");
  dataset.check_readable();
  const std::vector<Hdf5Dataset> beside = datasets_of(file, path, group_of(dataset_path));
  if (info.shape.empty()) check_shape(dataset, true);
  bool made_up = false;
  const std::vector<std::string> names = column_names(dataset, beside, made_up);
  check_shape(dataset, !made_up);
  const std::vector<int64_t> positions = find_columns(names, columns, dataset.name());

  SeriesTable table;
  table.columns = picked_names(names, positions);
  if (made_up)
    table.notes.push_back(dataset.name() + " has no names of columns; called " + listed(names, 3));
  const Packing packing = packing_of(dataset, table.notes);
  if (content == Content::kAll) {
    std::vector<Narrowing> narrowings;
    table.values = read_rows(dataset, positions, packing, &narrowings);
    list_lost(table, narrowings, table.columns, dataset.name());
  }
  if (info.shape.size() < 3) {
    table.offsets = offsets_beside(beside, info.shape.front());
    if (auto time = time_beside(beside, table.rows(), table.notes)) table.time = std::move(*time);
    name_series(table, beside, path);
    return table;
  }

  const int64_t series = info.shape[0];
  const int64_t steps = info.shape[1];
  for (int64_t s = 0; s < series; ++s) table.offsets.push_back((s + 1) * steps);
  table.notes.push_back(dataset.name() + " is read as (series, time, columns) " +
                        info.shape_text());
  if (const auto time = time_beside(beside, steps, table.notes)) {
    for (int64_t s = 0; s < series; ++s)
      table.time.insert(table.time.end(), time->begin(), time->end());
  }
  name_series(table, beside, path);
  return table;
}

SeriesTable read_column_datasets(hid_t file, const std::string& path,
                                 const std::vector<std::string>& datasets,
                                 const std::vector<std::string>& columns, Content content) {
  std::vector<std::string> names;
  names.reserve(datasets.size());
  for (const std::string& dataset : datasets) names.push_back(column_name(dataset));
  const std::string group = group_of(datasets.front());
  const std::vector<int64_t> positions = find_columns(names, columns, path + ": " + group);
  SeriesTable table;
  table.columns = picked_names(names, positions);
  std::vector<at::Tensor> parts;
  int64_t rows = 0;
  for (const int64_t position : positions) {
    const Hdf5Dataset dataset(file, path, datasets[static_cast<size_t>(position)]);
    dataset.check_readable();
    check_shape(dataset, true);
    const int64_t own_rows = dataset.info().shape.front();
    if (position == positions.front()) rows = own_rows;
    if (own_rows != rows) {
      throw DataError(dataset.name() + " has " + std::to_string(own_rows) + " values, " +
                      table.columns.front() + " has " + std::to_string(rows) +
                      "; columns of one series are equally long");
    }
    const Packing packing = packing_of(dataset, table.notes);
    if (content == Content::kOutline) continue;
    std::vector<Narrowing> narrowings;
    parts.push_back(read_rows(dataset, {0}, packing, &narrowings));
    list_lost(table, narrowings, {column_name(dataset.path())}, dataset.name());
  }
  if (content == Content::kAll) table.values = at::cat(parts, 1).contiguous();
  const std::vector<Hdf5Dataset> beside = datasets_of(file, path, group);
  table.offsets = offsets_beside(beside, rows);
  if (auto time = time_beside(beside, rows, table.notes)) table.time = std::move(*time);
  name_series(table, beside, path);
  return table;
}

}  // namespace longship::data
