#include "runtime/checkpoint_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.h"

namespace longship::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using tests::TemporaryFolder;

// Writes at most three bytes at a time, with an interruption before each.
class Dribble : public FileOps {
 public:
  ssize_t write(int descriptor, const void* data, std::size_t bytes) override {
    interrupted_ = !interrupted_;
    if (interrupted_) {
      errno = EINTR;
      return -1;
    }
    return FileOps::write(descriptor, data, std::min<std::size_t>(bytes, 3));
  }

 private:
  bool interrupted_ = false;
};

class FullDisk : public FileOps {
 public:
  ssize_t write(int, const void*, std::size_t) override {
    errno = ENOSPC;
    return -1;
  }
};

class NoFlush : public FileOps {
 public:
  explicit NoFlush(int error) : error_(error) {}
  int fsync(int) override {
    errno = error_;
    return -1;
  }

 private:
  int error_;
};

std::string read_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(CheckpointFiles, HashesWhatItWritesAcrossShortAndInterruptedWrites) {
  const TemporaryFolder folder;
  Dribble files;
  HashingFile file(files, folder / "a", 11);
  file.write("hello ", 6);
  file.write("world", 5);
  EXPECT_EQ(file.finish(), (FileDigest{11, xxh3("hello world", 11)}));
  EXPECT_EQ(read_text(folder / "a"), "hello world");
}

TEST(CheckpointFiles, HashIsXxh3) {
  // From the reference implementation's command line: printf '' | xxhsum -H3
  EXPECT_EQ(hash_text(xxh3("", 0)), "2d06800538d394c2");
  EXPECT_EQ(hash_text(0x1a), "000000000000001a");
}

TEST(CheckpointFiles, DigestOfAFileLargerThanOnePiece) {
  const TemporaryFolder folder;
  FileOps files;
  std::string text(std::size_t{9} << 20, 'x');
  for (std::size_t i = 0; i < text.size(); i += 4097) text[i] = static_cast<char>(i % 251);
  write_text_file(files, folder / "a", text);
  EXPECT_EQ(InputFile(folder / "a").digest(),
            (FileDigest{text.size(), xxh3(text.data(), text.size())}));
}

TEST(CheckpointFiles, FullDiskNamesPathNeededAndFreeBytes) {
  const TemporaryFolder folder;
  FullDisk files;
  EXPECT_THAT(
      [&] { write_text_file(files, folder / "a", "12345"); },
      ThrowsMessage<CheckpointError>(AllOf(
          HasSubstr(folder / "a"), HasSubstr("No space left on device"), HasSubstr("needs 5 bytes"),
          HasSubstr("are free"), HasSubstr("free some space or inodes, or use"))));
}

TEST(CheckpointFiles, FailureToFlushIsAnError) {
  const TemporaryFolder folder;
  NoFlush files(EIO);
  EXPECT_THAT([&] { write_text_file(files, folder / "a", "1"); },
              ThrowsMessage<CheckpointError>(HasSubstr("cannot flush")));
  EXPECT_THAT([&] { sync_folder(files, folder.path().string()); },
              ThrowsMessage<CheckpointError>(HasSubstr("cannot flush the folder")));
}

TEST(CheckpointFiles, FileSystemsThatCannotFlushFoldersAreLeftBe) {
  const TemporaryFolder folder;
  NoFlush files(EINVAL);
  EXPECT_NO_THROW(sync_folder(files, folder.path().string()));
}

TEST(CheckpointFiles, ReadingPastTheEndIsDamage) {
  const TemporaryFolder folder;
  FileOps files;
  write_text_file(files, folder / "a", "12345");
  const InputFile file(folder / "a");
  EXPECT_EQ(file.size(), 5U);
  std::string text(3, ' ');
  file.read(2, text.data(), 3);
  EXPECT_EQ(text, "345");
  EXPECT_THAT([&] { file.read(3, text.data(), 3); },
              ThrowsMessage<DamagedError>(HasSubstr("ends at byte 5, 1 bytes early")));
}

TEST(CheckpointFiles, FoldersAndPipesAreNotReadAsFiles) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder / "pipe", folder.path().string()}) {
    EXPECT_THAT([&] { InputFile file(path); },
                ThrowsMessage<CheckpointError>(HasSubstr("is not a regular file")));
  }
}

TEST(CheckpointFiles, RemovesATreeButNotWhatItsLinksName) {
  const TemporaryFolder folder;
  FileOps files;
  fs::create_directories(folder.path() / "tree/sub");
  write_text_file(files, folder / "tree/sub/file", "1");
  write_text_file(files, folder / "kept", "2");
  fs::create_symlink(folder / "kept", folder.path() / "tree/link");
  remove_tree(files, folder / "tree");
  remove_tree(files, folder / "not there");
  EXPECT_FALSE(fs::exists(folder.path() / "tree"));
  EXPECT_EQ(read_text(folder / "kept"), "2");
}

TEST(CheckpointFiles, ReplacesALinkWhateverIsThere) {
  const TemporaryFolder folder;
  FileOps files;
  const std::string root = folder.path().string();
  const auto target = [&] { return fs::read_symlink(folder.path() / "latest").string(); };

  replace_link(files, root, "latest", "step-1");
  EXPECT_EQ(target(), "step-1");
  replace_link(files, root, "latest", "step-2");  // over a link to nothing
  EXPECT_EQ(target(), "step-2");
  fs::remove(folder.path() / "latest");
  write_text_file(files, folder / "latest", "garbage");
  replace_link(files, root, "latest", "step-3");  // over a file
  EXPECT_EQ(target(), "step-3");
  fs::remove(folder.path() / "latest");
  fs::create_directories(folder.path() / "latest");
  write_text_file(files, folder / "latest/manifest.json", "copied");
  replace_link(files, root, "latest", "step-4");  // over a folder
  EXPECT_EQ(target(), "step-4");
  EXPECT_EQ(std::distance(fs::directory_iterator(root), fs::directory_iterator()), 1);
}

TEST(CheckpointFiles, NoncesDiffer) {
  EXPECT_EQ(nonce().size(), 16U);
  EXPECT_NE(nonce(), nonce());
}

}  // namespace
}  // namespace longship::runtime
