#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "../runtime/temporary_folder.h"
#include "launcher/command.h"
#include "runtime/config_load.h"
#include "runtime/error.h"
#include "slurm/batch_script.h"

namespace longship::launcher {
namespace {

using longship::tests::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

std::string contents(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::set<std::string> names(const std::filesystem::path& folder) {
  std::set<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    result.insert(entry.path().filename().string());
  }
  return result;
}

TEST(InitCommand, WritesARunFileThatIsValid) {
  const TemporaryFolder folder;
  EXPECT_EQ(init_command().run({folder / "a b/new"}), 0);
  EXPECT_THAT(names(folder / "a b/new"), ElementsAre("README.md", "run.yaml"));
  const runtime::Config config = runtime::load_config(folder / "a b/new/run.yaml");
  EXPECT_EQ(config.model.name, "lstm");
  EXPECT_EQ(config.run.name, "new");
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_THAT(runtime::resolve_paths(config), ElementsAre(folder / "a b/new/series.h5"));
}

TEST(InitCommand, AddsTheBatchScriptOnRequest) {
  const TemporaryFolder folder;
  EXPECT_EQ(init_command().run({"--slurm", folder.path().string()}), 0);
  EXPECT_THAT(names(folder.path()), ElementsAre("README.md", "run.yaml", "train.sbatch"));
  EXPECT_EQ(contents(folder / "train.sbatch"), slurm::batch_script_template());
  EXPECT_THAT(contents(folder / "README.md"), HasSubstr("sbatch train.sbatch run.yaml"));
}

TEST(InitCommand, OverwritesNothingAndThenWritesNothing) {
  const TemporaryFolder folder;
  std::ofstream(folder / "README.md") << "mine";
  try {
    init_command().run({folder.path().string()});
    FAIL() << "an existing file was no error";
  } catch (const runtime::UsageError& error) {  // as of every output that exists
    EXPECT_THAT(error.what(), HasSubstr("'" + (folder / "README.md") + "' exists"));
  }
  EXPECT_THAT(names(folder.path()), ElementsAre("README.md"));
  EXPECT_EQ(contents(folder / "README.md"), "mine");
}

TEST(InitCommand, RefusesAWrongCommandLine) {
  EXPECT_THROW(init_command().run({}), runtime::UsageError);
  EXPECT_THROW(init_command().run({"a", "b"}), runtime::UsageError);
  EXPECT_THROW(init_command().run({"--slurn", "a"}), runtime::UsageError);
  EXPECT_EQ(init_command().run({"--help"}), 0);
}

}  // namespace
}  // namespace longship::launcher
