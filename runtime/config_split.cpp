#include "runtime/config_split.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <charconv>
#include <chrono>
#include <regex>
#include <variant>

#include "runtime/config_numbers.h"

namespace longship::runtime {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86400 * kSecond;
const char* const kForms =
    "give three shares [0.7, 0.1, 0.2], three row ranges [[0, 700], [700, 800], [800, 1000]] or "
    "the "
    "dates {validation: 2013-10-01, test: 2013-11-15}";
const std::array<const char*, 3> kParts = {"train", "validation", "test"};

const std::string& plain(const YAML::Node& node) {
  if (!node.IsScalar()) throw ValueError(std::string("is not a split: ") + kForms);
  if (node.Tag() == "!") throw ValueError("'" + node.Scalar() + "' is quoted: remove the quotes");
  return node.Scalar();
}

data::SplitFractions parse_fractions(const YAML::Node& node) {
  data::SplitFractions shares{};
  double sum = 0;
  for (size_t part = 0; part < 3; ++part) {
    shares[part] = parse_number(plain(node[part]));
    if (shares[part] < 0 || shares[part] > 1) {
      throw ValueError("the " + std::string(kParts[part]) + " share " +
                       format_number(shares[part]) + " is not between 0 and 1");
    }
    sum += shares[part];
  }
  if (shares[0] == 0) throw ValueError("the train share is 0: there is nothing to train on");
  // Decimal shares such as 0.7 + 0.1 + 0.2 need not add up to exactly 1 in binary.
  if (sum > 1 + 1e-9) {
    throw ValueError(fmt::format("the shares sum to {:.6g}, more than 1", sum));
  }
  return shares;
}

data::SplitRows parse_rows(const YAML::Node& node) {
  data::SplitRows rows{};
  for (size_t part = 0; part < 3; ++part) {
    const std::string name = std::string("the ") + kParts[part] + " range";
    if (!node[part].IsSequence() || node[part].size() != 2) {
      throw ValueError(name + " is not a pair of rows [begin, end]");
    }
    for (size_t end = 0; end < 2; ++end) rows[part][end] = parse_integer(plain(node[part][end]));
    const std::string shown = fmt::format("[{}, {}]", rows[part][0], rows[part][1]);
    if (rows[part][0] < 0) throw ValueError(name + " " + shown + " begins before row 0");
    if (rows[part][1] < rows[part][0]) throw ValueError(name + " " + shown + " runs backwards");
    if (part > 0 && rows[part][0] < rows[part - 1][1]) {
      throw ValueError(name + " " + shown + " begins before the " + kParts[part - 1] +
                       " range ends: parts follow each other in time");
    }
  }
  if (rows[0][0] == rows[0][1]) {
    throw ValueError("the train range is empty: there is nothing to train on");
  }
  return rows;
}

data::SplitDates parse_dates(const YAML::Node& node) {
  data::SplitDates dates{};
  std::array<bool, 2> given{};
  for (const auto& pair : node) {
    const std::string name = pair.first.IsScalar() ? pair.first.Scalar() : "";
    const size_t part = name == "validation" ? 0 : name == "test" ? 1 : 2;
    if (part == 2) {
      throw ValueError("the part '" + name + "' is unknown: the dates are validation and test");
    }
    if (given[part]) throw ValueError("the date of " + name + " is given twice");
    given[part] = true;
    if (!pair.second.IsScalar()) throw ValueError("the date of " + name + " is not a date");
    dates[part] = parse_date(pair.second.Scalar());
  }
  if (!given[0] || !given[1]) {
    throw ValueError(std::string("the date of ") + (given[0] ? "test" : "validation") +
                     " is missing");
  }
  if (dates[1] < dates[0]) throw ValueError("the test date lies before the validation date");
  return dates;
}

}  // namespace

data::SplitSpec parse_split(const YAML::Node& node) {
  if (node.IsMap()) return parse_dates(node);
  if (!node.IsSequence() || node.size() != 3) {
    throw ValueError(std::string("is not a split: ") + kForms);
  }
  const bool rows = node[0].IsSequence();
  for (size_t part = 1; part < 3; ++part) {
    if (node[part].IsSequence() != rows) {
      throw ValueError(std::string("mixes shares and row ranges: ") + kForms);
    }
  }
  if (rows) return parse_rows(node);
  return parse_fractions(node);
}

std::string format_split(const data::SplitSpec& split) {
  if (const auto* shares = std::get_if<data::SplitFractions>(&split)) {
    return fmt::format("[{}, {}, {}]", format_number((*shares)[0]), format_number((*shares)[1]),
                       format_number((*shares)[2]));
  }
  if (const auto* rows = std::get_if<data::SplitRows>(&split)) {
    return fmt::format("[[{}, {}], [{}, {}], [{}, {}]]", (*rows)[0][0], (*rows)[0][1],
                       (*rows)[1][0], (*rows)[1][1], (*rows)[2][0], (*rows)[2][1]);
  }
  const auto& dates = std::get<data::SplitDates>(split);
  // Quoted, because a colon in a plain scalar within braces is not read alike by all YAML readers.
  return "{validation: \"" + format_date(dates[0]) + "\", test: \"" + format_date(dates[1]) + "\"}";
}

int64_t parse_date(std::string_view text) {
  static const std::regex pattern(
      R"((\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2}))?(?: ?(Z|[+-]\d{2}:?\d{2}))?)?)");
  const std::string shown(text);
  std::smatch match;
  if (!std::regex_match(shown, match, pattern)) {
    throw ValueError("'" + shown +
                     "' is not a date: write 2013-10-01 or 2013-10-01T06:00:00Z (UTC unless a zone "
                     "such as +01:00 is given)");
  }
  const auto part = [&](size_t group) {
    int value = 0;
    const std::string digits = match[group].str();
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;  // 0 for a group that is absent
  };
  const std::chrono::year_month_day day{std::chrono::year(part(1)),
                                        std::chrono::month(static_cast<unsigned>(part(2))),
                                        std::chrono::day(static_cast<unsigned>(part(3)))};
  if (!day.ok() || part(4) > 23 || part(5) > 59 || part(6) > 59) {
    throw ValueError("'" + shown + "' is not a date of the calendar");
  }
  if (part(1) < 1678 || part(1) > 2261) {
    throw ValueError("'" + shown + "' is outside the years 1678 to 2261 of 64-bit nanoseconds");
  }
  int64_t offset = 0;  // seconds east of UTC
  const std::string zone = match[7].str();
  if (!zone.empty() && zone != "Z") {
    const int hours = (zone[1] - '0') * 10 + (zone[2] - '0');
    const size_t minutes_at = zone.size() == 6 ? 4 : 3;
    const int minutes = (zone[minutes_at] - '0') * 10 + (zone[minutes_at + 1] - '0');
    offset = (zone[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
  }
  const int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  return (days * 86400 + part(4) * 3600 + part(5) * 60 + part(6) - offset) * kSecond;
}

std::string format_date(int64_t nanoseconds) {
  const std::chrono::sys_time<std::chrono::nanoseconds> time{std::chrono::nanoseconds(nanoseconds)};
  const auto midnight = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day day(midnight);
  std::string date =
      fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()),
                  static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  if (nanoseconds % kDay == 0) return date;
  const int64_t seconds = (time - midnight).count() / kSecond;
  return fmt::format("{}T{:02}:{:02}:{:02}Z", date, seconds / 3600, seconds / 60 % 60,
                     seconds % 60);
}

}  // namespace longship::runtime
