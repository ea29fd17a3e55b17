#include "runtime/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "checkpoint_support.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using tests::make_state;
using tests::no_errors;
using tests::on_ranks;
using tests::same_state;

class CheckpointerTest : public ::testing::Test {
 protected:
  CheckpointerTest() : host_(comm::make_local_communicator()), folder_(root_ / "checkpoints") {}

  Checkpointer checkpointer(int64_t keep = 3) {
    return {folder_, *host_, keep, {std::make_shared<FileOps>(), [this](const std::string& text) {
                                      notices_.push_back(text);
                                    }}};
  }
  void save(int64_t step, int64_t keep = 3, bool is_best = false) {
    checkpointer(keep).save(make_state(step), is_best);
  }
  std::vector<int64_t> steps() const { return tests::steps_in(folder_); }
  std::string pointer(const char* name) const {
    std::error_code error;
    return fs::read_symlink(fs::path(folder_) / name, error).string();
  }
  std::string path(int64_t step) const { return folder_ + "/" + checkpoint_name(step); }
  void point_latest_to(const std::string& target) const {
    fs::remove(fs::path(folder_) / "latest");
    fs::create_symlink(target, fs::path(folder_) / "latest");
  }
  static void truncate(const std::string& file) { fs::resize_file(file, fs::file_size(file) / 2); }

  tests::TemporaryFolder root_;
  std::unique_ptr<comm::Communicator> host_;
  std::string folder_;
  std::vector<std::string> notices_;
};

TEST_F(CheckpointerTest, WrittenByThreeRanksReadByAnyNumber) {
  EXPECT_EQ(on_ranks(3,
                     [&](comm::Communicator& host) {
                       Checkpointer writer(folder_, host, 3);
                       EXPECT_EQ(writer.save(make_state(1200), true), path(1200));
                     }),
            no_errors(3));
  EXPECT_EQ(pointer("latest"), "step-000001200");
  EXPECT_EQ(pointer("best"), "step-000001200");
  for (int size : {1, 2, 5}) {
    EXPECT_EQ(on_ranks(size,
                       [&](comm::Communicator& host) {
                         const auto loaded = Checkpointer(folder_, host, 3).load_newest();
                         ASSERT_TRUE(loaded);
                         EXPECT_EQ(loaded->path, path(1200));
                         EXPECT_THAT(loaded->messages, IsEmpty());
                         EXPECT_TRUE(same_state(loaded->state, make_state(1200)));
                       }),
              no_errors(size));
  }
}

TEST_F(CheckpointerTest, MoreRanksThanOptimizerElements) {
  TrainingState state = make_state(1);
  state.optimizer = {{"a", "momentum", torch::tensor({1.0F, 2.0F})}};
  EXPECT_EQ(
      on_ranks(
          4, [&](comm::Communicator& host) { Checkpointer(folder_, host, 3).save(state, false); }),
      no_errors(4));
  EXPECT_TRUE(same_state(checkpointer().load_newest()->state, state));
}

TEST_F(CheckpointerTest, AnOptimizerWithoutStateIsNotAMissingOne) {
  TrainingState state = make_state(1);
  state.optimizer.clear();
  checkpointer().save(state, false);
  EXPECT_TRUE(same_state(checkpointer().load_newest()->state, state));
}

TEST_F(CheckpointerTest, NothingThereIsNoCheckpoint) {
  EXPECT_FALSE(checkpointer().load_newest());
  EXPECT_FALSE(fs::exists(folder_));
  fs::create_directory(folder_);
  EXPECT_FALSE(checkpointer().load_newest());
}

TEST_F(CheckpointerTest, RefusesAStateThatCouldNotBeResumedFrom) {
  save(1);
  TrainingState state = make_state(2);
  state.scalars.erase("scaler");
  EXPECT_THAT([&] { checkpointer().save(state, false); },
              ThrowsMessage<Error>(HasSubstr("'scaler'")));
  EXPECT_THAT(steps(), ElementsAre(1));
  EXPECT_THROW(Checkpointer(folder_, *host_, -1), std::invalid_argument);
}

