#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config_fields.h"

namespace longship::runtime {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other
// (optimal string alignment), upper and lower case alike.
size_t edit_distance(std::string_view a, std::string_view b);

// The word nearest to `word`, "" when none is within a third of its length.
std::string nearest_word(const std::string& word, const std::vector<std::string>& words);

// The keys that the writer of an unknown key most likely meant, best first, at most four: a
// misspelt name in its section, the right name in another section, a name of other programs. Empty
// when nothing is near. `key` is "section.name", or "name" at the top level.
std::vector<std::string> nearest_keys(const std::string& key, const std::vector<Field>& fields);

// A clause for the error about an unknown key: "did you mean optimizer.lr?", or the keys of the
// section.
std::string key_hint(const std::string& key, const std::vector<Field>& fields);

// The sections in table order.
std::vector<std::string> section_names();

}  // namespace longship::runtime
