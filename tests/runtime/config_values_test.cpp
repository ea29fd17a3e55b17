#include "runtime/config_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "runtime/config_numbers.h"

namespace longship::runtime {
namespace {

using testing::HasSubstr;

Field make(FieldType type, FieldRule rule) {
  Field field;
  field.key = "a.b";
  field.type = type;
  field.rule = std::move(rule);
  return field;
}

std::string value_error(const Field& field, const std::string& text) {
  try {
    read_value(field, YAML::Load(text));
  } catch (const ValueError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReadValue, ChecksBoundsThatAreClosedOrOpen) {
  const Field closed = make(FieldType::kInteger, {.minimum = 1, .maximum = 10});
  EXPECT_EQ(read_value(closed, YAML::Load("10")), FieldValue(int64_t{10}));
  EXPECT_THAT(value_error(closed, "0"), HasSubstr("0 is out of range: must be at least 1"));
  EXPECT_THAT(value_error(closed, "11"), HasSubstr("must be at most 10"));
  const Field open = make(FieldType::kNumber, {.minimum = 0, .maximum = 1, .open = true});
  EXPECT_EQ(read_value(open, YAML::Load("1e-3")), FieldValue(0.001));
  EXPECT_THAT(value_error(open, "0"), HasSubstr("must be more than 0"));
  EXPECT_THAT(value_error(open, "1.0"), HasSubstr("must be less than 1"));
}

TEST(ReadValue, KeepsAutoApartFromNumbers) {
  const Field field = make(FieldType::kInteger, {.minimum = 1, .automatic = true});
  EXPECT_EQ(read_value(field, YAML::Load("auto")), FieldValue(int64_t{0}));
  EXPECT_THAT(value_error(field, "0"), HasSubstr("must be at least 1"));
  EXPECT_THAT(value_error(make(FieldType::kInteger, {}), "auto"), HasSubstr("is not a number"));
}

TEST(ReadValue, RefusesQuotedNumbersAndSwitches) {
  EXPECT_THAT(value_error(make(FieldType::kNumber, {}), "\"0.001\""),
              HasSubstr("remove the quotes"));
  EXPECT_THAT(value_error(make(FieldType::kFlag, {}), "'true'"), HasSubstr("remove the quotes"));
  EXPECT_THAT(value_error(make(FieldType::kNumberList, {}), "[0.1, '0.2']"), HasSubstr("quotes"));
}

TEST(ReadValue, ReadsSwitches) {
  const Field field = make(FieldType::kFlag, {});
  for (const char* text : {"true", "True", "yes", "YES"}) {
    EXPECT_EQ(read_value(field, YAML::Load(text)), FieldValue(true)) << text;
  }
  for (const char* text : {"false", "FALSE", "no"}) {
    EXPECT_EQ(read_value(field, YAML::Load(text)), FieldValue(false)) << text;
  }
  EXPECT_THAT(value_error(field, "1"), HasSubstr("neither true nor false"));
}

TEST(ReadValue, TakesATextForAListOfOneWithItsCommas) {
  const Field field = make(FieldType::kTextList, {});
  EXPECT_EQ(read_value(field, YAML::Load("a b/Zürich,1/'q'/x.h5")),
            FieldValue(std::vector<std::string>{"a b/Zürich,1/'q'/x.h5"}));
  EXPECT_EQ(read_value(field, YAML::Load("[a, 1, 'b, c']")),
            FieldValue(std::vector<std::string>{"a", "1", "b, c"}));
  EXPECT_THAT(value_error(field, "{a: 1}"), HasSubstr("group of keys"));
  EXPECT_THAT(value_error(field, "[a, [b]]"), HasSubstr("is a list"));
  EXPECT_THAT(value_error(field, "[a, ~]"), HasSubstr("has no value"));
}

TEST(ReadValue, NamesTheChoicesAndTheNearest) {
  const Field field = make(FieldType::kText, {.choices = {"adamw", "sgd"}});
  EXPECT_THAT(value_error(field, "AdamW"), HasSubstr("not one of adamw, sgd; did you mean adamw?"));
  EXPECT_THAT(value_error(field, "[sgd]"), HasSubstr("is a list; expected text"));
  EXPECT_THAT(value_error(field, "~"), HasSubstr("has no value"));
}

TEST(FormatText, QuotesWhatYamlWouldReadOtherwise) {
  EXPECT_EQ(format_text("weather.h5"), "weather.h5");
  const std::vector<std::string> texts = {
      "-x.h5",  "a, b", "a: b",  "a #b",  "{x}",         "[y]", "~",  "null", "'q'", "\"d\"",
      "Zürich", "a\nb", " lead", "$HOME", "back\\slash", "*",   "&a", "!t",   "%p",  "tab\there"};
  for (const std::string& text : texts) {
    EXPECT_EQ(YAML::Load("key: " + format_text(text))["key"].as<std::string>(), text) << text;
    EXPECT_EQ(YAML::Load("[" + format_text(text) + "]")[0].as<std::string>(), text) << text;
  }
}

}  // namespace
}  // namespace longship::runtime
