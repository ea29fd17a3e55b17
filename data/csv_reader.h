#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace longship::data {

// Reads a CSV file record by record in bounded memory. Lines may end in LF, CRLF, CR or CRCRLF,
// also mixed; quoted fields may hold delimiters, line ends and doubled quotes. A UTF-8 byte-order
// mark is dropped. Blank lines are skipped.
class CsvReader {
 public:
  // Skips the first `skip_lines` lines. Throws DataError for a file that cannot be read, is
  // compressed or in UTF-16 or UTF-32.
  CsvReader(const std::string& path, char delimiter, int64_t skip_lines = 0);

  // Reads the next record. False at the end. Throws DataError naming file and line: a quoted field
  // that does not end or has text behind it, bytes that are not UTF-8 (with their offset).
  bool next();
  // Lets the following next() give the current record once more.
  void repeat() { repeat_ = true; }

  // Of the current record, valid until the next call; blanks around unquoted fields are removed.
  const std::vector<std::string_view>& fields() const { return fields_; }
  int64_t line() const { return record_line_; }  // where it starts, from 1
  // The line of the first blank one that stood between records, 0 without.
  int64_t first_inner_blank() const { return first_inner_blank_; }
  const std::string& path() const { return path_; }
  // "FILE:LINE" of the current record.
  std::string place() const { return path_ + ":" + std::to_string(record_line_); }

 private:
  int peek(size_t ahead = 0);
  void take() { ++at_; }
  bool refill(size_t needed);
  bool line_end();
  void read_record();
  void read_quoted();
  void check_utf8(int64_t offset) const;
  void skip_mark();

  struct Field {
    size_t begin = 0;
    size_t end = 0;
    bool quoted = false;
  };

  std::string path_;
  char delimiter_;
  bool repeat_ = false;
  std::ifstream stream_;
  std::string buffer_;
  size_t at_ = 0;              // in the buffer
  int64_t buffer_offset_ = 0;  // of the buffer in the file
  std::string record_;         // fields one after another, quotes resolved
  std::vector<Field> places_;
  std::vector<std::string_view> fields_;
  int64_t line_ = 1;
  int64_t record_line_ = 0;
  int64_t pending_blank_ = 0;  // line of the first blank since the last record
  int64_t first_inner_blank_ = 0;
};

// Whether all bytes are valid UTF-8; if not, `bad` is the index of the first that is not.
bool valid_utf8(std::string_view text, size_t& bad);

// Text for a message: shortened, control characters and bytes that are not UTF-8 escaped.
std::string shown(std::string_view text);

}  // namespace longship::data
