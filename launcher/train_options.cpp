#include "launcher/train_options.h"

#include <cxxopts.hpp>
#include <filesystem>
#include <iostream>

#include "launcher/arguments.h"
#include "runtime/config_help.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using Words = std::vector<std::string>;

cxxopts::Options option_table() {
  cxxopts::Options table("longship train", "Trains a model, or goes on with a run.");
  table.custom_help(
      "CONFIG [--set key=value]... [--resume auto|none|PATH] [--dry-run [--ranks N]]");
  table.positional_help("");
  table.add_options()  //
      ("set", "sets a key of the run file (may be repeated)", cxxopts::value<Words>(),
       "KEY=VALUE")  //
      ("resume",
       "auto: go on with the run if it exists; none: refuse to; PATH: from that run or checkpoint",
       cxxopts::value<std::string>(), "auto|none|PATH")                               //
      ("dry-run", "validate everything, print the plan, and start nothing")           //
      ("ranks", "with --dry-run: the ranks to plan for", cxxopts::value<int>(), "N")  //
      ("h,help", "print this help and all keys of a run file")                        //
      ("config", "the run file", cxxopts::value<Words>());
  table.parse_positional({"config"});
  return table;
}

}  // namespace

std::optional<TrainOptions> parse_train_options(const std::vector<std::string>& arguments) {
  using runtime::UsageError;
  cxxopts::Options table = option_table();
  const cxxopts::ParseResult parsed = parse_arguments(table, arguments);
  if (parsed.count("help") > 0) {
    std::cout << table.help({""}) << "\nKeys of a run file (YAML):\n\n" << runtime::fields_help();
    return std::nullopt;
  }
  if (parsed.count("config") != 1) {
    throw UsageError("train takes one run file; see longship train --help");
  }
  TrainOptions options;
  options.config_path = parsed["config"].as<Words>().front();
  if (parsed.count("set") > 0) options.overrides = parsed["set"].as<Words>();
  options.resume = text_option(parsed, "resume", "auto");
  if (options.resume != "auto" && options.resume != "none" &&
      !std::filesystem::exists(options.resume)) {
    throw UsageError("--resume takes auto, none or an existing path, not '" + options.resume + "'");
  }
  options.dry_run = parsed.count("dry-run") > 0;
  if (parsed.count("ranks") > 0) {
    options.ranks = parsed["ranks"].as<int>();
    if (options.ranks < 1) throw UsageError("--ranks must be at least 1");
    if (!options.dry_run) {
      throw UsageError(
          "--ranks goes with --dry-run; to start ranks: longship launch -n N -- train CONFIG");
    }
  }
  return options;
}

}  // namespace longship::launcher
