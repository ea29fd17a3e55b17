#pragma once

#include <string>

#include "runtime/config_fields.h"

namespace YAML {
class Node;
}

namespace longship::runtime {

// Reads a YAML node as a value of the field's type within its bounds and choices. Throws
// ValueError.
FieldValue read_value(const Field& field, const YAML::Node& node);

// The default of a field that is not required.
FieldValue default_value(const Field& field);

// The value as YAML on one line; read_value gives it back. `auto` where the field allows it and the
// value is 0 or "".
std::string format_value(const Field& field, const FieldValue& value);

// A text as a YAML scalar, quoted where it must be.
std::string format_text(const std::string& text);

}  // namespace longship::runtime
