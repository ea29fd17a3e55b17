#include "runtime/console.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

#include "terminal.h"

namespace longship::runtime {
namespace {

using longship::tests::CapturedOutput;

TEST(Console, KeepsTheStatusLineBelowTheOthers) {
  CapturedOutput terminal(CapturedOutput::Kind::kTerminal);
  Console console(terminal.fd(), /*live=*/true, /*colour=*/false);
  console.set_status("[##--] half");
  EXPECT_EQ(terminal.take(), "\r\033[K[##--] half");
  console.write_line("a line\n");
  EXPECT_EQ(terminal.take(), "\r\033[Ka line\r\n[##--] half");
  console.clear_status();
  EXPECT_EQ(terminal.take(), "\r\033[K");
  console.write_line("another\n");
  EXPECT_EQ(terminal.take(), "another\r\n");
}

TEST(Console, CutsTheStatusToTheTerminalsWidth) {
  CapturedOutput terminal(CapturedOutput::Kind::kTerminal);
  Console console(terminal.fd(), true, false);
  console.set_status(std::string(100, 'x'));
  EXPECT_EQ(terminal.take(), "\r\033[K" + std::string(39, 'x'));
}

TEST(Console, WritesNoStatusWhereItIsNotLive) {
  CapturedOutput pipe(CapturedOutput::Kind::kPipe);
  Console console(pipe.fd(), false, false);
  console.set_status("[##--] half");
  console.clear_status();
  EXPECT_TRUE(pipe.empty());
  console.write_line("a line\n");
  EXPECT_EQ(pipe.take(), "a line\n");
}

// The default action of SIGPIPE would end this test program.
TEST(Console, SurvivesAReaderThatHasGone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  Console console(ends[1], false, false);
  console.write_line("lost\n");
  console.write_line("lost as well\n");
  close(ends[1]);
  EXPECT_FALSE(console.live());
}

}  // namespace
}  // namespace longship::runtime
