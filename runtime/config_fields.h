#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/dataset.h"
#include "models/registry.h"
#include "runtime/config.h"

namespace longship::runtime {

using FieldValue = std::variant<int64_t, double, bool, std::string, std::vector<std::string>,
                                std::vector<double>, data::SplitSpec>;

// In the order of FieldValue's alternatives.
enum class FieldType { kInteger, kNumber, kFlag, kText, kTextList, kNumberList, kSplit };

// Whether a key may differ from the stored one when a run is resumed.
enum class Change { kFree, kFixed };

// What a key's value must satisfy, what it means and how it is explained.
struct FieldRule {
  std::optional<std::string> fallback = std::nullopt;  // default as YAML text; none: required
  std::optional<double> minimum = std::nullopt;        // of numbers, and of a list's elements
  std::optional<double> maximum = std::nullopt;
  bool open = false;                      // the bounds themselves are not allowed
  bool automatic = false;                 // `auto` is allowed; stored as 0 or ""
  std::vector<std::string> choices = {};  // of texts; empty: any
  std::string unit = {};
  std::string meaning = {};  // one line
  Change change = Change::kFree;
  // The key has an effect only while the key `only_with` has one of the values `only_values`.
  std::string only_with = {};
  std::vector<std::string> only_values = {};
  std::vector<std::string> synonyms = {};  // names in other programs, for hints
};

// One key of a run file: the single source of validation, help, docs/config.md and the dump.
struct Field {
  std::string key;  // "train.batch_size"
  FieldType type = FieldType::kText;
  FieldRule rule;
  std::function<void(Config&, const FieldValue&)> set;  // the alternative of `type`
  std::function<FieldValue(const Config&)> get;

  std::string section() const { return key.substr(0, key.find('.')); }
  std::string name() const { return key.substr(key.find('.') + 1); }
};

// All keys but the options of models, section by section in the order of the dump.
const std::vector<Field>& config_fields();

// The options of one model as fields "model.OPTION".
std::vector<Field> model_fields(const models::ModelSpec& model);

// config_fields() with the fields of the model behind model.name. An unknown name adds none.
std::vector<Field> fields_with_model(const std::string& model_name);

// For messages and documents: "integer", "list of text".
std::string type_text(const Field& field);
// "1 or more", "more than 0, less than 1", "auto; 1 or more", "one of mse, mae"; "" for any. Upper
// bounds that only guard against overflow are not named.
std::string allowed_text(const Field& field);

}  // namespace longship::runtime
