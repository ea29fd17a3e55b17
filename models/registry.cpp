#include "models/registry.h"

#include <utility>

namespace longship::models {
namespace {

// Filled before main() by the Registration objects, then only read. A function's static, because
// the order in which source files are initialised is not fixed.
std::map<std::string, ModelSpec>& registry() {
  static std::map<std::string, ModelSpec> specs;
  return specs;
}

}  // namespace

const std::map<std::string, ModelSpec>& registered_models() {
  return registry();
}

Registration::Registration(ModelSpec spec) {
  const std::string name = spec.name;
  if (!registry().emplace(name, std::move(spec)).second) {
    throw std::logic_error("two models are registered under the name '" + name + "'");
  }
}

}  // namespace longship::models
