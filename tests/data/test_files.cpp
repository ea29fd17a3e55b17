#include "test_files.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace longship::data {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "longship_data_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, std::string_view bytes) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::optional<std::string> shared_file(const std::string& name) {
  const char* folder = std::getenv("LONGSHIP_SHARED");
  const fs::path root = folder ? fs::path(folder) : fs::path(LONGSHIP_SOURCE_DIR) / "../shared";
  const fs::path path = root / name;
  if (!fs::exists(path)) return std::nullopt;
  return path.string();
}

SeriesTable make_table(const std::vector<std::vector<std::vector<float>>>& series, int64_t step) {
  SeriesTable table;
  const size_t columns = series.front().front().size();
  for (size_t i = 0; i < columns; ++i) table.columns.emplace_back(1, static_cast<char>('a' + i));
  std::vector<float> values;
  for (size_t s = 0; s < series.size(); ++s) {
    table.series.push_back(std::to_string(s));
    for (size_t row = 0; row < series[s].size(); ++row) {
      values.insert(values.end(), series[s][row].begin(), series[s][row].end());
      if (step > 0) table.time.push_back(static_cast<int64_t>(row) * step);
    }
    table.offsets.push_back(static_cast<int64_t>(values.size() / columns));
  }
  table.values = at::tensor(values).view({-1, static_cast<int64_t>(columns)});
  return table;
}

std::vector<std::vector<float>> counted(int64_t rows, int64_t columns) {
  std::vector<std::vector<float>> series;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<float> line;
    for (int64_t column = 0; column < columns; ++column) {
      line.push_back(static_cast<float>(row + 100 * column));
    }
    series.push_back(line);
  }
  return series;
}

std::vector<float> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().flatten();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

}  // namespace longship::data
