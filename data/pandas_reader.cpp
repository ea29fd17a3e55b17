#include "data/pandas_reader.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

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
    const bool whole = digits > 0 && i + 2 + digits <= text.size();
    const std::string_view hex = text.substr(whole ? i + 2 : i, whole ? digits : 0);
    const char* begin = hex.data();
    const char* end = begin + hex.size();
    unsigned code = 0;
    if (whole && std::from_chars(begin, end, code, 16).ptr == end) {
      append_utf8(result, code);
      i += 1 + digits;
    } else {
      append_utf8(result, static_cast<unsigned char>(text[i]));
    }
  }
  return result;
}

struct PickleItem {
  enum class Kind { kMark, kText, kList } kind = Kind::kMark;
  std::vector<std::string> texts;  // one of a text
};

// Takes the items above the last mark off the stack, as a list or as a tuple: one text of its
// parts.
template <typename Refuse>
PickleItem above_mark(std::vector<PickleItem>& stack, bool list, const Refuse& refuse) {
  PickleItem result;
  result.kind = PickleItem::Kind::kList;
  while (!stack.empty() && stack.back().kind != PickleItem::Kind::kMark) {
    if (stack.back().kind != PickleItem::Kind::kText) throw refuse();
    result.texts.insert(result.texts.begin(), stack.back().texts.front());
    stack.pop_back();
  }
  if (stack.empty()) throw refuse();
  stack.pop_back();
  if (list) return result;
  std::string joined;
  for (const std::string& text : result.texts) {
    if (!joined.empty()) joined += '_';
    joined += text;
  }
  return {PickleItem::Kind::kText, {joined}};
}

// S'text', I7 or L7L.
std::string plain_value(char opcode, std::string_view argument) {
  if (opcode == 'S' && argument.size() >= 2)
    return std::string(argument.substr(1, argument.size() - 2));
  if (argument.ends_with('L')) argument.remove_suffix(1);
  return std::string(argument);
}

}  // namespace

bool is_pandas_object(hid_t file, const std::string& path, const std::string& group) {
  const Hdf5Handle object = open_hdf5_object(file, path, group);
  return string_attribute(object.get(), "pandas_type").has_value();
}

std::vector<std::string> unpickle_strings(std::string_view pickle, const std::string& where) {
  // A machine with a stack and a memo, of which a list of strings and tuples needs these opcodes:
  // ( mark; l list and t tuple of what is above the mark; S V I L values; p store and g fetch the
  // top under a number; a append the top to the list below it; . end.
  std::vector<PickleItem> stack;
  std::map<std::string, PickleItem, std::less<>> memo;
  const auto refuse = [&]() -> DataError {
    return DataError(where +
                     " is not a list of names pickled as text; write the frame with a current "
                     "pandas, or as format='fixed'");
  };
  for (size_t at = 0; at < pickle.size();) {
    const char opcode = pickle[at++];
    std::string_view argument;
    if (std::string_view("SVILpg").find(opcode) != std::string_view::npos) {
      const size_t end = std::min(pickle.find('\n', at), pickle.size());
      argument = pickle.substr(at, end - at);
      at = end + 1;
    }
    if (opcode == '.') break;
    if (opcode == '(') {
      stack.push_back({PickleItem::Kind::kMark, {}});
    } else if (opcode == 'l' || opcode == 't') {
      stack.push_back(above_mark(stack, opcode == 'l', refuse));
    } else if (opcode == 'V') {
      stack.push_back({PickleItem::Kind::kText, {from_raw_unicode(argument)}});
    } else if (opcode == 'S' || opcode == 'I' || opcode == 'L') {
      stack.push_back({PickleItem::Kind::kText, {plain_value(opcode, argument)}});
    } else if (opcode == 'p' && !stack.empty()) {
      memo[std::string(argument)] = stack.back();
    } else if (opcode == 'g' && memo.count(argument) > 0) {
      stack.push_back(memo.find(argument)->second);
    } else if (opcode == 'a' && stack.size() >= 2 &&
               stack[stack.size() - 2].kind == PickleItem::Kind::kList) {
      const PickleItem item = std::move(stack.back());
      stack.pop_back();
      if (item.kind != PickleItem::Kind::kText) throw refuse();
      stack.back().texts.push_back(item.texts.front());
    } else {
      throw refuse();
    }
  }
  if (stack.size() != 1 || stack.front().kind != PickleItem::Kind::kList) throw refuse();
  return stack.front().texts;
}

SeriesTable read_pandas(hid_t file, const std::string& path, const std::string& group,
                        const std::vector<std::string>& columns, Content content) {
  const Hdf5Handle object = open_hdf5_object(file, path, group);
  const auto type = string_attribute(object.get(), "pandas_type");
  const std::string kind = type ? type->front() : "";
  if (kind == "frame") return read_fixed_frame(file, path, group, columns, content);
  if (kind == "frame_table") return read_frame_table(file, path, group, columns, content);
  throw DataError(path + ": " + group + " is a pandas object of type '" + kind +
                  "'; frames are read: write it with DataFrame.to_hdf");
}

}  // namespace longship::data
