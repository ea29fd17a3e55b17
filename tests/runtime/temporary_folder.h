#pragma once

#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace longship::tests {

// A fresh folder for one test, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "longship-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// A file system of one MiB, or of other limits that tmpfs knows, mounted where the user may do so.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path, const char* limits = "size=1m") : path_(path) {
    std::filesystem::create_directory(path);
    mounted_ = ::mount("none", path.c_str(), "tmpfs", 0, limits) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount(path_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_;
};

}  // namespace longship::tests
