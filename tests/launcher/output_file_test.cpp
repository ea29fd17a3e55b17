#include "launcher/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../runtime/temporary_folder.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& path, bool force,
                    const std::vector<std::string>& inputs = {}) {
  try {
    check_output_file(path, force, inputs);
  } catch (const runtime::UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(OutputFile, ReplacesAFileOnlyWithForce) {
  const tests::TemporaryFolder folder;
  EXPECT_EQ(refusal(folder / "new", false), "");
  std::ofstream(folder / "old") << "x";
  EXPECT_THAT(refusal(folder / "old", false), HasSubstr("give --force"));
  EXPECT_EQ(refusal(folder / "old", true), "");
}

TEST(OutputFile, NeverReplacesWhatIsNoFile) {
  const tests::TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.path().string(), true), HasSubstr("is a folder"));
  EXPECT_THAT(refusal("/dev/null", true), HasSubstr("is a device or pipe"));
}

TEST(OutputFile, FollowsALinkToTheFileItself) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "file.h5") << "x";
  std::filesystem::create_symlink("file.h5", folder / "link.h5");
  EXPECT_EQ(check_output_file(folder / "link.h5", true, {}),
            std::filesystem::canonical(folder / "file.h5").string());
  EXPECT_EQ(check_output_file(folder / "file.h5", true, {}), folder / "file.h5");
  std::filesystem::create_symlink("nowhere", folder / "lost.h5");
  EXPECT_THAT(refusal(folder / "lost.h5", true), HasSubstr("leads nowhere"));
}

TEST(OutputFile, NamesAFolderThatIsMissing) {
  const tests::TemporaryFolder folder;
  EXPECT_THAT(refusal(folder / "no/such/out.h5", false),
              HasSubstr("there is no folder " + (folder / "no/such")));
}

// Without root's rights, which every folder gives.
class OtherUser {
 public:
  OtherUser() : user_(::geteuid()) {
    if (user_ == 0) changed_ = ::seteuid(65534) == 0;
  }
  ~OtherUser() {
    if (changed_ && ::seteuid(user_) != 0) ADD_FAILURE() << "the user cannot be changed back";
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

 private:
  uid_t user_;
  bool changed_ = false;
};

TEST(OutputFile, NamesAFolderWithoutWritePermission) {
  namespace fs = std::filesystem;
  const tests::TemporaryFolder folder;
  fs::create_directory(folder / "ro");
  std::ofstream(folder / "ro/old.h5") << "x";
  fs::create_symlink("ro/old.h5", folder / "link.h5");
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(folder / "ro", fs::perms(0555));
  std::string fresh;
  std::string old;
  std::string link;
  {
    const OtherUser user;
    fresh = refusal(folder / "ro/new.h5", false);
    old = refusal(folder / "ro/old.h5", true);
    link = refusal(folder / "link.h5", true);
  }
  EXPECT_EQ(fresh, (folder / "ro/new.h5") +
                       " cannot be written: no file can be made in the folder " + (folder / "ro") +
                       " (Permission denied); name a file in another folder");
  EXPECT_THAT(old, HasSubstr("no file can be made in the folder " + (folder / "ro")));
  EXPECT_THAT(link, HasSubstr("no file can be made in the folder "));
  fs::permissions(folder / "ro", fs::perms(0755));
}

TEST(OutputFile, NeverReplacesAnInput) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "in.csv") << "x";
  std::filesystem::create_hard_link(folder / "in.csv", folder / "other.csv");
  std::filesystem::create_symlink(folder / "in.csv", folder / "link.csv");
  for (const char* name : {"in.csv", "other.csv", "link.csv"}) {
    EXPECT_THAT(refusal(folder / name, true, {folder / "in.csv"}), HasSubstr("is an input"))
        << name;
  }
}

TEST(OutputFile, NeverWritesIntoACheckpoint) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "manifest.json") << "{}";
  std::ofstream(folder / "model.safetensors") << "x";
  EXPECT_THAT(refusal(folder / "model.safetensors", true), HasSubstr("lies in a checkpoint"));
  EXPECT_THAT(refusal(folder / "new.safetensors", false), HasSubstr("lies in a checkpoint"));
}

}  // namespace
}  // namespace longship::launcher
