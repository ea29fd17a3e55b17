#include "data/pandas_frame.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "data/error.h"
#include "data/frame_columns.h"
#include "data/hdf5_dataset.h"
#include "data/hdf5_file.h"
#include "data/pandas_reader.h"

namespace longship::data {
namespace {

// Nanoseconds of an index by its kind; 0 when it is no time. pandas 3 writes microseconds.
int64_t index_unit(const std::string& kind) {
  if (kind == "datetime64" || kind == "datetime64[ns]") return 1;
  if (kind == "datetime64[us]") return 1'000;
  if (kind == "datetime64[ms]") return 1'000'000;
  if (kind == "datetime64[s]") return 1'000'000'000;
  return 0;
}

void set_index(SeriesTable& table, std::vector<int64_t> index, const std::string& kind,
               const std::string& where) {
  const int64_t unit = index_unit(kind);
  if (unit == 0) {
    table.notes.push_back(where + ": the index is no time (" + (kind.empty() ? "unknown" : kind) +
                          "); rows are taken in their order");
    return;
  }
  for (size_t row = 0; row < index.size(); ++row) {
    const int64_t stored = index[row];
    if (__builtin_mul_overflow(stored, unit, &index[row])) {
      throw DataError(where + ": row " + std::to_string(row) + " of the index, " +
                      std::to_string(stored) + ", does not fit nanoseconds since 1970");
    }
  }
  table.time = std::move(index);
}

std::vector<std::string> axis_names(const Hdf5Dataset& axis) {
  if (axis.info().type_class == H5T_STRING) return axis.read_strings();
  std::vector<std::string> names;
  for (const int64_t number : axis.read_integers()) names.push_back(std::to_string(number));
  return names;
}

void check_levels(hid_t object, const std::string& where) {
  for (const char* axis : {"axis0_variety", "axis1_variety"}) {
    const auto variety = text_attribute(object, axis);
    if (variety && *variety != "regular") {
      throw DataError(where + " has several levels of " +
                      (std::string(axis) == "axis0_variety" ? "columns" : "index") +
                      "; flatten them (reset_index) before writing");
    }
  }
}

struct Block {
  std::vector<std::string> names;
  std::string values;  // dataset path
  bool numbers = false;
  bool rows_first = true;
};

DataError no_numbers(const std::string& where, const std::string& column) {
  return DataError(where + ": column '" + column + "' holds no numbers");
}

// The columns that are read: those wanted, or all of numbers; others are noted.
std::vector<std::string> choose(const std::vector<std::string>& ordered,
                                const std::map<std::string, bool>& holds_numbers,
                                const std::vector<std::string>& wanted, const std::string& where,
                                std::vector<std::string>& notes) {
  std::vector<std::string> chosen;
  std::vector<std::string> left_out;
  std::vector<std::string> repeated;
  for (const int64_t position : find_columns(ordered, wanted, where)) {
    const std::string& name = ordered[static_cast<size_t>(position)];
    if (std::count(ordered.begin(), ordered.end(), name) > 1) {
      repeated.push_back(name);
      continue;
    }
    const auto known = holds_numbers.find(name);
    if (known != holds_numbers.end() && known->second) {
      chosen.push_back(name);
    } else if (!wanted.empty()) {
      throw no_numbers(where, name);
    } else {
      left_out.push_back(name);
    }
  }
  if (!left_out.empty()) {
    notes.push_back(where + ": left out, because they hold no numbers: " + listed(left_out));
  }
  if (!repeated.empty()) {
    notes.push_back(
        where + ": left out, because the name stands there more than once: " + listed(repeated));
  }
  if (chosen.empty()) throw DataError(where + " has no column of numbers");
  return chosen;
}

}  // namespace

SeriesTable read_fixed_frame(hid_t file, const std::string& path, const std::string& group,
                             const std::vector<std::string>& columns, Content content) {
  const std::string where = path + ": " + group;
  const Hdf5Handle object = open_hdf5_object(file, path, group);
  check_levels(object.get(), where);
  const auto block_count = integer_attribute(object.get(), "nblocks");
  if (!block_count) throw DataError(where + " has no attribute nblocks; write the frame again");

  SeriesTable table;
  std::vector<Block> blocks;
  std::map<std::string, bool> holds_numbers;
  for (int64_t i = 0; i < block_count->front(); ++i) {
    const std::string stem = group + "/block" + std::to_string(i);
    Block block;
    block.names = axis_names(Hdf5Dataset(file, path, stem + "_items"));
    block.values = stem + "_values";
    const Hdf5Dataset values(file, path, block.values);
    // Dates are stored as integers of this value type.
    const std::string meaning = text_attribute(values.id(), "value_type").value_or("");
    block.numbers = values.info().is_number() && values.info().shape.size() == 2 &&
                    !meaning.starts_with("datetime") && !meaning.starts_with("timedelta");
    const auto transposed = integer_attribute(values.id(), "transposed");
    block.rows_first = transposed && transposed->front() != 0;
    for (const std::string& name : block.names) holds_numbers[name] = block.numbers;
    if (block.numbers) values.check_readable();
    if (values.info().partly_written()) table.notes.push_back(values.unwritten_note());
    blocks.push_back(std::move(block));
  }

  // axis0 has the order that the user sees; blocks are sorted by type.
  const std::vector<std::string> ordered = axis_names(Hdf5Dataset(file, path, group + "/axis0"));
  table.columns = choose(ordered, holds_numbers, columns, where, table.notes);
  const Hdf5Dataset index(file, path, group + "/axis1");
  const int64_t rows = index.info().shape.empty() ? 0 : index.info().shape.front();
  if (content == Content::kAll) {
    table.values = at::empty({rows, static_cast<int64_t>(table.columns.size())}, at::kFloat);
  }
  for (const Block& block : blocks) {
    if (!block.numbers || content == Content::kOutline) continue;
    const Hdf5Dataset dataset(file, path, block.values);
    const std::vector<int64_t> shape = {rows, static_cast<int64_t>(block.names.size())};
    const std::vector<int64_t>& stored = dataset.info().shape;
    if (block.rows_first ? stored != shape : stored != std::vector{shape[1], shape[0]}) {
      throw DataError(dataset.name() + " does not have " + std::to_string(rows) + " rows and " +
                      std::to_string(block.names.size()) + " columns as its names and index say");
    }
    if (block.rows_first) {
      place_rows(table, dataset, block.names);
    } else {
      std::vector<double> values = dataset.read_doubles();
      place_columns(table, at::from_blob(values.data(), stored, at::kDouble).t(), block.names,
                    dataset.name());
    }
  }
  table.offsets.push_back(rows);
  table.series = {std::filesystem::path(path).stem().string()};
  const std::string kind = text_attribute(index.id(), "kind").value_or("");
  const bool integers = index.info().type_class == H5T_INTEGER;
  set_index(table, integers ? index.read_integers() : std::vector<int64_t>(), integers ? kind : "",
            where);
  return table;
}

namespace {

struct Field {
  std::string name;
  H5T_class_t element = H5T_NO_CLASS;
  bool is_array = false;
  int64_t width = 1;
};

// One field of a table's rows: `width` doubles of each row, which HDF5 converts.
at::Tensor read_field(const Hdf5Dataset& table, const Field& field, int64_t rows) {
  const std::string what = table.name() + ": field " + field.name + " cannot be read";
  const hsize_t extent = static_cast<hsize_t>(field.width);
  const Hdf5Handle array = own(H5Tarray_create2(H5T_NATIVE_DOUBLE, 1, &extent), H5Tclose, what);
  const size_t size = sizeof(double) * static_cast<size_t>(field.width);
  const Hdf5Handle row = own(H5Tcreate(H5T_COMPOUND, size), H5Tclose, what);
  at::Tensor values = at::empty({rows, field.width}, at::kDouble);
  check_hdf5(
      H5Tinsert(row.get(), field.name.c_str(), 0, field.is_array ? array.get() : H5T_NATIVE_DOUBLE),
      what);
  table.read(row.get(), {0}, {rows}, values.mutable_data_ptr<double>());
  return values;
}

std::vector<Field> fields_of(const Hdf5Dataset& table) {
  std::vector<Field> fields;
  const Hdf5Handle type = own(H5Dget_type(table.id()), H5Tclose, table.name() + " has no type");
  for (int i = 0; i < H5Tget_nmembers(type.get()); ++i) {
    const auto member = static_cast<unsigned>(i);
    Field field;
    char* name = H5Tget_member_name(type.get(), member);
    if (name == nullptr) throw DataError(table.name() + ": a field has no name");
    field.name = name;
    H5free_memory(name);
    const Hdf5Handle of = own(H5Tget_member_type(type.get(), member), H5Tclose, table.name());
    field.element = H5Tget_class(of.get());
    if (field.element == H5T_ARRAY) {
      const Hdf5Handle base = own(H5Tget_super(of.get()), H5Tclose, table.name());
      field.is_array = true;
      field.element = H5Tget_class(base.get());
      hsize_t extent = 0;
      if (H5Tget_array_ndims(of.get()) != 1) field.element = H5T_NO_CLASS;
      if (field.element != H5T_NO_CLASS) {
        check_hdf5(H5Tget_array_dims2(of.get(), &extent), table.name() + ": " + field.name);
        field.width = static_cast<int64_t>(extent);
      }
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

// The columns of a field: pickled names for a block, the field's own name for a data column.
std::vector<std::string> field_columns(const Hdf5Dataset& table, const Field& field) {
  const auto pickled = text_attribute(table.id(), field.name + "_kind");
  const bool block = field.name.starts_with("values_block_");
  if (!block) return {field.name};
  const std::string where = table.name() + ": attribute " + field.name + "_kind";
  if (!pickled) throw DataError(where + " is missing, so its columns have no names");
  std::vector<std::string> names = unpickle_strings(*pickled, where);
  if (static_cast<int64_t>(names.size()) != field.width) {
    throw DataError(where + " names " + std::to_string(names.size()) + " columns of " +
                    std::to_string(field.width));
  }
  return names;
}

}  // namespace

SeriesTable read_frame_table(hid_t file, const std::string& path, const std::string& group,
                             const std::vector<std::string>& columns, Content content) {
  const std::string where = path + ": " + group;
  const Hdf5Dataset dataset(file, path, group + "/table");
  if (dataset.info().type_class != H5T_COMPOUND || dataset.info().shape.size() != 1) {
    throw DataError(dataset.name() + " is not the compound table that pandas writes");
  }
  dataset.check_readable();
  const Hdf5Handle object = open_hdf5_object(file, path, group);
  const std::string layout = text_attribute(object.get(), "table_type").value_or("");
  if (layout.find("multi") != std::string::npos) {
    throw DataError(where +
                    " has several levels of index; flatten them (reset_index) before writing");
  }
  const int64_t rows = dataset.info().shape.front();
  if (rows == 0) throw DataError(where + " has no rows");

  const std::vector<Field> fields = fields_of(dataset);
  std::vector<std::vector<std::string>> names;
  std::vector<std::string> ordered;
  std::map<std::string, bool> holds_numbers;
  for (const Field& field : fields) {
    names.push_back(field.name == "index" ? std::vector<std::string>()
                                          : field_columns(dataset, field));
    const bool number = field.element == H5T_FLOAT || field.element == H5T_INTEGER;
    const std::string meaning = text_attribute(dataset.id(), field.name + "_dtype").value_or("");
    for (const std::string& name : names.back()) {
      ordered.push_back(name);
      holds_numbers[name] =
          number && !meaning.starts_with("datetime") && !meaning.starts_with("timedelta");
    }
  }
  SeriesTable table;
  if (dataset.info().partly_written()) table.notes.push_back(dataset.unwritten_note());
  table.columns = choose(ordered, holds_numbers, columns, where, table.notes);
  if (content == Content::kAll) {
    table.values = at::empty({rows, static_cast<int64_t>(table.columns.size())}, at::kFloat);
  }
  bool index_found = false;
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool wanted = std::any_of(names[i].begin(), names[i].end(), [&](const std::string& name) {
      return std::find(table.columns.begin(), table.columns.end(), name) != table.columns.end();
    });
    if (wanted && content == Content::kAll) {
      place_columns(table, read_field(dataset, fields[i], rows), names[i], dataset.name());
    }
    index_found = index_found || (fields[i].name == "index" && fields[i].element == H5T_INTEGER);
  }
  table.offsets.push_back(rows);
  table.series = {std::filesystem::path(path).stem().string()};
  if (index_found) {
    std::vector<int64_t> index(static_cast<size_t>(rows));
    const Hdf5Handle row = own(H5Tcreate(H5T_COMPOUND, sizeof(int64_t)), H5Tclose, where);
    check_hdf5(H5Tinsert(row.get(), "index", 0, H5T_NATIVE_INT64), where);
    dataset.read(row.get(), {0}, {rows}, index.data());
    set_index(table, std::move(index), text_attribute(dataset.id(), "index_kind").value_or(""),
              where);
  }
  return table;
}

}  // namespace longship::data
