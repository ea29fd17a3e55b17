#include "data/csv_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/error.h"

namespace longship::data {
namespace {

constexpr size_t kBlock = 1 << 20;
constexpr int kEnd = -1;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string hex(unsigned char byte) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

CsvReader::CsvReader(const std::string& path, char delimiter, int64_t skip_lines)
    : path_(path), delimiter_(delimiter), stream_(path, std::ios::binary) {
  if (!stream_) throw DataError(path + " cannot be read: " + std::strerror(errno));
  skip_mark();
  for (int64_t skipped = 0; skipped < skip_lines && peek() != kEnd;) {
    if (line_end()) {
      ++skipped;
    } else {
      take();
    }
  }
}

void CsvReader::skip_mark() {
  refill(4);
  const std::string_view head(buffer_);
  const auto refuse = [&](const char* what, const char* remedy) {
    throw DataError(path_ + " " + what + "; " + remedy);
  };
  using namespace std::string_view_literals;
  const char* convert = "convert it to UTF-8, for instance with `iconv -f UTF-16 -t UTF-8`";
  if (head.starts_with("\xff\xfe\0\0"sv) || head.starts_with("\0\0\xfe\xff"sv)) {
    refuse("is encoded in UTF-32",
           "convert it to UTF-8, for instance with `iconv -f UTF-32 -t UTF-8`");
  }
  if (head.starts_with("\xff\xfe"sv)) refuse("is encoded in UTF-16 (little-endian)", convert);
  if (head.starts_with("\xfe\xff"sv)) refuse("is encoded in UTF-16 (big-endian)", convert);
  if (head.starts_with("\x1f\x8b"sv)) refuse("is compressed with gzip", "unpack it first (gunzip)");
  if (head.starts_with("PK\x03\x04"sv)) {
    refuse("is a zip archive or a spreadsheet", "unpack it or export it as CSV");
  }
  if (head.starts_with("\x89HDF"sv))
    refuse("is an HDF5 file, not CSV", "give it to data.path as it is");
  if (head.starts_with("\xef\xbb\xbf"sv)) at_ = 3;
}

bool CsvReader::refill(size_t needed) {
  while (buffer_.size() - at_ < needed && stream_) {
    buffer_offset_ += static_cast<int64_t>(at_);
    buffer_.erase(0, at_);
    at_ = 0;
    const size_t kept = buffer_.size();
    buffer_.resize(kept + kBlock);
    stream_.read(buffer_.data() + kept, kBlock);
    buffer_.resize(kept + static_cast<size_t>(stream_.gcount()));
    if (stream_.bad()) throw DataError(path_ + " cannot be read to its end");
  }
  return buffer_.size() - at_ >= needed;
}

int CsvReader::peek(size_t ahead) {
  if (at_ + ahead >= buffer_.size() && !refill(ahead + 1)) return kEnd;
  return static_cast<unsigned char>(buffer_[at_ + ahead]);
}

// Takes one line end. CRCRLF comes from writing CRLF text through a converter once too often.
bool CsvReader::line_end() {
  if (peek() == '\n') {
    take();
  } else if (peek() == '\r') {
    take();
    if (peek() == '\r' && peek(1) == '\n') take();
    if (peek() == '\n') take();
  } else {
    return false;
  }
  ++line_;
  return true;
}

void CsvReader::read_quoted() {
  const int64_t start_line = line_;
  take();
  while (true) {
    const int c = peek();
    if (c == kEnd) {
      throw DataError(path_ + ":" + std::to_string(start_line) +
                      ": a quoted field does not end; its closing quote is missing");
    }
    if (c == '"' && peek(1) != '"') {
      take();
      return;
    }
    if (c == '"') {
      take();
    } else if (c == '\n' || (c == '\r' && peek(1) != '\n')) {
      ++line_;
    }
    record_.push_back(static_cast<char>(c));
    take();
  }
}

void CsvReader::read_record() {
  record_.clear();
  places_.clear();
  while (true) {
    Field field;
    while (peek() == ' ' && delimiter_ != ' ') take();
    field.begin = record_.size();
    if (peek() == '"') {
      field.quoted = true;
      read_quoted();
      field.end = record_.size();
      while (peek() == ' ' || (peek() == '\t' && delimiter_ != '\t')) take();
      const int c = peek();
      if (c != kEnd && c != delimiter_ && c != '\n' && c != '\r') {
        throw DataError(path_ + ":" + std::to_string(line_) +
                        ": text stands behind a quoted field; quotes inside one are doubled");
      }
    } else {
      while (true) {
        const int c = peek();
        if (c == kEnd || c == delimiter_ || c == '\n' || c == '\r') break;
        record_.push_back(static_cast<char>(c));
        take();
      }
      field.end = record_.size();
    }
    places_.push_back(field);
    if (peek() != delimiter_) break;
    take();
  }
  if (peek() != kEnd) line_end();
}

bool CsvReader::next() {
  if (repeat_) {
    repeat_ = false;
    return true;
  }
  while (peek() != kEnd) {
    record_line_ = line_;
    const int64_t offset = buffer_offset_ + static_cast<int64_t>(at_);
    read_record();
    const bool blank = places_.size() == 1 && !places_.front().quoted && trimmed(record_).empty();
    if (blank) {
      if (pending_blank_ == 0) pending_blank_ = record_line_;
      continue;
    }
    if (pending_blank_ > 0 && first_inner_blank_ == 0) first_inner_blank_ = pending_blank_;
    pending_blank_ = 0;
    check_utf8(offset);
    fields_.clear();
    for (const Field& field : places_) {
      const std::string_view text =
          std::string_view(record_).substr(field.begin, field.end - field.begin);
      fields_.push_back(field.quoted ? text : trimmed(text));
    }
    return true;
  }
  fields_.clear();
  return false;
}

void CsvReader::check_utf8(int64_t offset) const {
  size_t bad = 0;
  if (record_.find('\0') != std::string::npos) {
    throw DataError(place() +
                    ": the line holds zero bytes; if the file is UTF-16, convert it with "
                    "`iconv -f UTF-16 -t UTF-8`");
  }
  if (valid_utf8(record_, bad)) return;
  // The record's text lacks quotes and delimiters, so the offset is looked up in the file itself.
  std::ifstream again(path_, std::ios::binary);
  again.seekg(offset);
  std::string raw(record_.size() * 2 + 4 * places_.size() + 16, '\0');
  again.read(raw.data(), static_cast<std::streamsize>(raw.size()));
  raw.resize(static_cast<size_t>(again.gcount()));
  const auto byte = static_cast<unsigned char>(record_[bad]);
  size_t at = 0;
  if (valid_utf8(raw, at)) at = bad;
  throw DataError(place() + ": byte " + hex(byte) + " at offset " +
                  std::to_string(offset + static_cast<int64_t>(at)) +
                  " of the file is not UTF-8; convert the file, for instance with "
                  "`iconv -f ISO-8859-1 -t UTF-8`");
}

bool valid_utf8(std::string_view text, size_t& bad) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i);
    size_t length = 1;
    if (lead >= 0x80) {
      length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
      bool good = lead >= 0xc2 && lead <= 0xf4 && i + length <= text.size();
      for (size_t k = 1; good && k < length; ++k) good = (byte(i + k) & 0xc0) == 0x80;
      // Overlong forms, surrogates and what lies beyond U+10FFFF.
      if (good && length > 2) {
        const unsigned char second = byte(i + 1);
        good = !(lead == 0xe0 && second < 0xa0) && !(lead == 0xed && second > 0x9f) &&
               !(lead == 0xf0 && second < 0x90) && !(lead == 0xf4 && second > 0x8f);
      }
      if (!good) {
        bad = i;
        return false;
      }
    }
    i += length;
  }
  return true;
}

std::string shown(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (result.size() >= kMost) return result + "...";
    size_t bad = 0;
    const auto byte = static_cast<unsigned char>(text[i]);
    size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    length = std::min(length, text.size() - i);
    if (byte < 0x20 || byte == 0x7f || !valid_utf8(text.substr(i, length), bad)) {
      result += "\\x" + hex(byte).substr(2);
    } else {
      result += text.substr(i, length);
      i += length - 1;
    }
  }
  return result;
}

}  // namespace longship::data
