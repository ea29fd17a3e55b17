#include "runtime/config_load.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "models/registry.h"
#include "runtime/config_check.h"
#include "runtime/config_fields.h"
#include "runtime/config_nearest.h"
#include "runtime/config_numbers.h"
#include "runtime/config_values.h"
#include "runtime/error.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;

// A key as it was given, with its place for messages.
struct Entry {
  std::string key;
  YAML::Node value;
  std::string origin;  // "run.yaml:7" or "--set optimizer.lr=0"
  bool overridden = false;
};

using Entries = std::vector<Entry>;

std::string place(const std::string& file, const YAML::Mark& mark) {
  return file + ":" + std::to_string(mark.line + 1);
}

Entry* find(Entries& entries, const std::string& key) {
  auto found = std::find_if(entries.begin(), entries.end(),
                            [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

const std::string& key_name(const YAML::Node& key, const std::string& file) {
  if (key.IsScalar()) return key.Scalar();
  throw ConfigError(place(file, key.Mark()) + ": a list or group stands where a key is expected");
}

// yaml-cpp keeps both of two equal keys and looks up the first; a run must not depend on that.
void refuse_repeated(std::map<std::string, int>& lines, const std::string& key,
                     const YAML::Node& node, const std::string& file) {
  const auto [first, inserted] = lines.emplace(key, node.Mark().line + 1);
  if (inserted) return;
  throw ConfigError(place(file, node.Mark()) + ": " + key + " is given twice, first in line " +
                    std::to_string(first->second));
}

[[noreturn]] void refuse_top_level(const std::string& name, const YAML::Node& value,
                                   const std::string& where) {
  const std::vector<std::string> sections = section_names();
  const std::string near = nearest_word(name, sections);
  if (value.IsMap() && !near.empty()) {
    throw ConfigError(where + ": the section '" + name + "' is unknown; did you mean '" + near +
                      "'?");
  }
  const auto& fields = config_fields();
  const bool dotted = std::any_of(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.key == name; });
  if (dotted) {
    const size_t dot = name.find('.');
    throw ConfigError(where + ": the key '" + name +
                      "' is not written with a point in a run file; "
                      "write '" +
                      name.substr(dot + 1) + "' below '" + name.substr(0, dot) + ":'");
  }
  throw ConfigError(where + ": the key '" + name + "' is unknown; " + key_hint(name, fields));
}

Entries read_entries(const YAML::Node& root, const std::string& file) {
  Entries entries;
  if (root.IsNull()) return entries;
  if (!root.IsMap()) {
    throw ConfigError(place(file, root.Mark()) +
                      ": a run file holds sections such as 'data:' with keys below them");
  }
  const std::vector<std::string> sections = section_names();
  std::map<std::string, int> lines;
  for (const auto& section : root) {
    const std::string& name = key_name(section.first, file);
    const std::string where = place(file, section.first.Mark());
    if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
      refuse_top_level(name, section.second, where);
    }
    refuse_repeated(lines, name, section.first, file);
    if (section.second.IsNull()) continue;  // all of its keys are commented out
    if (!section.second.IsMap()) {
      throw ConfigError(where + ": '" + name +
                        ":' is a section; write its keys below it, such as '" + name +
                        ": {name: ...}'");
    }
    for (const auto& pair : section.second) {
      const std::string key = name + "." + key_name(pair.first, file);
      refuse_repeated(lines, key, pair.first, file);
      entries.push_back(
          {.key = key, .value = pair.second, .origin = place(file, pair.first.Mark())});
    }
  }
  return entries;
}

YAML::Node load_yaml(const std::string& text, const std::string& file) {
  if (text.find('\0') != std::string::npos) {
    throw ConfigError(file + " is not a run file: it holds zero bytes, so it is not text");
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      throw ConfigError(file + ": holds " + std::to_string(documents.size()) +
                        " YAML documents; a run file is one, without '---' between parts");
    }
    return documents.empty() ? YAML::Node() : documents.front();
  } catch (const YAML::Exception& error) {
    const std::string where = error.mark.is_null() ? file : place(file, error.mark);
    throw ConfigError(where + ": this is not valid YAML: " + error.msg);
  }
}

