#include <cxxopts.hpp>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/command.h"
#include "runtime/atomic_file.h"
#include "runtime/error.h"
#include "slurm/batch_script.h"

namespace longship::launcher {
namespace {

namespace fs = std::filesystem;

struct StarterFile {
  std::string name;
  std::string text;
};

const char* const kRunFile =
    R"(# A run file of Longship. `longship train --help` lists all keys and their defaults.

run: {name: @NAME@}   # the folder below runs/; the same name again resumes the run

data:
  path: series.h5             # made by `longship data import`; relative to this file
  inputs: [temperature]       # columns that the model reads
  targets: [temperature]      # columns that it forecasts
  window: 48                  # rows that the model looks back
  horizon: 1                  # rows that it forecasts
  split: [0.7, 0.1, 0.2]      # train, validation, test: by time, per series
  missing: interpolate        # or error, forward_fill, drop

model:
  name: lstm
  hidden_size: 64
  num_layers: 2

train:
  epochs: 10
  batch_size: 256             # over all GPUs; more of them give the same training, sooner
  clip_norm: 1.0

optimizer: {name: adamw, lr: 1e-3}
schedule: {name: cosine, warmup_steps: 100}

eval: {every_epochs: 1, patience: 5}
checkpoint: {every_minutes: 10, keep: 3}
)";

const char* const kReadmeHead = R"(# A Longship run

1. Bring your data: `longship data import YOUR.csv --output series.h5`, then
   `longship data inspect series.h5` shows the columns.
2. Name your columns in `run.yaml`, and look at the plan before anything is computed:
   `longship train run.yaml --dry-run`.
3. Train: `longship launch -- train run.yaml` uses all GPUs of this machine, or else its CPUs;
   `-n 4` starts four ranks.
4. Stopped before its end, a run goes on where it was when the same command is given again. Give
   another `run.name` to start anew.
5. Evaluate the best checkpoint on the test part: `longship evaluate @RUN@`.
)";

const char* const kReadmeSlurm = R"(
On a Slurm cluster: set nodes, GPUs and time at the top of `train.sbatch`, then
`sbatch train.sbatch run.yaml`. Shortly before its time ends the job saves a checkpoint and queues
itself again.
)";

std::string replaced(std::string text, const std::string& mark, const std::string& value) {
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark)) {
    text.replace(at, mark.size(), value);
  }
  return text;
}

// The run bears the folder's name.
std::vector<StarterFile> starter_files(const fs::path& folder, bool with_slurm) {
  const std::string name =
      fs::weakly_canonical(folder / "run.yaml").parent_path().filename().string();
  std::vector<StarterFile> files = {
      {"run.yaml", replaced(kRunFile, "@NAME@", nlohmann::json(name).dump())},
      {"README.md",
       replaced(kReadmeHead, "@RUN@", "'runs/" + name + "'") + (with_slurm ? kReadmeSlurm : "")},
  };
  if (with_slurm) files.push_back({"train.sbatch", slurm::batch_script_template()});
  return files;
}

// All or nothing: no file is written when one of them is there already.
void write_files(const fs::path& folder, const std::vector<StarterFile>& files) {
  std::error_code error;
  for (const StarterFile& file : files) {
    const fs::path path = folder / file.name;
    if (fs::exists(fs::symlink_status(path, error))) {
      throw runtime::UsageError("'" + path.string() +
                                "' exists and is not overwritten: name another folder or move it");
    }
  }
  fs::create_directories(folder, error);
  if (error) {
    throw runtime::ConfigError("cannot create the folder '" + folder.string() +
                               "': " + error.message());
  }
  for (const StarterFile& file : files) {
    runtime::write_file_atomically((folder / file.name).string(), file.text);
  }
}

int run(const std::vector<std::string>& arguments) {
  cxxopts::Options options("longship init", "Writes a run file and a README to start from.");
  options.positional_help("DIR");
  options.custom_help("[--slurm]");
  options.add_options()("slurm", "Also write a batch script for Slurm")(
      "h,help", "Print this text")("directory", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional("directory");
  const cxxopts::ParseResult parsed = parse_arguments(options, arguments);
  if (parsed.count("help") > 0) {
    std::cout << options.help();
    return 0;
  }
  if (parsed.count("directory") != 1) {
    throw runtime::UsageError("longship init: name one folder: longship init DIR [--slurm]");
  }
  const fs::path folder = parsed["directory"].as<std::vector<std::string>>().front();
  const std::vector<StarterFile> files = starter_files(folder, parsed.count("slurm") > 0);
  write_files(folder, files);
  for (const StarterFile& file : files) std::cout << (folder / file.name).string() << "\n";
  std::cout << "README.md there tells the next steps.\n";
  return 0;
}

}  // namespace

Command init_command() {
  return {"init", "Write a run file, a README and a Slurm batch script to start from", run};
}

}  // namespace longship::launcher
