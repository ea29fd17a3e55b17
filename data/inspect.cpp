#include "data/inspect.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "data/error.h"
#include "data/hdf5_dataset.h"
#include "data/hdf5_file.h"
#include "data/hdf5_guard.h"
#include "data/series_file.h"

namespace longship::data {
namespace {

std::string chunk_text(const std::vector<int64_t>& chunk) {
  std::string text;
  for (const int64_t size : chunk) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

void describe_dataset(hid_t file, const std::string& file_path, InspectedObject& object) {
  const auto add_note = [&](const std::string& text) {
    object.note += (object.note.empty() ? "" : "; ") + text;
  };
  try {
    const Hdf5Dataset dataset(file, file_path, object.path);
    const Hdf5DatasetInfo& info = dataset.info();
    object.type = info.type;
    object.shape = info.shape_text();
    object.chunk = chunk_text(info.chunk);
    object.stored_bytes = info.stored_bytes;
    for (const int id : info.filters) {
      const std::vector<Filter> known = hdf5_filters();
      const auto found =
          std::find_if(known.begin(), known.end(), [id](const Filter& f) { return f.id == id; });
      object.filters.push_back(found != known.end() ? *found : Filter{id, filter_name(id), false});
    }
    const bool elsewhere = info.is_virtual || info.is_external;
    if (info.stored_bytes == 0 && info.elements() > 0 && !elsewhere) add_note("never written");
    if (info.partly_written()) {
      add_note("partly written: " + std::to_string(info.written_chunks) + " of " +
               std::to_string(info.all_chunks) + " chunks");
    }
    dataset.check_readable();
  } catch (const DataError& error) {
    add_note(error.what());
  }
}

std::vector<InspectedObject> list_objects(hid_t file, const std::string& path) {
  std::vector<InspectedObject> objects;
  for (const Hdf5Entry& entry : walk_hdf5(file, path)) {
    InspectedObject object;
    object.path = entry.path;
    object.note = entry.note;
    switch (entry.kind) {
      case Hdf5Entry::Kind::kGroup:
        object.kind = "group";
        break;
      case Hdf5Entry::Kind::kDataset:
        object.kind = "dataset";
        describe_dataset(file, path, object);
        break;
      case Hdf5Entry::Kind::kOther:
        object.kind = "other";
        break;
      case Hdf5Entry::Kind::kDangling:
        object.kind = "dangling";
        break;
    }
    objects.push_back(std::move(object));
  }
  return objects;
}

void describe_series(const SeriesTable& table, FileInspection& result) {
  result.columns = table.columns;
  result.rows = table.rows();
  result.step_ns = regular_step(table.offsets, table.time);
  result.notes = table.notes;
  for (const std::string& line : table.lost) {
    result.notes.push_back(line + "; training refuses the column as it is");
  }
  for (size_t s = 0; s < table.series.size(); ++s) {
    InspectedSeries series;
    series.name = table.series[s];
    series.rows = table.offsets[s + 1] - table.offsets[s];
    if (!table.time.empty() && series.rows > 0) {
      series.first_time = table.time[static_cast<size_t>(table.offsets[s])];
      series.last_time = table.time[static_cast<size_t>(table.offsets[s + 1] - 1)];
    }
    result.series.push_back(std::move(series));
  }
}

FileInspection inspect(const std::string& path, const std::string& dataset, bool statistics) {
  const Hdf5Handle file = open_hdf5_file(path);
  FileInspection result;
  result.path = path;
  result.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  result.format = is_series_file(file.get()) ? "longship-series" : "hdf5";
  result.objects = list_objects(file.get(), path);
  try {
    const SeriesTable table =
        read_series_unguarded(path, dataset, {}, statistics ? Content::kAll : Content::kOutline);
    describe_series(table, result);
    if (statistics) result.statistics = column_statistics(table);
    result.readable = true;
  } catch (const DataError& error) {
    result.reason = error.what();
  }
  return result;
}

}  // namespace

FileInspection inspect_file(const std::string& path, const std::string& dataset, bool statistics) {
  const auto result = std::make_shared<FileInspection>();
  guarded_hdf5(path, [=] { *result = inspect(path, dataset, statistics); });
  return std::move(*result);
}

std::vector<ColumnStatistics> column_statistics(const SeriesTable& table) {
  const size_t columns = table.columns.size();
  std::vector<ColumnStatistics> all(columns);
  for (size_t i = 0; i < columns; ++i) {
    all[i].name = table.columns[i];
    all[i].least = std::numeric_limits<double>::infinity();
    all[i].most = -std::numeric_limits<double>::infinity();
  }
  const auto* values = table.values.const_data_ptr<float>();
  const auto total = static_cast<size_t>(table.rows()) * columns;
  for (size_t at = 0; at < total; ++at) {
    ColumnStatistics& column = all[at % columns];
    const double value = values[at];
    if (std::isnan(value)) {
      ++column.missing;
    } else if (std::isinf(value)) {
      ++column.infinite;
    } else {
      // Welford's update: stable for a spread that is small beside the mean.
      ++column.count;
      const double before = value - column.mean;
      column.mean += before / static_cast<double>(column.count);
      column.deviation += before * (value - column.mean);
      column.least = std::min(column.least, value);
      column.most = std::max(column.most, value);
    }
  }
  for (ColumnStatistics& column : all) {
    if (column.count == 0) {
      column.least = column.most = 0;
    } else {
      column.deviation = std::sqrt(column.deviation / static_cast<double>(column.count));
    }
  }
  return all;
}

}  // namespace longship::data
