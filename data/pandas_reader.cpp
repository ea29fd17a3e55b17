#include "data/pandas_reader.h"

#include <algorithm>

#include "data/error.h"
#include "data/hdf5_dataset.h"
#include "data/hdf5_file.h"
#include "data/pandas_frame.h"

namespace longship::data {
namespace {

void append_utf8(std::string& text, unsigned code) {
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text.push_back(static_cast<char>(0xc0 | code >> 6));
    text.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else if (code < 0x10000) {
    text.push_back(static_cast<char>(0xe0 | code >> 12));
    text.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
    text.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    text.push_back(static_cast<char>(0xf0 | code >> 18));
    text.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3f)));
    text.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
    text.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

// Python's raw-unicode-escape: Latin-1 bytes with \uXXXX and \UXXXXXXXX.
std::string from_raw_unicode(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size();
    const size_t digits = !escape ? 0 : text[i + 1] == 'u' ? 4 : text[i + 1] == 'U' ? 8 : 0;
    if (digits > 0 && i + 2 + digits <= text.size()) {
      append_utf8(result, static_cast<unsigned>(
                              std::stoul(std::string(text.substr(i + 2, digits)), nullptr, 16)));
      i += 1 + digits;
    } else {
      append_utf8(result, static_cast<unsigned char>(text[i]));
    }
  }
  return result;
}

}  // namespace

bool is_pandas_object(hid_t file, const std::string& path, const std::string& group) {
  const Hdf5Handle object = open_hdf5_object(file, path, group);
  return string_attribute(object.get(), "pandas_type").has_value();
}

std::vector<std::string> unpickle_strings(std::string_view pickle, const std::string& where) {
  // Protocol 0 is lines of one opcode and its argument; a list begins with a mark and `l`.
  if (!pickle.starts_with("(l")) {
    throw DataError(where +
                    " is not a list pickled as text; write the frame with a current pandas, or "
                    "as format='fixed'");
  }
  std::vector<std::string> strings;
  size_t begin = 0;
  while (begin < pickle.size()) {
    const size_t end = std::min(pickle.find('\n', begin), pickle.size());
    std::string_view line = pickle.substr(begin, end - begin);
    begin = end + 1;
    // Appending opcodes of the item before stand in front of an item on the same line.
    while (!line.empty() && (line.front() == 'a' || line.front() == '(')) line.remove_prefix(1);
    if (line.starts_with('V')) {
      strings.push_back(from_raw_unicode(line.substr(1)));
    } else if (line.starts_with("S'") && line.ends_with('\'') && line.size() >= 3) {
      strings.emplace_back(line.substr(2, line.size() - 3));
    } else if (line.starts_with('I') || line.starts_with('L')) {
      // A column that is called by a number.
      std::string_view number = line.substr(1);
      if (number.ends_with('L')) number.remove_suffix(1);
      strings.emplace_back(number);
    }
  }
  return strings;
}

SeriesTable read_pandas(hid_t file, const std::string& path, const std::string& group,
                        const std::vector<std::string>& columns) {
  const Hdf5Handle object = open_hdf5_object(file, path, group);
  const auto type = string_attribute(object.get(), "pandas_type");
  const std::string kind = type ? type->front() : "";
  if (kind == "frame") return read_fixed_frame(file, path, group, columns);
  if (kind == "frame_table") return read_frame_table(file, path, group, columns);
  throw DataError(path + ": " + group + " is a pandas object of type '" + kind +
                  "'; frames are read: write it with DataFrame.to_hdf");
}

}  // namespace longship::data
