#include "runtime/config_values.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <variant>

#include "runtime/config_nearest.h"
#include "runtime/config_numbers.h"
#include "runtime/config_split.h"

namespace longship::runtime {
namespace {

// yaml-cpp marks quoted scalars with this tag.
bool is_quoted(const YAML::Node& node) {
  return node.Tag() == "!";
}

const std::string& scalar(const YAML::Node& node, const std::string& expected) {
  if (node.IsNull()) throw ValueError("has no value; expected " + expected);
  if (node.IsSequence()) throw ValueError("is a list; expected " + expected);
  if (!node.IsScalar()) throw ValueError("is a group of keys; expected " + expected);
  return node.Scalar();
}

const std::string& unquoted(const YAML::Node& node, const std::string& expected) {
  const std::string& text = scalar(node, expected);
  if (is_quoted(node)) {
    throw ValueError("'" + text + "' is quoted, which makes it text; expected " + expected +
                     ": remove the quotes");
  }
  return text;
}

template <typename Number>
Number in_bounds(const FieldRule& rule, Number value, const std::string& text) {
  const auto number = static_cast<double>(value);
  const auto limit = [&](const char* words, double bound) {
    return ValueError(text + " is out of range: must be " + words + " " + format_number(bound));
  };
  if (rule.minimum && (rule.open ? number <= *rule.minimum : number < *rule.minimum)) {
    throw limit(rule.open ? "more than" : "at least", *rule.minimum);
  }
  if (rule.maximum && (rule.open ? number >= *rule.maximum : number > *rule.maximum)) {
    throw limit(rule.open ? "less than" : "at most", *rule.maximum);
  }
  return value;
}

bool read_flag(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "true" || lower == "yes") return true;
  if (lower == "false" || lower == "no") return false;
  throw ValueError("'" + text + "' is neither true nor false");
}

std::string read_text(const FieldRule& rule, const std::string& text) {
  if (text.find('\0') != std::string::npos) throw ValueError("holds a zero byte");
  if (rule.choices.empty()) {
    if (text.empty()) throw ValueError("is empty");
    return text;
  }
  if (std::find(rule.choices.begin(), rule.choices.end(), text) != rule.choices.end()) return text;
  std::string all;
  for (const std::string& choice : rule.choices) all += (all.empty() ? "" : ", ") + choice;
  const std::string near = nearest_word(text, rule.choices);
  throw ValueError("'" + text + "' is not one of " + all +
                   (near.empty() ? "" : "; did you mean " + near + "?"));
}

std::vector<std::string> read_texts(const Field& field, const YAML::Node& node) {
  const std::string expected = type_text(field);
  // A single text stands for a list of one; commas in it are part of it.
  if (node.IsScalar()) return {read_text(field.rule, node.Scalar())};
  if (!node.IsSequence()) scalar(node, expected);
  std::vector<std::string> texts;
  for (const YAML::Node& element : node) {
    texts.push_back(read_text(field.rule, scalar(element, "a text as each element")));
  }
  return texts;
}

std::vector<double> read_numbers(const Field& field, const YAML::Node& node) {
  if (!node.IsSequence()) {
    scalar(node, type_text(field));
    throw ValueError("'" + node.Scalar() + "' is not a list; expected " + type_text(field));
  }
  std::vector<double> numbers;
  for (const YAML::Node& element : node) {
    const std::string& text = unquoted(element, "a number as each element");
    numbers.push_back(in_bounds(field.rule, parse_number(text), text));
  }
  return numbers;
}

}  // namespace

FieldValue read_value(const Field& field, const YAML::Node& node) {
  const FieldRule& rule = field.rule;
  std::string expected = type_text(field);
  if (expected == "integer") expected = "an integer";
  if (expected == "number") expected = "a number";
  const bool automatic = rule.automatic && node.IsScalar() && node.Scalar() == "auto";
  switch (field.type) {
    case FieldType::kInteger: {
      if (automatic) return int64_t{0};
      const std::string& text = unquoted(node, expected);
      return in_bounds(rule, parse_integer(text), text);
    }
    case FieldType::kNumber: {
      if (automatic) return 0.0;
      const std::string& text = unquoted(node, expected);
      return in_bounds(rule, parse_number(text), text);
    }
    case FieldType::kFlag:
      return read_flag(unquoted(node, expected));
    case FieldType::kText:
      if (automatic) return std::string();
      return read_text(rule, scalar(node, expected));
    case FieldType::kTextList:
      return read_texts(field, node);
    case FieldType::kNumberList:
      return read_numbers(field, node);
    case FieldType::kSplit:
      return parse_split(node);
  }
  throw ValueError("has a type that is not known");
}

FieldValue default_value(const Field& field) {
  const std::string& text = field.rule.fallback.value();
  // A text's default is taken literally: model options may be any text, also one that YAML would
  // read as something else.
  if (field.type == FieldType::kText && !(field.rule.automatic && text == "auto")) return text;
  return read_value(field, YAML::Load(text));
}

std::string format_text(const std::string& text) {
  YAML::Emitter emitter;
  // Within a flow sequence, so that commas, brackets and braces are quoted as well.
  emitter << YAML::Flow << YAML::BeginSeq << text << YAML::EndSeq;
  const std::string list = emitter.c_str();
  return list.substr(1, list.size() - 2);
}

std::string format_value(const Field& field, const FieldValue& value) {
  const bool automatic = field.rule.automatic;
  switch (field.type) {
    case FieldType::kInteger: {
      const int64_t number = std::get<int64_t>(value);
      return automatic && number == 0 ? "auto" : std::to_string(number);
    }
    case FieldType::kNumber: {
      const double number = std::get<double>(value);
      return automatic && number == 0 ? "auto" : format_number(number);
    }
    case FieldType::kFlag:
      return std::get<bool>(value) ? "true" : "false";
    case FieldType::kText: {
      const auto& text = std::get<std::string>(value);
      return automatic && text.empty() ? "auto" : format_text(text);
    }
    case FieldType::kTextList: {
      std::string list;
      for (const std::string& text : std::get<std::vector<std::string>>(value)) {
        list += (list.empty() ? "" : ", ") + format_text(text);
      }
      return "[" + list + "]";
    }
    case FieldType::kNumberList: {
      std::string list;
      for (double number : std::get<std::vector<double>>(value)) {
        list += (list.empty() ? "" : ", ") + format_number(number);
      }
      return "[" + list + "]";
    }
    case FieldType::kSplit:
      return format_split(std::get<data::SplitSpec>(value));
  }
  return "";
}

}  // namespace longship::runtime
