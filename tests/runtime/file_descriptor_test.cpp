#include "runtime/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace longship::runtime {
namespace {

bool is_open(int fd) {
  return fcntl(fd, F_GETFD) != -1;
}

TEST(FileDescriptor, ClosesOnceAndMoves) {
  int raw = -1;
  {
    FileDescriptor first(::open("/dev/null", O_WRONLY));
    raw = first.get();
    ASSERT_TRUE(is_open(raw));
    FileDescriptor second(std::move(first));
    EXPECT_FALSE(first.valid());
    EXPECT_EQ(second.get(), raw);
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(FileDescriptor, ClosesWhatItHeldWhenAssigned) {
  FileDescriptor target(::open("/dev/null", O_WRONLY));
  const int old = target.get();
  FileDescriptor other(::open("/dev/zero", O_RDONLY));
  const int taken = other.get();
  target = std::move(other);
  EXPECT_FALSE(is_open(old));
  EXPECT_EQ(target.get(), taken);
}

TEST(WriteAll, WritesEverything) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const FileDescriptor reader(ends[0]);
  const FileDescriptor writer(ends[1]);
  ASSERT_TRUE(write_all(writer.get(), "four"));
  std::array<char, 8> read{};
  EXPECT_EQ(::read(reader.get(), read.data(), read.size()), 4);
  EXPECT_STREQ(read.data(), "four");
}

// The default action of SIGPIPE would end this test program.
TEST(WriteAll, SurvivesAReaderThatHasGone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const FileDescriptor writer(ends[1]);
  ::close(ends[0]);
  struct sigaction before {};
  sigaction(SIGPIPE, nullptr, &before);
  ASSERT_EQ(before.sa_handler, SIG_DFL);
  EXPECT_FALSE(write_all(writer.get(), "lost"));
  EXPECT_EQ(errno, EPIPE);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGPIPE), 0);
}

}  // namespace
}  // namespace longship::runtime
