#include "runtime/checkpoint_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/manifest.h"

namespace longship::runtime {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kReplaced = ".replaced-";
constexpr std::string_view kRemoved = ".removed-";
constexpr int kStepDigits = 9;

// Also true for a link to nothing.
bool present(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool has_manifest(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kManifestFile, error);
}

// The name that a pointer (`latest`, `best`) holds; empty when it is not a link.
std::string pointer_target(const fs::path& pointer) {
  std::error_code error;
  return fs::read_symlink(pointer, error).string();
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) throw CheckpointError("cannot list " + folder + ": " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// The one of a checkpoints folder that is meant. `shown` is what the user gave.
std::string pick(const std::string& folder, Prefer prefer, const std::string& shown) {
  std::vector<const char*> pointers;
  if (prefer == Prefer::kBest) pointers.push_back("best");
  pointers.push_back("latest");
  for (const char* name : pointers) {
    const fs::path pointer = fs::path(folder) / name;
    if (has_manifest(pointer)) {
      std::error_code error;
      const fs::path target = fs::canonical(pointer, error);
      return error ? pointer.string() : target.string();
    }
    // A best that is gone is not quietly taken for another; `latest` is only a shortcut.
    if (present(pointer) && std::string_view(name) == "best") {
      throw CheckpointError(pointer.string() + " names " + pointer_target(pointer) +
                            ", which is not there or has no manifest; name a checkpoint of " +
                            folder + " instead");
    }
  }
  const CheckpointListing listing = list_checkpoints(folder);
  for (auto entry = listing.checkpoints.rbegin(); entry != listing.checkpoints.rend(); ++entry) {
    if (has_manifest(entry->path)) return entry->path;
  }
  throw CheckpointError(shown + " holds no checkpoint; expected a folder step-NNNNNNNNN with a " +
                        kManifestFile + " in " + folder);
}

bool looks_like_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) {
    return byte >= 0x20 || byte == '\n' || byte == '\r' || byte == '\t';
  });
}

std::string describe_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return "a file that cannot be opened";
  std::array<char, 64> buffer{};
  stream.read(buffer.data(), buffer.size());
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(stream.gcount()));
  if (bytes.empty()) return "an empty file";
  if (bytes.starts_with("PK\x03\x04")) return "a ZIP archive, such as a PyTorch .pt file";
  if (bytes.starts_with("\x89HDF\r\n\x1a\n")) return "an HDF5 file";
  if (bytes.size() > 9 && bytes[8] == '{' && bytes.substr(9).find('"') != std::string_view::npos) {
    return "a safetensors file, which holds weights only";
  }
  // A pickle begins with its protocol's number, 2 to 5.
  if (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) {
    return "a Python pickle, such as an old PyTorch .pt file";
  }
  return looks_like_text(bytes) ? "a text file" : "a file of unknown kind";
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kStepDigits) digits.insert(0, kStepDigits - digits.size(), '0');
  return std::string(kStep) + digits;
}

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStep) || name.size() < kStep.size() + kStepDigits) return std::nullopt;
  const std::string_view digits = name.substr(kStep.size());
  int64_t step = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (digits.front() == '-' || result.ec != std::errc() ||
      result.ptr != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return step;
}

CheckpointListing list_checkpoints(const std::string& folder) {
  CheckpointListing listing;
  const std::string latest = pointer_target(fs::path(folder) / "latest");
  const std::string best = pointer_target(fs::path(folder) / "best");
  for (const std::string& name : names_in(folder)) {
    if (const std::optional<int64_t> step = step_of(name)) {
      listing.checkpoints.push_back(
          {name, (fs::path(folder) / name).string(), *step, name == latest, name == best});
    } else if (name.starts_with(kStep)) {
      listing.set_aside.push_back(name);
    } else if (name.starts_with(kPartial) || name.starts_with(kReplaced) ||
               name.starts_with(kRemoved)) {
      listing.leftovers.push_back(name);
    }
  }
  std::stable_sort(
      listing.checkpoints.begin(), listing.checkpoints.end(),
      [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step < b.step; });
  return listing;
}

