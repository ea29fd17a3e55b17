#include "runtime/config_nearest.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

namespace longship::runtime {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// How many edits still count as a misspelling.
size_t tolerance(std::string_view word) {
  return std::max<size_t>(1, word.size() / 3);
}

constexpr double kFar = std::numeric_limits<double>::infinity();

double distance_to_field(const std::string& section, const std::string& name, const Field& field) {
  size_t best = std::numeric_limits<size_t>::max();
  const auto consider = [&](const std::string& candidate) {
    const size_t distance = edit_distance(name, candidate);
    if (distance <= tolerance(name)) best = std::min(best, distance);
  };
  consider(field.name());
  for (const std::string& synonym : field.rule.synonyms) consider(synonym);
  if (best == std::numeric_limits<size_t>::max()) return kFar;
  // The section decides between equally near names only.
  const size_t sections = section.empty() ? 0 : edit_distance(section, field.section());
  return static_cast<double>(best) + 0.01 * static_cast<double>(std::min<size_t>(sections, 20));
}

std::string joined(const std::vector<std::string>& words, const std::string& last_separator) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? last_separator : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace

size_t edit_distance(std::string_view first, std::string_view second) {
  const std::string a = lower(first);
  const std::string b = lower(second);
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& words) {
  std::string best;
  size_t best_distance = tolerance(word) + 1;
  for (const std::string& candidate : words) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::vector<std::string> nearest_keys(const std::string& key, const std::vector<Field>& fields) {
  const size_t dot = key.find('.');
  const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
  const std::string name = key.substr(key.rfind('.') + 1);
  double best = kFar;
  std::vector<std::string> keys;
  for (const Field& field : fields) {
    const double distance = distance_to_field(section, name, field);
    if (distance == kFar || distance > best) continue;
    if (distance < best) keys.clear();
    best = distance;
    if (keys.size() < 4) keys.push_back(field.key);
  }
  return keys;
}

std::string key_hint(const std::string& key, const std::vector<Field>& fields) {
  const std::vector<std::string> sections = section_names();
  const std::string name = key.substr(key.rfind('.') + 1);
  if (key != name && std::find(sections.begin(), sections.end(), name) != sections.end()) {
    return "'" + name + ":' is a section of its own at the top level";
  }
  const std::vector<std::string> near = nearest_keys(key, fields);
  if (!near.empty()) return "did you mean " + joined(near, " or ") + "?";
  const std::string section = key.substr(0, key.find('.'));
  std::vector<std::string> names;
  for (const Field& field : fields) {
    if (field.section() == section && key != name) names.push_back(field.name());
  }
  if (!names.empty()) return "'" + section + ":' has " + joined(names, " and ");
  const std::string near_section = nearest_word(section, sections);
  if (!near_section.empty()) return "did you mean the section '" + near_section + ":'?";
  return "the sections are " + joined(sections, " and ");
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Field& field : config_fields()) {
    if (names.empty() || names.back() != field.section()) names.push_back(field.section());
  }
  return names;
}

}  // namespace longship::runtime
