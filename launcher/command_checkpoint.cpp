#include <cxxopts.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/checkpoint_report.h"
#include "launcher/command.h"
#include "launcher/json_text.h"
#include "launcher/output_file.h"
#include "runtime/checkpoint_folder.h"
#include "runtime/checkpoint_reader.h"
#include "runtime/error.h"
#include "runtime/safetensors.h"

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kCheckpointMeaning =
    "CKPT is a checkpoint folder, a link to one (latest, best), or a run folder, which means its "
    "latest checkpoint.";

// One subcommand's words: exactly one path and its flags.
class Words {
 public:
  Words(const std::string& name, const std::string& meaning, const std::string& usage,
        const std::vector<std::string>& arguments, bool exports = false)
      : name_(name), options_("longship checkpoint " + name, meaning) {
    options_.custom_help(usage);
    options_.positional_help("");
    options_.add_options()("h,help", "print this help")("path", "",
                                                        cxxopts::value<std::vector<std::string>>());
    if (exports) {
      options_.add_options()("output", "the safetensors file to write",
                             cxxopts::value<std::string>(),
                             "FILE")("force", "replace the file if it exists");
    } else {
      options_.add_options()("json", "print one JSON object");
    }
    options_.parse_positional({"path"});
    parsed_ = parse_arguments(options_, arguments);
  }

  // Prints the help when it is asked for.
  bool helped() const {
    if (parsed_.count("help") == 0) return false;
    std::cout << options_.help({""});
    return true;
  }
  std::string path() const {
    if (parsed_.count("path") != 1) {
      throw runtime::UsageError("checkpoint " + name_ +
                                " takes one path; see longship checkpoint " + name_ + " --help");
    }
    return parsed_["path"].as<std::vector<std::string>>().front();
  }
  std::string text(const std::string& option) const { return text_option(parsed_, option, ""); }
  bool flag(const std::string& option) const { return parsed_.count(option) > 0; }

 private:
  std::string name_;
  cxxopts::Options options_;
  cxxopts::ParseResult parsed_;
};

// The checkpoint that the user's words mean; said on standard error when it is not what they name.
std::string find(const std::string& path) {
  std::string found = runtime::resolve_checkpoint(path, runtime::Prefer::kLatest);
  std::error_code error;
  if (fs::absolute(path, error).lexically_normal() != fs::path(found)) {
    std::cerr << "checkpoint " << found << "\n";
  }
  return found;
}

int list(const std::vector<std::string>& arguments) {
  const Words words("list", "Lists the checkpoints of a run.", "RUN [--json]", arguments);
  if (words.helped()) return 0;
  const std::string run = words.path();
  std::error_code error;
  const fs::path inner = fs::path(run) / "checkpoints";
  const std::string folder = fs::is_directory(inner, error) ? inner.string() : run;
  if (folder == run && fs::canonical(run, error).filename() != "checkpoints") {
    throw runtime::CheckpointError("expected a run folder, which holds a folder checkpoints; " +
                                   run + " is " + runtime::describe_path(run));
  }
  const json report = list_report(folder);
  std::cout << (words.flag("json") ? text_of(report) + "\n" : list_text(report));
  return 0;
}

int inspect(const std::vector<std::string>& arguments) {
  const Words words("inspect", std::string("Shows what a checkpoint holds.\n") + kCheckpointMeaning,
                    "CKPT [--json]", arguments);
  if (words.helped()) return 0;
  const json report = inspect_report(find(words.path()));
  std::cout << (words.flag("json") ? text_of(report) + "\n" : inspect_text(report));
  return 0;
}

int verify(const std::vector<std::string>& arguments) {
  const Words words("verify",
                    std::string("Compares all of a checkpoint's files with their hashes. Exit code "
                                "4 when something is wrong.\n") +
                        kCheckpointMeaning,
                    "CKPT [--json]", arguments);
  if (words.helped()) return 0;
  const std::string path = find(words.path());
  std::vector<std::string> problems = runtime::verify_checkpoint(path);
  const std::string pointer = runtime::problem_with_latest(words.path());
  if (!pointer.empty()) problems.push_back(pointer);
  if (words.flag("json")) {
    std::cout << text_of(
                     {{"checkpoint", path}, {"verified", problems.empty()}, {"problems", problems}})
              << "\n";
  } else if (problems.empty()) {
    std::cout << path << ": all files are as they were written\n";
  } else {
    for (const std::string& problem : problems) std::cout << problem << "\n";
  }
  return static_cast<int>(problems.empty() ? runtime::ExitCode::kDone
                                           : runtime::ExitCode::kCheckpoint);
}

// Writes the weights under a temporary name, so that the file is whole or absent.
void write_export(const runtime::TrainingState& state, const fs::path& output) {
  const json& config = state.scalars.at("config");
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"longship_step", std::to_string(state.step)},
      {"longship_config",
       config.contains("text") ? config["text"].get<std::string>() : config.dump()},
      {"longship_normalizer", state.scalars.at("normalizer").dump()}};
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  const std::string temporary =
      (folder / (".partial-" + output.filename().string() + "-" + runtime::nonce())).string();
  runtime::FileOps files;
  try {
    runtime::write_safetensors(files, temporary, state.weights, metadata);
    runtime::rename_path(files, temporary, output.string());
    runtime::sync_folder(files, folder.string());
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

int export_weights(const std::vector<std::string>& arguments) {
  const Words words("export",
                    std::string("Writes a checkpoint's weights into one safetensors file, with the "
                                "configuration and the normaliser as its metadata.\n") +
                        kCheckpointMeaning,
                    "CKPT --output FILE.safetensors [--force]", arguments, /*exports=*/true);
  if (words.helped()) return 0;
  const std::string path = words.path();
  if (words.text("output").empty()) {
    throw runtime::UsageError("checkpoint export needs --output FILE.safetensors");
  }
  const fs::path output = check_output_file(words.text("output"), words.flag("force"), {});
  const std::string checkpoint = find(path);
  const runtime::TrainingState state =
      runtime::read_checkpoint(checkpoint, runtime::Parts::kWeights);
  write_export(state, output);
  std::cout << output.string() << ": " << state.weights.size() << " tensors of step " << state.step
            << "\n";
  return 0;
}

struct Subcommand {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>&);
};
constexpr Subcommand kSubcommands[] = {
    {"list", "the checkpoints of a run", list},
    {"inspect", "what a checkpoint holds", inspect},
    {"verify", "compare a checkpoint's files with their hashes", verify},
    {"export", "write its weights into one safetensors file", export_weights},
};

std::string usage() {
  std::string text =
      "Usage: longship checkpoint list RUN | inspect CKPT | verify CKPT |\n"
      "                           export CKPT --output FILE.safetensors\n\n";
  for (const Subcommand& subcommand : kSubcommands) {
    text += std::string("  ") + subcommand.name +
            std::string(10 - std::string(subcommand.name).size(), ' ') + subcommand.summary + "\n";
  }
  return text + "\n" + kCheckpointMeaning + "\n";
}

int run(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::cout << usage();
    return 0;
  }
  if (arguments.empty()) throw runtime::UsageError("checkpoint needs a subcommand\n" + usage());
  for (const Subcommand& subcommand : kSubcommands) {
    if (arguments[0] == subcommand.name) {
      return subcommand.run({arguments.begin() + 1, arguments.end()});
    }
  }
  throw runtime::UsageError("there is no 'checkpoint " + arguments[0] +
                            "'; see longship checkpoint --help");
}

}  // namespace

Command checkpoint_command() {
  return {"checkpoint", "list, inspect, verify and export checkpoints", run};
}

}  // namespace longship::launcher