TEST_F(CheckpointerTest, RefusesRanksWithDifferentModels) {
  const auto errors = on_ranks(3, [&](comm::Communicator& host) {
    TrainingState state = make_state(1);
    if (host.rank() == 2) state.weights.pop_back();
    Checkpointer(folder_, host, 3).save(state, false);
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 2 has other tensors than that of rank 0")));
  EXPECT_TRUE(fs::is_empty(folder_));
}

// Retention.

TEST_F(CheckpointerTest, KeepsTheNewestByNumber) {
  for (int64_t step : {9'800, 9'900, 10'000, 10'100, 10'200}) save(step);
  EXPECT_THAT(steps(), ElementsAre(10'000, 10'100, 10'200));
  EXPECT_EQ(pointer("latest"), "step-000010200");
}

TEST_F(CheckpointerTest, KeepsTheBestBesideOne) {
  save(100, 1, /*is_best=*/true);
  save(200, 1);
  save(300, 1);
  EXPECT_THAT(steps(), ElementsAre(100, 300));
  EXPECT_EQ(pointer("best"), "step-000000100");
  save(400, 1, /*is_best=*/true);
  EXPECT_THAT(steps(), ElementsAre(400));
}

TEST_F(CheckpointerTest, KeepZeroRemovesNone) {
  for (int64_t step : {98, 99, 100, 101}) save(step, 0);
  EXPECT_THAT(steps(), ElementsAre(98, 99, 100, 101));
}

TEST_F(CheckpointerTest, GoesOnFromAnOlderOneAndSetsTheLaterOnesAside) {
  for (int64_t step : {100, 200, 300}) save(step);
  checkpointer().save(make_state(250), /*is_best=*/true);
  const LoadedCheckpoint loaded = checkpointer().load_path(path(100));
  EXPECT_TRUE(same_state(loaded.state, make_state(100)));
  save(150, 2);
  EXPECT_THAT(steps(), ElementsAre(100, 150));
  EXPECT_THAT(list_checkpoints(folder_).set_aside,
              ElementsAre("step-000000200.abandoned", "step-000000250.abandoned",
                          "step-000000300.abandoned"));
  EXPECT_EQ(checkpointer().load_newest()->path, path(150));
  EXPECT_EQ(resolve_checkpoint(folder_, Prefer::kBest), path(150));
}

TEST_F(CheckpointerTest, GoesBackBeforeItTrains) {
  for (int64_t step : {100, 200, 300}) save(step);
  Checkpointer going = checkpointer();
  going.go_back_to("/somewhere/else/step-000000100", 100);
  EXPECT_THAT(steps(), ElementsAre(100, 200, 300));
  going.go_back_to(path(100), 100);
  EXPECT_THAT(steps(), ElementsAre(100));
  EXPECT_EQ(checkpointer().load_newest()->path, path(100));
}

TEST_F(CheckpointerTest, TheSameStepAgainReplacesTheOlder) {
  save(100);
  TrainingState state = make_state(100);
  state.weights[0].tensor.fill_(7.0F);
  checkpointer().save(state, false);
  EXPECT_THAT(steps(), ElementsAre(100));
  EXPECT_TRUE(same_state(checkpointer().load_newest()->state, state));
  EXPECT_THAT(list_checkpoints(folder_).leftovers, IsEmpty());
}

// What `latest` and the newest may be like.

TEST_F(CheckpointerTest, LatestOfNothing) {
  save(100);
  save(200);
  point_latest_to("step-000000999");
  const auto loaded = checkpointer().load_newest();
  EXPECT_EQ(loaded->path, path(200));
  EXPECT_THAT(loaded->messages, ElementsAre(HasSubstr("names step-000000999, which is not there")));
}

TEST_F(CheckpointerTest, LatestThatIsGoneOrGarbageOrAFolder) {
  save(100);
  save(200);
  fs::remove(fs::path(folder_) / "latest");
  EXPECT_EQ(checkpointer().load_newest()->path, path(200));
  std::ofstream(fs::path(folder_) / "latest") << "garbage";
  const auto loaded = checkpointer().load_newest();
  EXPECT_EQ(loaded->path, path(200));
  EXPECT_THAT(loaded->messages, ElementsAre(HasSubstr("is not a link to a checkpoint")));
  // The next save puts it right.
  save(300);
  EXPECT_EQ(pointer("latest"), "step-000000300");
  fs::remove(fs::path(folder_) / "latest");
  fs::copy(path(200), fs::path(folder_) / "latest");
  EXPECT_EQ(checkpointer().load_newest()->path, path(300));
  save(400);
  EXPECT_EQ(pointer("latest"), "step-000000400");
}

TEST_F(CheckpointerTest, LatestOfAFolderWithoutManifest) {
  save(100);
  fs::create_directory(path(200));
  point_latest_to("step-000000200");
  const auto loaded = checkpointer().load_newest();
  EXPECT_TRUE(same_state(loaded->state, make_state(100)));
  EXPECT_THAT(loaded->messages, ElementsAre(AllOf(HasSubstr("step-000000200 is damaged"),
                                                  HasSubstr("set aside as step-000000200.bad"),
                                                  HasSubstr("manifest.json is missing"))));
  EXPECT_TRUE(fs::exists(path(200) + ".bad"));
}

TEST_F(CheckpointerTest, SkipsEveryDamagedOneAndSaysWhy) {
  for (int64_t step : {100, 200, 300}) save(step);
  truncate(path(300) + "/model.safetensors");
  fs::remove(path(200) + "/optimizer-00000-of-00001.safetensors");
  const auto loaded = checkpointer().load_newest();
  EXPECT_EQ(loaded->path, path(100));
  EXPECT_THAT(loaded->messages,
              ElementsAre(HasSubstr("model.safetensors has"),
                          HasSubstr("optimizer-00000-of-00001.safetensors is missing")));
  EXPECT_THAT(list_checkpoints(folder_).set_aside,
              ElementsAre("step-000000200.bad", "step-000000300.bad"));
}

TEST_F(CheckpointerTest, AFolderInThePlaceOfAFileIsSetAside) {
  save(100);
  const char* names[] = {"manifest.json", "model.safetensors",
                         "optimizer-00000-of-00001.safetensors"};
  for (const std::string name : names) {
    save(200);
    fs::remove(path(200) + "/" + name);
    fs::create_directory(path(200) + "/" + name);
    const auto loaded = checkpointer().load_newest();
    EXPECT_TRUE(same_state(loaded->state, make_state(100)));
    EXPECT_THAT(loaded->messages, ElementsAre(AllOf(HasSubstr("set aside as step-000000200.bad"),
                                                    HasSubstr(name + " is not a regular file"))));
    EXPECT_THAT(steps(), ElementsAre(100));
  }
}

TEST_F(CheckpointerTest, ALinkToItselfInThePlaceOfAFileIsSetAside) {
  save(100);
  save(200);
  fs::remove(path(200) + "/model.safetensors");
  fs::create_symlink("model.safetensors", path(200) + "/model.safetensors");
  const auto loaded = checkpointer().load_newest();
  EXPECT_EQ(loaded->path, path(100));
  EXPECT_THAT(loaded->messages, ElementsAre(AllOf(HasSubstr("set aside as step-000000200.bad"),
                                                  HasSubstr("Too many levels of symbolic links"))));
}

TEST_F(CheckpointerTest, NoneLeftIsAnErrorNowAndAtTheNextStart) {
  save(100);
  truncate(path(100) + "/manifest.json");
  EXPECT_THAT([&] { checkpointer().load_newest(); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("no checkpoint in " + folder_), HasSubstr("--resume PATH"))));
  EXPECT_THAT([&] { checkpointer().load_newest(); },
              ThrowsMessage<Error>(HasSubstr("no checkpoint in " + folder_)));
  try {
    checkpointer().load_newest();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
  }
}

TEST_F(CheckpointerTest, ALatestWithoutAnyCheckpointIsAnError) {
  fs::create_directory(folder_);
  point_latest_to("step-000000100");
  EXPECT_THROW(checkpointer().load_newest(), Error);
}

TEST_F(CheckpointerTest, ACheckpointOfANewerVersionIsNeitherUsedNorSetAside) {
  save(100);
  save(200);
  Manifest manifest = read_manifest(path(200));
  std::string text = manifest_text(manifest);
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  const std::size_t body = text.rfind(",\n  \"xxh3\"");
  text =
      text.substr(0, body) + ",\n  \"xxh3\": \"" + hash_text(xxh3(text.data(), body)) + "\"\n}\n";
  std::ofstream(path(200) + "/manifest.json") << text;
  EXPECT_THAT([&] { checkpointer().load_newest(); },
              ThrowsMessage<Error>(HasSubstr("format version 2")));
  EXPECT_THAT(steps(), ElementsAre(100, 200));
}

TEST_F(CheckpointerTest, AllRanksHearOfADamagedCheckpointOnAPath) {
  save(100);
  truncate(path(100) + "/model.safetensors");
  const auto errors = on_ranks(
      3, [&](comm::Communicator& host) { Checkpointer(folder_, host, 3).load_path(path(100)); });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("cannot be used"), HasSubstr("model.safetensors has"))));
  EXPECT_THAT(steps(), ElementsAre(100));  // what a user names is not renamed
}

TEST_F(CheckpointerTest, RemovesWhatKilledJobsLeft) {
  save(100);
  fs::create_directory(fs::path(folder_) / ".partial-step-000000200-0123");
  std::ofstream(fs::path(folder_) / ".partial-step-000000200-0123/model.safetensors") << "half";
  EXPECT_EQ(checkpointer().load_newest()->path, path(100));
  EXPECT_THAT(list_checkpoints(folder_).leftovers, IsEmpty());
  EXPECT_THAT(notices_, ElementsAre(AllOf(HasSubstr(".partial-step-000000200-0123"),
                                          HasSubstr("left by a job that was interrupted"))));
}

TEST_F(CheckpointerTest, ProbeFindsAFolderThatCannotBeWritten) {
  checkpointer().probe();
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(on_ranks(3, [&](comm::Communicator& host) { Checkpointer(folder_, host, 3).probe(); }),
            no_errors(3));
  EXPECT_TRUE(fs::is_empty(folder_));

  std::ofstream(root_ / "file") << "x";
  const auto errors =
      on_ranks(2, [&](comm::Communicator& host) { Checkpointer(root_ / "file", host, 3).probe(); });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr(root_ / "file"), HasSubstr("Not a directory"))));
}

TEST_F(CheckpointerTest, KeepsOneRankFromWritingWhereOthersCannotSeeIt) {
  // Rank 1 has another disk under the same name.
  const auto errors = on_ranks(2, [&](comm::Communicator& host) {
    const std::string mine = root_ / ("disk-" + std::to_string(host.rank()));
    fs::create_directory(mine);
    Checkpointer(mine, host, 3).save(make_state(1), false);
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("file system that all hosts share"), HasSubstr("rank 1"))));
  EXPECT_TRUE(fs::is_empty(root_ / "disk-0"));
}

}  // namespace
}  // namespace longship::runtime
