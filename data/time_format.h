#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace longship::data {

// These find formats for parse_by_format() by trying them, so that what they give reads the text.

// This format of a date, with the usual ones of a time and a zone behind it. Nothing when none
// reads the text.
std::optional<std::string> format_with_clock(std::string_view text, const std::string& date);

// A format of digits without marks that reads a text: "2020010122" is of %Y%m%d%H. Years are 1900
// to 2100.
std::optional<std::string> calendar_format(std::string_view text);

// A format that reads a text whose date is not recognised by itself, or could be a number: digits
// without marks, a year of two digits, the names of months; nothing when day and month may be
// either way round.
std::optional<std::string> likely_time_format(std::string_view text);

// Whether a text would be a time if its year of four digits were nearer: of a format, or of none
// recognised. Nanoseconds since 1970 in 64 bits reach from 1677-09-21 to 2262-04-11.
bool beyond_range(std::string_view text, const std::string& format = "");

}  // namespace longship::data
