#include "runtime/config_check.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "runtime/config_fields.h"
#include "runtime/config_numbers.h"
#include "runtime/config_values.h"
#include "runtime/error.h"

namespace longship::runtime {
namespace {

// Collects nothing: throws at the first breach, as every other error of a run file does.
class Checker {
 public:
  Checker(const Config& config, const std::function<std::string(const std::string&)>& origin)
      : config_(config), origin_(origin) {}

  void run() const {
    name();
    columns("data.inputs", config_.data.inputs);
    columns("data.targets", config_.data.targets);
    if (config_.data.path.empty()) refuse("data.path", "names no file");
    length();
    batch();
    keys_without_effect();
    quantiles();
    schedule();
    loss_scale();
    if (config_.eval.patience > 0 && config_.eval.every_epochs == 0 &&
        config_.eval.every_steps == 0) {
      refuse("eval.patience", "needs evaluations: give eval.every_epochs or eval.every_steps");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& reason) const {
    throw ConfigError(origin_(key) + ": " + key + ": " + reason);
  }

  void name() const {
    const std::string& name = config_.run.name;
    if (name == "." || name == ".." || name.find('/') != std::string::npos) {
      refuse("run.name", "'" + name +
                             "' is not the name of a folder; give the folder above it as "
                             "run.directory");
    }
    const auto is_control = [](unsigned char c) { return std::iscntrl(c) != 0; };
    if (std::any_of(name.begin(), name.end(), is_control)) {
      refuse("run.name", "holds a control character");
    }
    constexpr size_t kLongest = 200;  // of the 255 bytes of a file name, with room for suffixes
    if (name.size() > kLongest) {
      refuse("run.name", "is longer than " + std::to_string(kLongest) + " bytes");
    }
  }

  void columns(const std::string& key, const std::vector<std::string>& names) const {
    if (names.empty()) refuse(key, "names no column; give at least one");
    std::set<std::string> seen;
    for (const std::string& column : names) {
      if (!seen.insert(column).second) refuse(key, "names the column '" + column + "' twice");
    }
  }

  void length() const {
    if (config_.train.epochs == 0 && config_.train.steps == 0) {
      refuse("train.epochs", "is 0 and so is train.steps: there is nothing to train");
    }
  }

  void batch() const {
    const int64_t batch = config_.train.batch_size;
    const int64_t micro = config_.train.micro_batch_size;
    if (micro == 0 || batch % micro == 0) return;
    if (micro > batch) {
      refuse("train.micro_batch_size",
             std::to_string(micro) + " is larger than train.batch_size, " + std::to_string(batch));
    }
    int64_t below = micro;
    int64_t above = micro;
    while (batch % below != 0) --below;
    while (batch % above != 0) ++above;
    refuse("train.micro_batch_size", std::to_string(micro) + " does not divide train.batch_size, " +
                                         std::to_string(batch) + "; the nearest that do are " +
                                         std::to_string(below) + " and " + std::to_string(above));
  }

  // A key whose value is never read is a mistake that the user wants to hear of.
  void keys_without_effect() const {
    const std::vector<Field> fields = fields_with_model(config_.model.name);
    for (const Field& field : fields) {
      const FieldRule& rule = field.rule;
      if (rule.only_with.empty()) continue;
      const auto switching = std::find_if(fields.begin(), fields.end(), [&](const Field& other) {
        return other.key == rule.only_with;
      });
      const auto chosen = std::get<std::string>(switching->get(config_));
      const auto& values = rule.only_values;
      if (std::find(values.begin(), values.end(), chosen) != values.end()) continue;
      Config defaults = config_;
      field.set(defaults, default_value(field));
      if (field.get(config_) == field.get(defaults)) continue;
      std::string allowed;
      for (const std::string& value : values) allowed += (allowed.empty() ? "" : " or ") + value;
      refuse(field.key, "has no effect while " + rule.only_with + " is " + chosen + " (only with " +
                            allowed + "): remove it");
    }
  }

  void quantiles() const {
    if (config_.train.loss != "quantile") return;
    const std::vector<double>& levels = config_.train.quantiles;
    if (levels.empty()) {
      refuse("train.quantiles",
             "is missing for train.loss quantile; give for example "
             "[0.1, 0.5, 0.9]");
    }
    for (size_t i = 1; i < levels.size(); ++i) {
      if (levels[i] <= levels[i - 1]) {
        refuse("train.quantiles", format_number(levels[i]) + " does not exceed " +
                                      format_number(levels[i - 1]) +
                                      " before it: give them in ascending order");
      }
    }
  }

  // Other factors would round what they multiply.
  void loss_scale() const {
    const double scale = config_.precision.init_scale;
    int exponent = 0;
    if (std::frexp(scale, &exponent) == 0.5) return;
    refuse("precision.init_scale", format_number(scale) + " is no power of two; the nearest are " +
                                       format_number(std::ldexp(1, exponent - 1)) + " and " +
                                       format_number(std::ldexp(1, exponent)));
  }

  void schedule() const {
    const Config::Schedule& schedule = config_.schedule;
    if (schedule.name == "step" && schedule.step_size == 0) {
      refuse("schedule.step_size", "is missing for schedule.name step; must be at least 1");
    }
    if (schedule.min_lr > config_.optimizer.lr) {
      refuse("schedule.min_lr", format_number(schedule.min_lr) + " is above optimizer.lr, " +
                                    format_number(config_.optimizer.lr));
    }
    if (config_.train.steps > 0 && schedule.warmup_steps > config_.train.steps) {
      refuse("schedule.warmup_steps", std::to_string(schedule.warmup_steps) +
                                          " is more than all of train.steps, " +
                                          std::to_string(config_.train.steps));
    }
  }

  const Config& config_;
  const std::function<std::string(const std::string&)>& origin_;
};

}  // namespace

void check_config(const Config& config,
                  const std::function<std::string(const std::string& key)>& origin) {
  Checker(config, origin).run();
}

}  // namespace longship::runtime
