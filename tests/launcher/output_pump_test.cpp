#include "launcher/output_pump.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <thread>

namespace longship::launcher {
namespace {

std::string read_to_end(int source) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t bytes = 0; (bytes = read(source, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(bytes));
  }
  return text;
}

TEST(OutputPump, PassesOnWhatIsWritten) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::string sent;
  for (int i = 0; i < 40000; ++i) sent += std::to_string(i) + "\n";
  std::string received;
  std::thread reader([&] { received = read_to_end(ends[0]); });
  {
    const OutputPump pump(ends[1]);
    for (size_t at = 0; at < sent.size();) {
      const ssize_t written = write(pump.write_end(), sent.data() + at, sent.size() - at);
      ASSERT_GT(written, 0);
      at += static_cast<size_t>(written);
    }
  }
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(received, sent);
}

TEST(OutputPump, DropsWhatNobodyReads) {
  const auto former = std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  {
    const OutputPump pump(ends[1]);
    const std::string much(1 << 20, 'x');  // more than any pipe holds
    for (size_t at = 0; at < much.size();) {
      const ssize_t written = write(pump.write_end(), much.data() + at, much.size() - at);
      ASSERT_GT(written, 0);
      at += static_cast<size_t>(written);
    }
  }
  close(ends[1]);
  std::signal(SIGPIPE, former);
}

}  // namespace
}  // namespace longship::launcher
