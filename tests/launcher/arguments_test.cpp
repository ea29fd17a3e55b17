#include "launcher/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace longship::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

cxxopts::Options table() {
  cxxopts::Options options("longship row", "Rows.");
  options.add_options()                                      //
      ("stroke", "", cxxopts::value<std::string>(), "NAME")  //
      ("speed", "", cxxopts::value<int>(), "N")              //
      ("quiet", "")                                          //
      ("boat", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional({"boat"});
  return options;
}

std::string refusal(const std::vector<std::string>& words) {
  cxxopts::Options options = table();
  try {
    text_option(parse_arguments(options, words), "stroke", "");
  } catch (const runtime::UsageError& error) {
    EXPECT_EQ(error.code(), runtime::ExitCode::kUsage);
    return error.what();
  }
  return "(not refused)";
}

TEST(Arguments, TakesOptionsAndPositionalWords) {
  cxxopts::Options options = table();
  const auto parsed = parse_arguments(options, {"--stroke", "fast", "eight", "--quiet"});
  EXPECT_EQ(text_option(parsed, "stroke", "slow"), "fast");
  EXPECT_EQ(parsed["boat"].as<std::vector<std::string>>(), std::vector<std::string>{"eight"});
  EXPECT_EQ(parsed.count("quiet"), 1u);
}

TEST(Arguments, FallsBackWhenAnOptionIsNotGiven) {
  cxxopts::Options options = table();
  EXPECT_EQ(text_option(parse_arguments(options, {}), "stroke", "slow"), "slow");
}

TEST(Arguments, RefusesWhatItDoesNotKnowAndNamesTheHelp) {
  EXPECT_THAT(refusal({"--sped", "3"}),
              AllOf(HasSubstr("sped"), HasSubstr("; see longship row --help")));
  EXPECT_THAT(refusal({"--stroke"}), AllOf(HasSubstr("stroke"), HasSubstr("--help")));
  EXPECT_THAT(refusal({"--speed", "fast"}), AllOf(HasSubstr("fast"), HasSubstr("--help")));
  EXPECT_EQ(refusal({"--stroke", "a", "--stroke", "b"}), "--stroke was given twice");
}

TEST(Arguments, RefusesWordsThatBelongToNothing) {
  cxxopts::Options options("longship row", "");
  try {
    parse_arguments(options, {"stray"});
    FAIL() << "not refused";
  } catch (const runtime::UsageError& error) {
    EXPECT_STREQ(error.what(), "'stray' belongs to nothing; see longship row --help");
  }
}

}  // namespace
}  // namespace longship::launcher
