#include "runtime/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "config_support.h"
#include "runtime/process_identity.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

using longship::tests::config_error;
using longship::tests::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

int64_t entries(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST(WriteFileAtomically, ReplacesTheFileAndLeavesNothingElse) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "x.json", "first");
  write_file_atomically(folder / "x.json", std::string("sec\0nd", 6));
  EXPECT_EQ(contents(folder / "x.json"), std::string("sec\0nd", 6));
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(WriteFileAtomically, FollowsTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(027);
  write_file_atomically(folder / "x", "");
  umask(before);
  struct stat info {};
  ASSERT_EQ(stat((folder / "x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(WriteFileAtomically, NamesPathHostAndReason) {
  const TemporaryFolder folder;
  const std::string path = folder / "none/x.json";
  EXPECT_THAT(config_error([&] { write_file_atomically(path, "text"); }),
              AllOf(HasSubstr("'" + path + "'"), HasSubstr("host " + host_name()),
                    HasSubstr("No such file or directory (errno 2)")));
}

TEST(WriteFileAtomically, RemovesItsTemporaryFileWhenTheNameIsAFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "taken");
  EXPECT_THAT(config_error([&] { write_file_atomically(folder / "taken", "text"); }),
              HasSubstr("Is a directory"));
  EXPECT_EQ(entries(folder.path()), 1);
}

// A file system of one MiB, or none where mounting is not permitted.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& folder, const char* limits = "size=1m") : folder_(folder) {
    mounted_ = mount("longship-test", folder.c_str(), "tmpfs", 0, limits) == 0;
    if (!mounted_) reason_ = std::strerror(errno);
  }
  ~SmallDisk() {
    if (mounted_) umount(folder_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::string& reason() const { return reason_; }

 private:
  std::string folder_;
  std::string reason_;
  bool mounted_ = false;
};

TEST(WriteFileAtomically, KeepsTheOldFileOnAFullDiskAndTellsTheBytes) {
  const TemporaryFolder folder;
  const SmallDisk disk(folder.path().string());
  if (!disk.mounted()) GTEST_SKIP() << "a tmpfs cannot be mounted: " << disk.reason();
  write_file_atomically(folder / "x", "old");
  const std::string large(2 << 20, 'x');
  EXPECT_THAT(config_error([&] { write_file_atomically(folder / "x", large); }),
              AllOf(HasSubstr(folder / "x"), HasSubstr("No space left on device"),
                    HasSubstr("2097152 bytes are needed"), HasSubstr(" are free")));
  EXPECT_EQ(contents(folder / "x"), "old");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(WriteFileAtomically, TellsThatInodesAreOutWhereBytesAreFree) {
  const TemporaryFolder folder;
  const SmallDisk disk(folder.path().string(), "size=1m,nr_inodes=2");  // one is the folder's
  if (!disk.mounted()) GTEST_SKIP() << "a tmpfs cannot be mounted: " << disk.reason();
  write_file_atomically(folder / "x", "old");
  EXPECT_THAT(config_error([&] { write_file_atomically(folder / "y", "new"); }),
              AllOf(HasSubstr("No space left on device: 3 bytes are needed, "),
                    HasSubstr(" are free, and 0 inodes for files")));
}

TEST(ProbeWritable, LeavesNothingBehind) {
  const TemporaryFolder folder;
  probe_writable(folder.path().string());
  EXPECT_EQ(entries(folder.path()), 0);
}

TEST(ProbeWritable, NamesFolderHostAndReason) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(config_error([&] { probe_writable(folder / "file"); }),
              AllOf(HasSubstr("'" + (folder / "file") + "'"), HasSubstr("host " + host_name()),
                    HasSubstr("Not a directory (errno 20)")));
}

TEST(ProbeWritable, FindsAFolderOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(seteuid(kNobody), 0);
  const std::string message = config_error([&] { probe_writable(folder.path().string()); });
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_THAT(message, HasSubstr("Permission denied (errno 13)"));
}

TEST(TemporaryName, IsUniqueAndInTheSameFolder) {
  const std::string first = temporary_name("/a/b.json");
  EXPECT_EQ(std::filesystem::path(first).parent_path(), "/a");
  EXPECT_THAT(first, HasSubstr("/.tmp-"));
  EXPECT_NE(first, temporary_name("/a/b.json"));
}

}  // namespace
}  // namespace longship::runtime