// What follows "key=". A shell user does not think of YAML's special characters, so that only
// lists, groups and quoted texts are parsed, and everything else is a plain scalar as it stands.
YAML::Node override_value(const std::string& text, const std::string& origin) {
  if (text.empty() || std::string_view("[{\"'").find(text.front()) == std::string_view::npos) {
    return text.empty() ? YAML::Node() : YAML::Node(text);
  }
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw ConfigError(origin + ": the value is not valid YAML: " + error.msg);
  }
}

void apply_overrides(Entries& entries, const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--set " + text + ": write --set section.key=value");
    }
    Entry entry;
    entry.key = text.substr(0, equals);
    entry.origin = "--set " + text;
    entry.value = override_value(text.substr(equals + 1), entry.origin);
    entry.overridden = true;
    if (Entry* given = find(entries, entry.key)) {
      *given = entry;
    } else {
      entries.push_back(entry);
    }
  }
}

FieldValue value_of(const Field& field, const Entry& entry) {
  try {
    return read_value(field, entry.value);
  } catch (const ValueError& error) {
    // What is allowed follows, unless the error said so.
    const std::string allowed = allowed_text(field);
    const std::string what = error.what();
    const bool told =
        allowed.empty() || !field.rule.choices.empty() || what.find(allowed) != std::string::npos;
    throw ConfigError(entry.origin + ": " + field.key + ": " + what +
                      (told ? "" : " (" + allowed + ")"));
  }
}

// `by_steps` replaces `by_other` (epochs). When both are given in the file, or both by --set, the
// user has to decide; a --set goes before the file.
void choose_one(Entries& entries, const std::string& other_key, double& by_other,
                const std::string& steps_key, int64_t& by_steps) {
  if (by_steps == 0 || by_other == 0) return;
  const Entry* other = find(entries, other_key);
  const Entry* steps = find(entries, steps_key);
  if (other == nullptr || (steps->overridden && !other->overridden)) {
    by_other = 0;
  } else if (other->overridden && !steps->overridden) {
    by_steps = 0;
  } else {
    throw ConfigError(steps->origin + ": " + steps_key + ": is given together with " + other_key +
                      "; give one of them");
  }
}

void settle_alternatives(Entries& entries, Config& config) {
  choose_one(entries, "train.epochs", config.train.epochs, "train.steps", config.train.steps);
  choose_one(entries, "eval.every_epochs", config.eval.every_epochs, "eval.every_steps",
             config.eval.every_steps);
  if (config.checkpoint.every_steps > 0 && find(entries, "checkpoint.every_minutes") == nullptr) {
    config.checkpoint.every_minutes = 0;
  }
}

// Paths on the command line are the shell's: relative to the current folder.
FieldValue from_current_folder(FieldValue value) {
  for (std::string& path : std::get<std::vector<std::string>>(value)) {
    if (path.rfind("~/", 0) != 0) path = fs::absolute(path).string();
  }
  return value;
}

const Field& field_of(const std::vector<Field>& fields, const std::string& key) {
  return *std::find_if(fields.begin(), fields.end(),
                       [&](const Field& field) { return field.key == key; });
}

std::string chosen_model(Entries& entries) {
  const Entry* entry = find(entries, "model.name");
  if (entry == nullptr) return "";
  return std::get<std::string>(value_of(field_of(config_fields(), "model.name"), *entry));
}

void refuse_unknown(const Entry& entry, const std::vector<Field>& fields,
                    const std::string& model_name) {
  const bool known = std::any_of(fields.begin(), fields.end(),
                                 [&](const Field& field) { return field.key == entry.key; });
  if (known) return;
  const bool option = entry.key.rfind("model.", 0) == 0 && !model_name.empty();
  throw ConfigError(
      entry.origin + ": " + entry.key + ": " +
      (option ? "the model " + model_name + " has no such option; " : "there is no such key; ") +
      key_hint(entry.key, fields));
}

