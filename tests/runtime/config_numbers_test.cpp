#include "runtime/config_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace longship::runtime {
namespace {

using testing::HasSubstr;

template <typename Call>
std::string value_error(Call call) {
  try {
    call();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ParseNumber, ReadsAllUsualSpellings) {
  EXPECT_EQ(parse_number("1e-3"), 0.001);
  EXPECT_EQ(parse_number("1E-3"), 0.001);
  EXPECT_EQ(parse_number("1.e-3"), 0.001);
  EXPECT_EQ(parse_number("+1e-3"), 0.001);
  EXPECT_EQ(parse_number("-1e-3"), -0.001);
  EXPECT_EQ(parse_number(".5"), 0.5);
  EXPECT_EQ(parse_number("1."), 1.0);
  EXPECT_EQ(parse_number("0.0"), 0.0);
  EXPECT_EQ(parse_number("0e5"), 0.0);
  EXPECT_EQ(parse_number("1e3"), 1000.0);
  EXPECT_EQ(parse_number("12345678901234567890"), 12345678901234567890.0);
}

TEST(ParseNumber, RefusesWhatIsNoFiniteDecimalNumber) {
  for (const char* text : {".inf", "inf", "-Infinity", ".nan", "NaN"}) {
    EXPECT_THAT(value_error([&] { parse_number(text); }), HasSubstr("not a finite number")) << text;
  }
  EXPECT_THAT(value_error([] { parse_number("1e400"); }), HasSubstr("too large"));
  EXPECT_THAT(value_error([] { parse_number("1e-400"); }), HasSubstr("too small"));
  EXPECT_THAT(value_error([] { parse_number("0x10"); }), HasSubstr("digits 0 to 9"));
  EXPECT_THAT(value_error([] { parse_number("08"); }), HasSubstr("leading zeros"));
  EXPECT_THAT(value_error([] { parse_number("00.5"); }), HasSubstr("leading zeros"));
  EXPECT_THAT(value_error([] { parse_number("1_000"); }), HasSubstr("write 1000"));
  for (const char* text : {"", "abc", "1e", "e5", ".", "+", "1 2", "1.2.3", "--1", "1e5x"}) {
    EXPECT_THAT(value_error([&] { parse_number(text); }), HasSubstr("is not a number")) << text;
  }
}

TEST(ParseInteger, TakesExactWholeNumbersOnly) {
  EXPECT_EQ(parse_integer("256"), 256);
  EXPECT_EQ(parse_integer("+7"), 7);
  EXPECT_EQ(parse_integer("-7"), -7);
  EXPECT_EQ(parse_integer("1e2"), 100);
  EXPECT_EQ(parse_integer("2.0"), 2);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_THAT(value_error([] { parse_integer("2.5"); }), HasSubstr("not a whole number"));
  EXPECT_THAT(value_error([] { parse_integer("1e-3"); }), HasSubstr("not a whole number"));
  EXPECT_THAT(value_error([] { parse_integer("08"); }), HasSubstr("leading zeros"));
}

TEST(ParseInteger, RefusesWhatDoesNotFitSixtyFourBits) {
  for (const char* text : {"9223372036854775808", "99999999999999999999", "1e19", "1e300"}) {
    EXPECT_THAT(value_error([&] { parse_integer(text); }),
                HasSubstr("beyond the largest integer, 9223372036854775807"))
        << text;
  }
}

TEST(FormatNumber, GivesTheShortestTextThatReadsBack) {
  EXPECT_EQ(format_number(0.001), "0.001");
  EXPECT_EQ(format_number(1e-8), "1e-8");
  EXPECT_EQ(format_number(5e-4), "0.0005");
  EXPECT_EQ(format_number(-2.5e20), "-2.5e20");
  EXPECT_EQ(format_number(1e100), "1e100");
  EXPECT_EQ(format_number(65536), "65536");
  EXPECT_EQ(format_number(0), "0");
  for (double value : {0.1, 1.0 / 3, 6.02e23, 5e-324, -1.7976931348623157e308}) {
    EXPECT_EQ(parse_number(format_number(value)), value);
  }
}

}  // namespace
}  // namespace longship::runtime
