#include "runtime/config_fields.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/config_field_table.h"
#include "runtime/config_numbers.h"

namespace longship::runtime {
namespace {

using namespace field_table;

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, model] : models::registered_models()) names.push_back(name);
  return names;
}

void append(std::vector<Field>& all, std::vector<Field> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

std::vector<Field> make_fields() {
  std::vector<Field> all = run_fields();
  append(all, data_fields());
  all.push_back(field("model.name", [](auto& c) -> auto& { return c.model.name; },
                      {.choices = model_names(),
                       .meaning = "The model; its options stand beside the name.",
                       .change = Change::kFixed}));
  append(all, train_fields());
  append(all, optimizer_fields());
  append(all, schedule_fields());
  append(all, precision_fields());
  append(all, eval_fields());
  append(all, comm_fields());
  append(all, checkpoint_fields());
  append(all, log_fields());
  return all;
}

std::string option_text(const models::OptionValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value)) return format_number(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::get<std::string>(value);
}

FieldValue as_field_value(const models::OptionValue& value) {
  return std::visit([](const auto& held) { return FieldValue(held); }, value);
}

models::OptionValue as_option_value(const FieldValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  return std::get<std::string>(value);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

const std::vector<Field>& config_fields() {
  static const std::vector<Field> fields = make_fields();
  return fields;
}

std::vector<Field> model_fields(const models::ModelSpec& model) {
  std::vector<Field> fields;
  for (const models::OptionSpec& option : model.options) {
    Field entry;
    entry.key = "model." + option.name;
    entry.type = static_cast<FieldType>(as_field_value(option.fallback).index());
    entry.rule.fallback = option_text(option.fallback);
    if (entry.type == FieldType::kInteger || entry.type == FieldType::kNumber) {
      entry.rule.minimum = option.minimum;
      if (option.maximum >= option.minimum) entry.rule.maximum = option.maximum;
    }
    entry.rule.choices = option.choices;
    entry.rule.unit = option.unit;
    entry.rule.meaning = option.meaning;
    entry.rule.change = option.free ? Change::kFree : Change::kFixed;
    entry.set = [name = option.name](Config& config, const FieldValue& value) {
      auto values = config.model.options.values();
      values[name] = as_option_value(value);
      config.model.options = models::Options(std::move(values));
    };
    entry.get = [name = option.name, fallback = option.fallback](const Config& config) {
      const auto& values = config.model.options.values();
      auto found = values.find(name);
      return as_field_value(found == values.end() ? fallback : found->second);
    };
    fields.push_back(std::move(entry));
  }
  return fields;
}

std::vector<Field> fields_with_model(const std::string& model_name) {
  std::vector<Field> all;
  const auto& models = models::registered_models();
  auto model = models.find(model_name);
  for (const Field& entry : config_fields()) {
    all.push_back(entry);
    if (entry.key == "model.name" && model != models.end()) {
      append(all, model_fields(model->second));
    }
  }
  return all;
}

std::string type_text(const Field& field) {
  if (field.key == "data.path") return "text or list";
  switch (field.type) {
    case FieldType::kInteger:
      return "integer";
    case FieldType::kNumber:
      return "number";
    case FieldType::kFlag:
      return "true or false";
    case FieldType::kText:
      return "text";
    case FieldType::kTextList:
      return "list of text";
    case FieldType::kNumberList:
      return "list of numbers";
    case FieldType::kSplit:
      return "split";
  }
  return "";
}

std::string allowed_text(const Field& field) {
  const FieldRule& rule = field.rule;
  if (!rule.choices.empty()) return "one of " + joined(rule.choices);
  std::string range;
  if (rule.minimum && rule.maximum && *rule.maximum < 1e6) {
    const std::string low = format_number(*rule.minimum);
    const std::string high = format_number(*rule.maximum);
    range = rule.open ? "more than " + low + ", less than " + high : low + " to " + high;
  } else if (rule.minimum) {
    const std::string low = format_number(*rule.minimum);
    range = rule.open ? "more than " + low : low + " or more";
    if (rule.maximum && *rule.maximum < kMany) {
      range += ", at most " + format_number(*rule.maximum);
    }
  }
  return rule.automatic && !range.empty() ? "auto; " + range : range;
}

}  // namespace longship::runtime
