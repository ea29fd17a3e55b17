// The program as a user starts it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../runtime/temporary_folder.h"
#include "runtime/file_descriptor.h"
#include "single_process.h"

namespace longship::launcher {
namespace {

using runtime::FileDescriptor;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class MainTest : public SingleProcess {
 protected:
  // Starts the program with standard output at `output`; returns its exit code. What it writes to
  // standard error lands in error_.
  int run(const std::vector<std::string>& words, int output) {
    const std::string error_path = folder_ / "error";
    const FileDescriptor error(
        open(error_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    std::vector<char*> arguments = {const_cast<char*>(LONGSHIP_PROGRAM)};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, error.get(), STDERR_FILENO);
    pid_t child = 0;
    EXPECT_EQ(posix_spawn(&child, LONGSHIP_PROGRAM, &actions, nullptr, arguments.data(), environ),
              0);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    error_ = read(error_path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int run_into(const std::string& path, const std::vector<std::string>& words) {
    return run(words,
               FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).get());
  }
  int run(const std::vector<std::string>& words) {
    const int code = run_into(folder_ / "output", words);
    output_ = read(folder_ / "output");
    std::filesystem::remove(folder_ / "output");
    return code;
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  tests::TemporaryFolder folder_;
  std::string output_;
  std::string error_;
};

TEST_F(MainTest, TellsItsCommandsAndVersion) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(output_, AllOf(HasSubstr("train "), HasSubstr("doctor "), HasSubstr("launch ")));
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_THAT(output_, testing::MatchesRegex("longship [0-9.]+\n"));
  EXPECT_EQ(error_, "");
}

TEST_F(MainTest, WrongCommandLinesAreUsageErrorsOnStandardError) {
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(output_, "");
  EXPECT_THAT(error_, HasSubstr("Usage: longship COMMAND"));
  EXPECT_EQ(run({"trian"}), 2);
  EXPECT_THAT(error_, StartsWith("longship: error: there is no command 'trian'"));
  EXPECT_EQ(run({"data", "inspect", folder_ / "none.h5"}), 3);
  EXPECT_THAT(error_, AllOf(StartsWith("longship: error: "), HasSubstr("none.h5: no such file")));
}

TEST_F(MainTest, OutputThatCannotBeWrittenIsAnError) {
  const std::string message =
      "longship: error: standard output cannot be written: No space left on device\n";
  EXPECT_EQ(run_into("/dev/full", {"--version"}), 3);
  EXPECT_EQ(error_, message);
  // Whatever wrote it: stdio above, a stream here.
  EXPECT_EQ(run_into("/dev/full", {"data", "--help"}), 3);
  EXPECT_EQ(error_, message);
}

TEST_F(MainTest, MoreOutputThanABufferIsAnErrorAsWell) {
  std::string columns = "a0";
  std::string values = "0";
  for (int i = 1; i < 5000; ++i) {
    columns += ",a" + std::to_string(i);
    values += ",0";
  }
  std::ofstream(folder_ / "wide.csv") << columns << "\n" << values << "\n";
  EXPECT_EQ(run_into("/dev/full", {"data", "inspect", "--json", folder_ / "wide.csv"}), 3);
  EXPECT_THAT(error_, HasSubstr("standard output cannot be written: No space left on device"));
}

TEST_F(MainTest, AReaderThatHadEnoughIsNoFailure) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const FileDescriptor writer(ends[1]);
  close(ends[0]);
  EXPECT_EQ(run({"--help"}, writer.get()), 0);
  EXPECT_EQ(error_, "");
}

}  // namespace
}  // namespace longship::launcher
