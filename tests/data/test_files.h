#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/series_store.h"

namespace longship::data {

// A fresh folder that is removed with everything in it at the end of a test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // Writes a file of these bytes and returns its path.
  std::string write(const std::string& name, std::string_view bytes) const;
  std::vector<std::string> names() const;  // of the files in it, sorted

 private:
  std::filesystem::path folder_;
};

std::string read_bytes(const std::string& path);

// A file of the shared test data ("data/ETTh1.csv", "cases/files/csv_bom.csv"); nothing when the
// data are not there. The folder is LONGSHIP_SHARED, else shared/ beside the source tree.
std::optional<std::string> shared_file(const std::string& name);

// A table of one series per list of rows: rows of values, all of equal width, columns "a", "b", ...
// With a step the stamps are 0, step, 2 step, ...; with 0 there is no time.
SeriesTable make_table(const std::vector<std::vector<std::vector<float>>>& series,
                       int64_t step = 0);

// A series whose row r holds r, 100 + r, 200 + r, ...
std::vector<std::vector<float>> counted(int64_t rows, int64_t columns);

// All values of a float32 tensor, the last axis fastest.
std::vector<float> numbers_of(const at::Tensor& tensor);

// The message of the exception of type Error that the call throws; "(nothing was thrown)" when it
// throws none.
template <typename Error, typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace longship::data

// Skips a test that needs a shared file which is not there.
#define LONGSHIP_SHARED_FILE(variable, name)                                           \
  const auto variable##_found = longship::data::shared_file(name);                     \
  if (!variable##_found) GTEST_SKIP() << "the shared file " << (name) << " is absent"; \
  const std::string variable = *variable##_found
