// What a full disk or the end of the process at any moment leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "checkpoint_support.h"
#include "runtime/checkpoint.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::make_state;
using tests::no_errors;
using tests::on_ranks;
using tests::same_state;
using tests::SmallDisk;
using tests::steps_in;

// Calls `before` before every change of the file system; where it gives an error number, the call
// fails with it.
class Watched : public FileOps {
 public:
  explicit Watched(std::function<int()> before) : before_(std::move(before)) {}
  int open_new(const std::string& path) override { return fails() ? -1 : FileOps::open_new(path); }
  ssize_t write(int descriptor, const void* data, std::size_t bytes) override {
    return fails() ? -1 : FileOps::write(descriptor, data, bytes);
  }
  int fsync(int descriptor) override { return fails() ? -1 : FileOps::fsync(descriptor); }
  int rename(const std::string& from, const std::string& to) override {
    return fails() ? -1 : FileOps::rename(from, to);
  }
  int mkdir(const std::string& path) override { return fails() ? -1 : FileOps::mkdir(path); }
  int symlink(const std::string& target, const std::string& path) override {
    return fails() ? -1 : FileOps::symlink(target, path);
  }
  int unlink(const std::string& path) override { return fails() ? -1 : FileOps::unlink(path); }
  int rmdir(const std::string& path) override { return fails() ? -1 : FileOps::rmdir(path); }

 private:
  bool fails() {
    const int error = before_();
    if (error == 0) return false;
    errno = error;
    return true;
  }
  std::function<int()> before_;
};

// What a job finds that starts after another one was killed: the newest is whole, is one of those
// that were being written, and nothing was damaged.
void expect_usable(const std::string& folder, int64_t at_least) {
  const auto host = comm::make_local_communicator();
  const auto loaded = Checkpointer(folder, *host, 2).load_newest();
  ASSERT_TRUE(loaded);
  EXPECT_GE(loaded->state.step, at_least);
  EXPECT_TRUE(same_state(loaded->state, make_state(loaded->state.step)));
  const CheckpointListing listing = list_checkpoints(folder);
  EXPECT_THAT(listing.set_aside, ::testing::IsEmpty());
  EXPECT_THAT(listing.leftovers, ::testing::IsEmpty());
  for (const CheckpointEntry& entry : listing.checkpoints) {
    EXPECT_THAT(verify_checkpoint(entry.path), ::testing::IsEmpty()) << entry.path;
  }
}

// Runs `body` in a child process and returns its wait status.
int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// The child saves steps 30 (as best, with retention of one) and 30 again, and is killed before its
// n-th change of the file system, for every n.
TEST(CheckpointFaults, KilledBeforeAnyChangeOfTheFileSystem) {
  bool finished = false;
  int moments = 0;
  for (int moment = 1; !finished; ++moment) {
    const tests::TemporaryFolder root;
    const std::string folder = root / "checkpoints";
    const auto host = comm::make_local_communicator();
    for (int64_t step : {10, 20}) Checkpointer(folder, *host, 2).save(make_state(step), false);

    const int status = in_child([&] {
      int calls = 0;
      Checkpointer::Hooks hooks;
      hooks.files = std::make_shared<Watched>([&] {
        if (++calls == moment) ::kill(::getpid(), SIGKILL);
        return 0;
      });
      Checkpointer writer(folder, *host, 1, hooks);
      writer.save(make_state(30), true);
      writer.save(make_state(30), false);
    });
    finished = WIFEXITED(status);
    if (finished) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      EXPECT_THAT(steps_in(folder), ElementsAre(30));
    }
    expect_usable(folder, 20);
    ++moments;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "killed before call " << moment;
  }
  EXPECT_GT(moments, 40);
}

TEST(CheckpointFaults, KilledAtRandomMoments) {
  for (int round = 0; round < 25; ++round) {
    const tests::TemporaryFolder root;
    const std::string folder = root / "checkpoints";
    const auto host = comm::make_local_communicator();
    Checkpointer(folder, *host, 2).save(make_state(1), true);
    const pid_t child = ::fork();
    if (child == 0) {
      Checkpointer writer(folder, *host, 2);
      for (int64_t step = 2;; ++step) writer.save(make_state(step), step % 3 == 0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + 1777 * round));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    expect_usable(folder, 1);
  }
}

// Any one call fails on one rank of three: all ranks get the same error or none, and what was there
// before is still there.
TEST(CheckpointFaults, AnyFailingCallOnAnyRankLeavesOlderOnesUntouched) {
  for (int failing_rank : {0, 2}) {
    bool reached = true;
    int failures = 0;
    for (int moment = 1; reached; ++moment) {
      const tests::TemporaryFolder root;
      const std::string folder = root / "checkpoints";
      {
        const auto host = comm::make_local_communicator();
        Checkpointer(folder, *host, 3).save(make_state(10), true);
      }
      std::atomic<int> calls{0};
      const auto errors = on_ranks(3, [&](comm::Communicator& host) {
        Checkpointer::Hooks hooks;
        if (host.rank() == failing_rank) {
          hooks.files = std::make_shared<Watched>([&] { return ++calls == moment ? EIO : 0; });
        }
        Checkpointer(folder, host, 3, hooks).save(make_state(20), false);
      });
      reached = calls >= moment;
      EXPECT_EQ(errors[1], errors[0]);
      EXPECT_EQ(errors[2], errors[0]);
      if (!errors[0].empty()) {
        ++failures;
        EXPECT_THAT(errors[0], AllOf(HasSubstr("step 20"), HasSubstr("Input/output error"),
                                     HasSubstr("rank " + std::to_string(failing_rank))));
      }
      expect_usable(folder, 10);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "call " << moment << ": " << errors[0];
    }
    EXPECT_GE(failures, failing_rank == 0 ? 15 : 3);
  }
}

TEST(CheckpointFaults, AFullDiskIsOneClearErrorOnAllRanks) {
  const tests::TemporaryFolder root;
  const SmallDisk disk(root / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not permitted here";
  const std::string folder = root / "disk/checkpoints";
  const auto errors = on_ranks(3, [&](comm::Communicator& host) {
    Checkpointer checkpointer(folder, host, 3);
    checkpointer.save(make_state(10), false);
    TrainingState large = make_state(20);
    large.weights.push_back({"large", torch::ones({int64_t{1} << 20})});
    checkpointer.save(large, false);
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("step 20"), HasSubstr("model.safetensors"),
                                 HasSubstr("No space left on device"), HasSubstr("needs 41"),
                                 HasSubstr("are free"), HasSubstr("older ones are untouched"))));
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_THAT(steps_in(folder), ElementsAre(10));
  expect_usable(folder, 10);
  // And the next one that fits is written.
  EXPECT_EQ(on_ranks(3,
                     [&](comm::Communicator& host) {
                       Checkpointer(folder, host, 3).save(make_state(30), false);
                     }),
            no_errors(3));
  expect_usable(folder, 30);
}

}  // namespace
}  // namespace longship::runtime
