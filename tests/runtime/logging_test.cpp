#include "runtime/logging.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "config_support.h"
#include "temporary_folder.h"
#include "terminal.h"

namespace longship::runtime {
namespace {

using longship::tests::CapturedOutput;
using longship::tests::config_error;
using longship::tests::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

std::string contents(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

TEST(MakeLogger, PrintsPlainLinesFromTheGivenLevelOn) {
  CapturedOutput pipe(CapturedOutput::Kind::kPipe);
  const auto logger = make_logger("info", std::make_shared<Console>(pipe.fd(), false, false));
  logger->debug("hidden");
  logger->info("step {}", 7);
  logger->warn("100 % {done}");
  EXPECT_THAT(pipe.take(), MatchesRegex("[0-9]{2}:[0-9]{2}:[0-9]{2} info step 7\n"
                                        "[0-9]{2}:[0-9]{2}:[0-9]{2} warning 100 % \\{done\\}\n"));
}

TEST(MakeLogger, ColoursOnlyWhereItMay) {
  CapturedOutput terminal(CapturedOutput::Kind::kTerminal);
  make_logger("info", std::make_shared<Console>(terminal.fd(), true, true))->error("broken");
  EXPECT_THAT(terminal.take(), HasSubstr(" \033[31merror\033[0m broken"));
  make_logger("info", std::make_shared<Console>(terminal.fd(), true, false))->error("broken");
  EXPECT_THAT(terminal.take(), AllOf(HasSubstr(" error broken"), Not(HasSubstr("\033"))));
}

TEST(MakeLogger, AppendsToTheRanksFile) {
  const TemporaryFolder folder;
  make_logger("debug", nullptr, folder / "rank-00000.log")->debug("first life");
  make_logger("debug", nullptr, folder / "rank-00000.log")->debug("second life");
  EXPECT_THAT(contents(folder / "rank-00000.log"),
              MatchesRegex("[0-9-]{10}T[0-9:]{8}\\.[0-9]{3}Z debug first life\n"
                           "[0-9-]{10}T[0-9:]{8}\\.[0-9]{3}Z debug second life\n"));
}

TEST(MakeLogger, LosesNothingWhenTheProcessIsKilled) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto logger = make_logger("info", nullptr, folder / "log");
    for (int step = 1; step <= 7; ++step) logger->info("step {}", step);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_THAT(contents(folder / "log"), HasSubstr("step 7\n"));
}

TEST(MakeLogger, GoesOnWhenTheDiskIsFullAndTellsOnce) {
  CapturedOutput pipe(CapturedOutput::Kind::kPipe);
  const auto logger =
      make_logger("info", std::make_shared<Console>(pipe.fd(), false, false), "/dev/full");
  logger->info("one");
  logger->info("two");
  const std::string printed = pipe.take();
  EXPECT_THAT(printed, AllOf(HasSubstr("info one\n"), HasSubstr("info two\n")));
  const std::string notice = "lines are missing from the log '/dev/full'";
  const size_t first = printed.find(notice);
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(printed.find(notice, first + 1), std::string::npos);
  EXPECT_THAT(printed, HasSubstr("No space left on device (errno 28)"));
}

TEST(MakeLogger, NamesAFileThatCannotBeOpened) {
  const TemporaryFolder folder;
  EXPECT_THAT(config_error([&] { make_logger("info", nullptr, folder / "none/log"); }),
              AllOf(HasSubstr(folder / "none/log"), HasSubstr("No such file or directory")));
}

}  // namespace
}  // namespace longship::runtime
