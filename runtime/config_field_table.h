#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/config_fields.h"

// How the table of keys is written, and its parts. For runtime/config_fields*.cpp alone.
namespace longship::runtime::field_table {

// Upper bounds that guard against overflow.
inline constexpr double kMany = 2147483647;  // of things that are counted or are a tensor's extent
inline constexpr double kManySteps = 9007199254740992;
inline constexpr double kLargeNumber = 1e30;

template <typename T>
FieldType type_of() {
  return static_cast<FieldType>(FieldValue(T{}).index());
}

// `access` returns a reference to the setting within a Config, const or not.
template <typename Access>
// NOLINTNEXTLINE(performance-unnecessary-value-param): both are moved from
Field field(std::string key, Access access, FieldRule rule) {
  using Value = std::remove_reference_t<decltype(access(std::declval<Config&>()))>;
  return Field{
      .key = std::move(key),
      .type = type_of<Value>(),
      .rule = std::move(rule),
      .set = [access](Config& c, const FieldValue& v) { access(c) = std::get<Value>(v); },
      .get = [access](const Config& c) { return FieldValue(access(c)); },
  };
}

// The accessor of one setting for field().
// NOLINTBEGIN(bugprone-macro-parentheses): a member's name takes none
#define LONGSHIP_SETTING(path) \
  [](auto& c) -> auto& {       \
    return c.path;             \
  }
// NOLINTEND(bugprone-macro-parentheses)

std::vector<Field> run_fields();
std::vector<Field> data_fields();
std::vector<Field> train_fields();
std::vector<Field> optimizer_fields();
std::vector<Field> schedule_fields();
std::vector<Field> precision_fields();
std::vector<Field> eval_fields();
std::vector<Field> comm_fields();
std::vector<Field> checkpoint_fields();
std::vector<Field> log_fields();

}  // namespace longship::runtime::field_table
