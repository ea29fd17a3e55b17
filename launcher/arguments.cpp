#include "launcher/arguments.h"

#include "runtime/error.h"

namespace longship::launcher {

cxxopts::ParseResult parse_arguments(cxxopts::Options& options,
                                     const std::vector<std::string>& arguments) {
  const std::string program = options.program();
  std::vector<const char*> words = {program.c_str()};
  for (const std::string& argument : arguments) {
    words.push_back(argument.c_str());
  }
  const std::string advice = "; see " + program + " --help";
  try {
    cxxopts::ParseResult parsed = options.parse(static_cast<int>(words.size()), words.data());
    if (!parsed.unmatched().empty()) {
      throw runtime::UsageError("'" + parsed.unmatched().front() + "' belongs to nothing" + advice);
    }
    return parsed;
  } catch (const cxxopts::exceptions::exception& error) {
    throw runtime::UsageError(error.what() + advice);
  }
}

std::string text_option(const cxxopts::ParseResult& parsed, const std::string& name,
                        const std::string& fallback) {
  if (parsed.count(name) > 1) {
    throw runtime::UsageError("--" + name + " was given twice");
  }
  return parsed.count(name) == 1 ? parsed[name].as<std::string>() : fallback;
}

}  // namespace longship::launcher
