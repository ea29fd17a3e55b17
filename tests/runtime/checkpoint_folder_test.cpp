#include "runtime/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using tests::TemporaryFolder;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Names of a listing's checkpoints.
std::vector<std::string> names(const CheckpointListing& listing) {
  std::vector<std::string> result;
  for (const CheckpointEntry& entry : listing.checkpoints) result.push_back(entry.name);
  return result;
}

TEST(CheckpointFolder, NamesAndStepsAreTheInverseOfEachOther) {
  EXPECT_EQ(checkpoint_name(1200), "step-000001200");
  EXPECT_EQ(checkpoint_name(12345678901), "step-12345678901");
  for (int64_t step : {int64_t{0}, int64_t{7}, int64_t{999'999'999}, int64_t{1'000'000'000}}) {
    EXPECT_EQ(step_of(checkpoint_name(step)), step);
  }
  for (const char* name : {"step-12", "step-00000120x", "step--00000001", "step-000001200.bad",
                           "latest", "", ".partial-step-000001200-a"}) {
    EXPECT_EQ(step_of(name), std::nullopt) << name;
  }
}

TEST(CheckpointFolder, ListsByNumberAndTellsLinksAndLeftovers) {
  const TemporaryFolder folder;
  for (const char* name :
       {"step-1000000000", "step-999999999", "step-000000100", "step-000000200.bad",
        ".partial-step-000000300-x", ".removed-step-000000001-y", "unrelated"}) {
    fs::create_directory(folder.path() / name);
  }
  fs::create_symlink("step-1000000000", folder.path() / "latest");
  fs::create_symlink("step-000000100", folder.path() / "best");

  const CheckpointListing listing = list_checkpoints(folder.path().string());
  EXPECT_THAT(names(listing), ElementsAre("step-000000100", "step-999999999", "step-1000000000"));
  EXPECT_TRUE(listing.checkpoints[0].best && !listing.checkpoints[0].latest);
  EXPECT_TRUE(listing.checkpoints[2].latest && !listing.checkpoints[2].best);
  EXPECT_EQ(listing.checkpoints[2].path, folder / "step-1000000000");
  EXPECT_THAT(listing.set_aside, ElementsAre("step-000000200.bad"));
  EXPECT_THAT(listing.leftovers,
              ElementsAre(".partial-step-000000300-x", ".removed-step-000000001-y"));
  EXPECT_THAT(names(list_checkpoints(folder / "not there")), IsEmpty());
}

// Retention, case by case: which steps go.
TEST(CheckpointFolder, RetentionCountsByNumberNotByText) {
  EXPECT_THAT(expired_steps({10'000, 10'100, 10'200, 9'800, 9'900}, 3, {10'200}),
              ElementsAre(9'800, 9'900));
  EXPECT_THAT(expired_steps({100, 99}, 1, {100}), ElementsAre(99));
}

TEST(CheckpointFolder, RetentionKeepsTheBestAndTheOneJustWritten) {
  EXPECT_THAT(expired_steps({100, 200, 300}, 1, {100, 300}), ElementsAre(200));
  // Resumed from an older checkpoint: 150 was just written beside newer ones.
  EXPECT_THAT(expired_steps({100, 150, 200, 300}, 2, {150}), ElementsAre(100));
}

TEST(CheckpointFolder, KeepZeroRemovesNothing) {
  EXPECT_THAT(expired_steps({1, 2, 3}, 0, {}), IsEmpty());
  EXPECT_THAT(expired_steps({1, 2, 3}, 3, {}), IsEmpty());
  EXPECT_THAT(expired_steps({}, 1, {}), IsEmpty());
}

class Resolve : public ::testing::Test {
 protected:
  Resolve() {
    for (const char* step : {"step-000000100", "step-000000200", "step-000000300"}) {
      write(checkpoints() / step / "manifest.json", "{}");
    }
    fs::create_symlink("step-000000200", checkpoints() / "latest");
    fs::create_symlink("step-000000100", checkpoints() / "best");
  }
  fs::path run() const { return folder_.path() / "run"; }
  fs::path checkpoints() const { return run() / "checkpoints"; }
  std::string step(const char* name) const { return fs::canonical(checkpoints() / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(Resolve, RunMeansItsBestOrItsLatest) {
  EXPECT_EQ(resolve_checkpoint(run(), Prefer::kBest), step("step-000000100"));
  EXPECT_EQ(resolve_checkpoint(run(), Prefer::kLatest), step("step-000000200"));
  EXPECT_EQ(resolve_checkpoint(checkpoints(), Prefer::kBest), step("step-000000100"));
  EXPECT_EQ(resolve_checkpoint(run().string() + "/", Prefer::kLatest), step("step-000000200"));
}

TEST_F(Resolve, CheckpointsAndLinksAreThemselves) {
  EXPECT_EQ(resolve_checkpoint(checkpoints() / "step-000000300", Prefer::kBest),
            step("step-000000300"));
  EXPECT_EQ(resolve_checkpoint(checkpoints() / "latest", Prefer::kBest), step("step-000000200"));
  fs::create_symlink("run/checkpoints/best", folder_.path() / "mine");
  EXPECT_EQ(resolve_checkpoint(folder_ / "mine", Prefer::kLatest), step("step-000000100"));
}

TEST_F(Resolve, WithoutBestTheLatestWithoutLatestTheHighestStep) {
  fs::remove(checkpoints() / "best");
  EXPECT_EQ(resolve_checkpoint(run(), Prefer::kBest), step("step-000000200"));
  fs::remove(checkpoints() / "latest");
  fs::create_symlink("step-000000777", checkpoints() / "latest");
  EXPECT_EQ(resolve_checkpoint(run(), Prefer::kLatest), step("step-000000300"));
}

TEST_F(Resolve, ABestThatIsGoneIsNotReplacedByAnother) {
  fs::remove_all(checkpoints() / "step-000000100");
  EXPECT_THAT([&] { resolve_checkpoint(run(), Prefer::kBest); },
              ThrowsMessage<CheckpointError>(HasSubstr("names step-000000100, which is not")));
}

TEST_F(Resolve, SaysWhatAForeignPathLooksLike) {
  const fs::path root = folder_.path();
  write(root / "a.pkl", std::string("\x80\x04\x95 pickle", 10));
  write(root / "a.pt", std::string("PK\x03\x04 zip", 8));
  write(root / "empty", "");
  write(root / "notes.txt", "some words\n");
  write(root / "a.h5", "\x89HDF\r\n\x1a\n....");
  write(root / "a.safetensors", std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}", 16));
  fs::create_directory(root / "nothing");
  write(root / "other/file", "x");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a.pkl", "a Python pickle"},   {"a.pt", "a ZIP archive"},
      {"empty", "an empty file"},     {"notes.txt", "a text file"},
      {"a.h5", "an HDF5 file"},       {"a.safetensors", "a safetensors file"},
      {"nothing", "an empty folder"}, {"other", "a folder without checkpoints"}};
  for (const auto& [name, looks] : cases) {
    const auto resolve = [&] { resolve_checkpoint(root / name, Prefer::kBest); };
    EXPECT_THAT(resolve, ThrowsMessage<CheckpointError>(
                             AllOf(HasSubstr("expected a run folder or a checkpoint folder"),
                                   HasSubstr((root / name).string() + " is " + looks),
                                   ::testing::Not(HasSubstr("\n")))))
        << name;
  }
}

TEST_F(Resolve, SaysWhatIsMissing) {
  EXPECT_THAT([&] { resolve_checkpoint(folder_ / "nowhere", Prefer::kBest); },
              ThrowsMessage<CheckpointError>(HasSubstr("No such file or directory")));
  fs::create_symlink("gone", folder_.path() / "dangling");
  EXPECT_THAT([&] { resolve_checkpoint(folder_ / "dangling", Prefer::kBest); },
              ThrowsMessage<CheckpointError>(HasSubstr("is a link to gone, which is not there")));
  fs::create_directory(checkpoints() / "step-000000400");
  EXPECT_THAT([&] { resolve_checkpoint(checkpoints() / "step-000000400", Prefer::kBest); },
              ThrowsMessage<CheckpointError>(HasSubstr("was not written to its end")));
  fs::create_directories(folder_.path() / "new/checkpoints");
  EXPECT_THAT([&] { resolve_checkpoint(folder_ / "new", Prefer::kBest); },
              ThrowsMessage<CheckpointError>(HasSubstr("holds no checkpoint")));
}

TEST(CheckpointFolder, SetsAsideUnderANameThatIsFree) {
  const TemporaryFolder folder;
  FileOps files;
  for (const char* expected : {"step-000000001.bad", "step-000000001.bad-2"}) {
    fs::create_directory(folder.path() / "step-000000001");
    EXPECT_EQ(set_aside(files, folder / "step-000000001", "bad"), folder / expected);
    EXPECT_TRUE(fs::exists(folder.path() / expected));
  }
  EXPECT_FALSE(fs::exists(folder.path() / "step-000000001"));
}

TEST(CheckpointFolder, PublishingReplacesTheOlderOneOfThatStep) {
  const TemporaryFolder folder;
  FileOps files;
  write(folder.path() / "step-000000005/file", "old");
  write(folder.path() / ".partial-a/file", "new");
  publish_checkpoint(files, folder.path().string(), ".partial-a", "step-000000005");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  std::string text;
  std::ifstream(folder.path() / "step-000000005/file") >> text;
  EXPECT_EQ(text, "new");
}

TEST(CheckpointFolder, TidyingRestoresAReplacedCheckpointThatHasNoSuccessor) {
  const TemporaryFolder folder;
  FileOps files;
  write(folder.path() / ".replaced-step-000000005.0123/file", "old");
  write(folder.path() / "step-000000006/file", "new");
  write(folder.path() / ".replaced-step-000000006.4567/file", "old");
  write(folder.path() / ".partial-step-000000007-89/file", "half");
  const std::vector<std::string> messages = tidy_folder(files, folder.path().string());
  EXPECT_THAT(messages,
              ::testing::UnorderedElementsAre(HasSubstr("restored step-000000005"),
                                              HasSubstr("removed"), HasSubstr("removed")));
  EXPECT_THAT(names(list_checkpoints(folder.path().string())),
              ElementsAre("step-000000005", "step-000000006"));
  EXPECT_THAT(list_checkpoints(folder.path().string()).leftovers, IsEmpty());
  EXPECT_THAT(tidy_folder(files, folder.path().string()), IsEmpty());
}

TEST(CheckpointFolder, RemovesWithoutATrace) {
  const TemporaryFolder folder;
  FileOps files;
  write(folder.path() / "step-000000005/file", "old");
  remove_checkpoint(files, folder.path().string(), "step-000000005");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace longship::runtime