std::string resolve_checkpoint(const std::string& path, Prefer prefer) {
  const std::string expected = "expected a run folder or a checkpoint folder (step-NNNNNNNNN)";
  std::error_code error;
  const fs::path given = fs::canonical(path, error);
  if (error) {
    const std::string target = pointer_target(path);
    throw CheckpointError(expected + "; " + path +
                          (target.empty() ? " cannot be opened: " + error.message()
                                          : " is a link to " + target + ", which is not there"));
  }
  if (has_manifest(given)) return given.string();
  if (fs::is_directory(given / "checkpoints", error)) {
    return pick((given / "checkpoints").string(), prefer, path);
  }
  if (given.filename() == "checkpoints") return pick(given.string(), prefer, path);
  if (step_of(given.filename().string())) {
    throw CheckpointError(path + " has no " + kManifestFile +
                          ": it is a checkpoint that was not written to its end");
  }
  throw CheckpointError(expected + "; " + path + " is " + describe_path(path));
}

std::string problem_with_latest(const std::string& path) {
  std::error_code error;
  const fs::path inner = fs::path(path) / "checkpoints";
  const fs::path folder = fs::is_directory(inner, error) ? inner : fs::path(path);
  const fs::path latest = folder / "latest";
  if (!present(latest)) return "";
  const std::string target = pointer_target(latest);
  const std::string named =
      latest.string() + (target.empty() ? "" : " names " + target + ", which");
  constexpr const char* kCopes =
      "; a training takes the newest checkpoint of the run that is whole, and writes the link anew";
  if (!has_manifest(latest)) return named + " is not there or has no " + kManifestFile + kCopes;
  const fs::path found = fs::canonical(latest, error);
  if (error || found.parent_path() == fs::canonical(folder, error)) return "";
  return named + " is not of this run" + kCopes;
}

std::string describe_path(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  switch (status.type()) {
    case fs::file_type::regular:
      return describe_file(path);
    case fs::file_type::directory:
      return fs::is_empty(path, error) ? "an empty folder"
                                       : "a folder without checkpoints and without a manifest";
    case fs::file_type::not_found:
      return "not there";
    default:
      return "neither a file nor a folder";
  }
}

std::vector<int64_t> expired_steps(std::vector<int64_t> steps, int64_t keep,
                                   const std::set<int64_t>& protected_steps) {
  std::vector<int64_t> expired;
  if (keep <= 0) return expired;
  std::sort(steps.begin(), steps.end());
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i) {
    if (!protected_steps.contains(steps[i])) expired.push_back(steps[i]);
  }
  return expired;
}

std::string set_aside(FileOps& files, const std::string& path, const std::string& reason) {
  const std::string first = path + "." + reason;
  std::string target = first;
  for (int number = 2; present(target); ++number) target = first + "-" + std::to_string(number);
  rename_path(files, path, target);
  sync_folder(files, fs::path(path).parent_path().string());
  return target;
}

void remove_checkpoint(FileOps& files, const std::string& folder, const std::string& name) {
  const std::string doomed = folder + "/" + std::string(kRemoved) + name + "-" + nonce();
  rename_path(files, folder + "/" + name, doomed);
  remove_tree(files, doomed);
}

void publish_checkpoint(FileOps& files, const std::string& folder,
                        const std::string& temporary_name, const std::string& final_name) {
  const std::string final_path = folder + "/" + final_name;
  std::string replaced;
  if (present(final_path)) {
    replaced = folder + "/" + std::string(kReplaced) + final_name + "." + nonce();
    rename_path(files, final_path, replaced);
  }
  rename_path(files, folder + "/" + temporary_name, final_path);
  sync_folder(files, folder);
  if (!replaced.empty()) remove_tree(files, replaced);
}

std::vector<std::string> tidy_folder(FileOps& files, const std::string& folder) {
  std::vector<std::string> messages;
  for (const std::string& name : list_checkpoints(folder).leftovers) {
    const std::string path = folder + "/" + name;
    if (name.starts_with(kReplaced)) {
      const std::string original =
          name.substr(kReplaced.size(), name.find('.', kReplaced.size()) - kReplaced.size());
      if (step_of(original) && !present(folder + "/" + original)) {
        rename_path(files, path, folder + "/" + original);
        messages.push_back("restored " + original +
                           ", whose replacement was not written to its end");
        continue;
      }
    }
    remove_tree(files, path);
    messages.push_back("removed " + path + ", left by a job that was interrupted");
  }
  if (!messages.empty()) sync_folder(files, folder);
  return messages;
}

}  // namespace longship::runtime
