#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "models/forecaster.h"

namespace longship::models {

using OptionValue = std::variant<int64_t, double, bool, std::string>;

// One key below `model:` in a run file. The alternative of `fallback` fixes the type.
struct OptionSpec {
  std::string name;
  OptionValue fallback;              // the default
  double minimum = 0;                // numbers: inclusive bounds
  double maximum = 0;                // no upper bound where maximum < minimum
  std::vector<std::string> choices;  // strings: the legal values; empty: any
  std::string unit;                  // "" when it has none
  std::string meaning;               // one line
  bool free = false;                 // may change on resume: the model stays the same
};

// The values of a model's options, complete and in bounds.
class Options {
 public:
  Options() = default;
  explicit Options(std::map<std::string, OptionValue> values) : values_(std::move(values)) {}

  // Throws std::logic_error for a name or type that the model did not declare.
  int64_t integer(const std::string& name) const { return get<int64_t>(name); }
  double number(const std::string& name) const { return get<double>(name); }
  bool flag(const std::string& name) const { return get<bool>(name); }
  const std::string& text(const std::string& name) const { return get<std::string>(name); }
  const std::map<std::string, OptionValue>& values() const { return values_; }

 private:
  template <typename T>
  const T& get(const std::string& name) const {
    auto found = values_.find(name);
    if (found == values_.end() || !std::holds_alternative<T>(found->second)) {
      throw std::logic_error("model option '" + name + "' is not declared with this type");
    }
    return std::get<T>(found->second);
  }
  std::map<std::string, OptionValue> values_;
};

struct ModelSpec {
  std::string name;
  std::string summary;  // one line for --help
  std::vector<OptionSpec> options;
  std::function<std::shared_ptr<Forecaster>(const Options&, const ModelShape&)> make;
};

// All registered models, by name.
const std::map<std::string, ModelSpec>& registered_models();

// Registers a model at program start:
//   const Registration registration(ModelSpec{...});
// at namespace scope of the model's source file. Throws std::logic_error for a name taken twice.
class Registration {
 public:
  explicit Registration(ModelSpec spec);
};

}  // namespace longship::models
