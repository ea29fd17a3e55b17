#include "runtime/config_dump.h"

#include <filesystem>

#include "runtime/config_fields.h"
#include "runtime/config_load.h"
#include "runtime/config_values.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;

// Where a path leads, whatever way it is written.
std::vector<std::string> places(const Config& config) {
  std::vector<std::string> result;
  for (const std::string& path : resolve_paths(config)) {
    result.push_back(fs::weakly_canonical(path).string());
  }
  return result;
}

}  // namespace

std::string dump_config(const Config& config) {
  std::string text;
  std::string section;
  for (const Field& field : fields_with_model(config.model.name)) {
    if (field.section() != section) {
      section = field.section();
      text += section + ":\n";
    }
    text += "  " + field.name() + ": " + format_value(field, field.get(config)) + "\n";
  }
  return text;
}

Config move_config(const Config& config, const std::string& folder) {
  Config moved = config;
  const fs::path from = fs::weakly_canonical(fs::absolute(folder));
  const fs::path base = fs::weakly_canonical(fs::absolute(config.base_directory));
  // Only the way between the folders is rewritten; ".." in the user's own part may pass a link.
  const fs::path way = base.lexically_relative(from);
  for (std::string& path : moved.data.path) {
    if (fs::path(path).is_relative() && path.rfind("~/", 0) != 0) path = (way / path).string();
  }
  moved.base_directory = from.string();
  return moved;
}

std::vector<ConfigChange> compare_configs(const Config& stored, const Config& given) {
  std::vector<ConfigChange> changes;
  const bool same_model = stored.model.name == given.model.name;
  for (const Field& field : fields_with_model(given.model.name)) {
    const bool option = field.section() == "model" && field.name() != "name";
    if (option && !same_model) continue;
    if (field.key == "data.path" && places(stored) == places(given)) continue;
    const FieldValue old_value = field.get(stored);
    const FieldValue new_value = field.get(given);
    if (old_value == new_value) continue;
    changes.push_back({.key = field.key,
                       .old_value = format_value(field, old_value),
                       .new_value = format_value(field, new_value),
                       .allowed = field.rule.change == Change::kFree});
  }
  return changes;
}

}  // namespace longship::runtime
