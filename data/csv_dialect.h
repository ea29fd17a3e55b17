#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longship::data {

// How a CSV file is written.
struct CsvDialect {
  char delimiter = ',';
  char decimal = '.';
};

// Recognises the delimiter (comma, semicolon, tab or bar) and the decimal mark from the first
// records, as far as they are unambiguous; what is given (not 0) is taken as it is. The first
// record is a header unless `no_header`. Throws DataError naming the option to set when two
// readings are possible, or two decimal marks occur.
CsvDialect recognise_dialect(const std::string& path, char delimiter, char decimal,
                             int64_t skip_lines, bool no_header = false);

// "comma", "semicolon", "tab", "bar" or the character in quotes.
std::string delimiter_name(char delimiter);

}  // namespace longship::data