std::string read_file(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw ConfigError("'" + path + "' is a folder, not a run file");
  }
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw ConfigError("'" + path + "' is a device or pipe, not a run file");
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw ConfigError("cannot read the run file '" + path + "': " + std::strerror(errno) +
                      "; 'longship init DIR' writes one to start from");
  }
  constexpr uintmax_t kLargest =
      4 << 20;  // far more than any run file; an HDF5 file given by mistake
  const uintmax_t size = fs::file_size(path, error);
  if (!error && size > kLargest) {
    throw ConfigError("'" + path + "' has " + std::to_string(size) +
                      " bytes: it is not a run file");
  }
  try {
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  } catch (const std::ios_base::failure&) {  // the way in which a file buffer tells of its errors
    throw ConfigError("cannot read the run file '" + path + "': " + std::strerror(errno));
  }
}

// As Unicode 15, table 3-7, has it.
bool is_utf8(const std::string& text) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  for (size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xC2 ? 0
                          : lead < 0xE0 ? 2
                          : lead < 0xF0 ? 3
                          : lead < 0xF5 ? 4
                                        : 0;
    if (length == 0) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0U) != 0x80U) return false;
    }
    const unsigned second = byte(i + 1);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool surrogate_or_beyond =
        (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
    if (overlong || surrogate_or_beyond) return false;
    i += length;
  }
  return true;
}

void refuse_other_encodings(const std::string& text, const std::string& where) {
  if (is_utf8(text)) return;
  throw ConfigError(where +
                    " holds bytes that are not UTF-8; save the file as UTF-8, and rename "
                    "files and folders whose names are not");
}

}  // namespace

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  const std::string text = read_file(path);
  const fs::path folder = fs::absolute(path).parent_path();
  return parse_config(text, path, folder.string(), overrides);
}

Config parse_config(const std::string& text, const std::string& file_name,
                    const std::string& base_directory, const std::vector<std::string>& overrides) {
  Entries entries = read_entries(load_yaml(text, file_name), file_name);
  // Everything ends up in JSON records and checkpoints, which hold nothing else.
  refuse_other_encodings(text, file_name);
  for (const std::string& one : overrides) refuse_other_encodings(one, "--set");
  apply_overrides(entries, overrides);

  const std::string model_name = chosen_model(entries);
  const std::vector<Field> fields = fields_with_model(model_name);
  for (const Entry& entry : entries) refuse_unknown(entry, fields, model_name);

  Config config;
  config.base_directory = base_directory;
  for (const Field& field : fields) {
    if (field.rule.fallback) field.set(config, default_value(field));
  }
  for (const Entry& entry : entries) {
    const Field& field = field_of(fields, entry.key);
    FieldValue value = value_of(field, entry);
    if (field.key == "data.path" && entry.overridden) value = from_current_folder(std::move(value));
    field.set(config, value);
  }
  for (const Field& field : fields) {
    if (field.rule.fallback || find(entries, field.key) != nullptr) continue;
    const std::string allowed = allowed_text(field);
    throw ConfigError(file_name + ": " + field.key + " is missing: " + field.rule.meaning + " (" +
                      type_text(field) + (allowed.empty() ? "" : ", " + allowed) + ")");
  }
  settle_alternatives(entries, config);
  check_config(config, [&](const std::string& key) {
    const Entry* entry = find(entries, key);
    return entry == nullptr ? file_name : entry->origin;
  });
  return config;
}

std::vector<std::string> resolve_paths(const Config& config) {
  std::vector<std::string> resolved;
  for (const std::string& path : config.data.path) {
    const char* home = std::getenv("HOME");
    if (path.rfind("~/", 0) == 0 && home != nullptr) {
      resolved.push_back(std::string(home) + path.substr(1));
    } else {
      // An absolute path replaces the folder.
      resolved.push_back((fs::path(config.base_directory) / path).string());
    }
  }
  return resolved;
}

}  // namespace longship::runtime
