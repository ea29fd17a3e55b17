#include "runtime/config_help.h"

#include <algorithm>
#include <vector>

#include "models/registry.h"
#include "runtime/config_fields.h"
#include "runtime/config_nearest.h"

namespace longship::runtime {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

// Bounds, unit and the key that switches this one on.
std::string details(const Field& field) {
  std::vector<std::string> parts;
  if (!field.rule.unit.empty()) parts.push_back(field.rule.unit);
  const std::string allowed = allowed_text(field);
  if (!allowed.empty()) parts.push_back(allowed);
  if (!field.rule.only_with.empty()) {
    parts.push_back("with " + field.rule.only_with + " " + joined(field.rule.only_values, " or "));
  }
  return joined(parts, "; ");
}

std::string default_text(const Field& field) {
  return field.rule.fallback.value_or("required");
}

void add_help(std::string& text, const std::vector<Field>& fields) {
  size_t keys = 0;
  size_t types = 0;
  size_t defaults = 0;
  for (const Field& field : fields) {
    keys = std::max(keys, field.key.size());
    types = std::max(types, type_text(field).size());
    defaults = std::max(defaults, default_text(field).size());
  }
  const auto padded = [](std::string word, size_t width) {
    word.resize(std::max(width, word.size()), ' ');
    return word + "  ";
  };
  for (const Field& field : fields) {
    const std::string more = details(field);
    text += "  " + padded(field.key, keys) + padded(type_text(field), types) +
            padded(default_text(field), defaults) + field.rule.meaning +
            (more.empty() ? "" : " (" + more + ")") + "\n";
  }
}

std::string cell(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

void add_table(std::string& text, const std::vector<Field>& fields) {
  text += "| Key | Type | Default | Allowed | Unit | Meaning | On resume |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Field& field : fields) {
    std::string meaning = field.rule.meaning;
    if (!field.rule.only_with.empty()) {
      meaning += " Only with `" + field.rule.only_with + "` " +
                 joined(field.rule.only_values, " or ") + ".";
    }
    const std::string fallback =
        field.rule.fallback ? "`" + *field.rule.fallback + "`" : "required";
    text += "| `" + field.key + "` | " + type_text(field) + " | " + cell(fallback) + " | " +
            cell(allowed_text(field)) + " | " + field.rule.unit + " | " + cell(meaning) + " | " +
            (field.rule.change == Change::kFree ? "free" : "fixed") + " |\n";
  }
}

std::vector<Field> section_fields(const std::string& section) {
  std::vector<Field> fields;
  for (const Field& field : config_fields()) {
    if (field.section() == section) fields.push_back(field);
  }
  return fields;
}

const char* const kIntroduction = R"(# Keys of a run file

This page is made from the program's own table of keys; `longship train --help` prints the same.

A run file is YAML: sections, and keys below them.

```yaml
run: {name: lstm-weather}
data:
  path: weather.h5
  inputs: [temp, dewp, humid]
  targets: [temp]
  window: 48
  horizon: 1
model: {name: lstm, hidden_size: 64}
train: {epochs: 20, batch_size: 256}
optimizer: {lr: 1e-3}
```

- A key that is not in these tables is an error that names the file, the line and the nearest valid
  key; so is a key that is given twice, and a key that has no effect beside the others.
- Numbers may be written `0.001`, `1e-3`, `1E-3`, `.5` or `+1e-3`; for a whole number `1e2` is 100.
  Infinity, not-a-number, hexadecimal numbers, leading zeros (`08`), underscores (`1_000`) and
  quoted numbers (`"0.1"`) are refused.
- `true`, `false`, `yes` and `no` are the values of switches.
- `--set section.key=value` on the command line goes before the file; given twice for one key, the
  last one counts. A value in brackets, braces or quotes is read as YAML, any other as it stands:
  `--set data.path=a,b.h5` is one path, `--set 'data.path=[a.h5, b.h5]'` are two.
- Data paths of a run file are relative to its folder; data paths of `--set` and `run.directory` are
  relative to the current folder. A leading `~/` is the home folder.
- `data.split` has three forms: shares `[0.7, 0.1, 0.2]`; row ranges of each series
  `[[0, 8640], [8640, 11520], [11520, 14400]]`, the end not included; or the dates at which the
  parts begin, `{validation: 2013-10-01, test: 2013-11-15}`, with a time of day where needed
  (`2013-10-01T06:00:00+01:00`), UTC where no zone is given.
- `train.steps` replaces `train.epochs` and `eval.every_steps` replaces `eval.every_epochs`; the
  replaced key becomes 0. `checkpoint.every_steps` given alone turns `checkpoint.every_minutes` off;
  given together, both apply.
- *On resume* says whether a key may differ from the one that the run was started with: *free*, or
  *fixed*. Of `data.path` the contents are compared instead.
)";

}  // namespace

std::string fields_help() {
  std::string text;
  for (const std::string& section : section_names()) {
    text += (text.empty() ? "" : "\n") + section + ":\n";
    add_help(text, section_fields(section));
    if (section != "model") continue;
    for (const auto& [name, model] : models::registered_models()) {
      text += "  with model.name " + name + " - " + model.summary + "\n";
      add_help(text, model_fields(model));
    }
  }
  return text;
}

std::string fields_markdown() {
  std::string text = kIntroduction;
  for (const std::string& section : section_names()) {
    text += "\n## `" + section + "`\n\n";
    add_table(text, section_fields(section));
    if (section != "model") continue;
    for (const auto& [name, model] : models::registered_models()) {
      text += "\n### `model.name: " + name + "`\n\n" + model.summary + "\n\n";
      add_table(text, model_fields(model));
    }
  }
  return text;
}

}  // namespace longship::runtime
