#include "runtime/manifest.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "runtime/checkpoint_state.h"

namespace longship::runtime {

namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "longship-checkpoint";
// The last member, after the text that it is the hash of. This stays so in every version, so that a
// newer checkpoint can be told from a damaged one.
constexpr std::string_view kHashHead = ",\n  \"xxh3\": \"";
constexpr std::string_view kHashTail = "\"\n}\n";
constexpr std::size_t kHashDigits = 16;

std::string hash_member(std::string_view body) {
  return std::string(kHashHead) + hash_text(xxh3(body.data(), body.size())) +
         std::string(kHashTail);
}

json tensor_json(const Manifest::Tensor& tensor) {
  return {{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", tensor.dtype}};
}

Manifest::Tensor tensor_from(const json& value) {
  return {value.at("name"), value.at("shape"), value.at("dtype")};
}

uint64_t hash_from(const std::string& text) {
  uint64_t hash = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, hash, 16);
  if (text.size() != kHashDigits || result.ptr != end || result.ec != std::errc()) {
    throw DamagedError("'" + text + "' is not a hash");
  }
  return hash;
}

// Files lie in the checkpoint's own folder; a name never leads out of it.
std::string file_name_from(const json& value) {
  std::string name = value;
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    throw DamagedError("'" + name + "' is not the name of a file in the checkpoint");
  }
  return name;
}

void read_optimizer(const json& value, Manifest& manifest) {
  for (const json& entry : value.at("tensors")) {
    manifest.optimizer.push_back(
        {entry.at("parameter"), entry.at("state"), entry.at("shape"), entry.at("dtype")});
  }
  for (const json& piece : value.at("pieces")) {
    manifest.pieces.push_back({piece.at("parameter"), piece.at("state"), piece.at("begin"),
                               piece.at("end"), file_name_from(piece.at("file")), piece.at("key")});
  }
}

Manifest manifest_from(const json& value) {
  Manifest manifest;
  manifest.step = value.at("step");
  manifest.applied = value.at("applied");
  manifest.created = value.at("created");
  manifest.world_size = value.at("world_size");
  manifest.versions = value.at("versions").get<std::map<std::string, std::string>>();
  for (const json& file : value.at("files")) {
    manifest.files.push_back({file_name_from(file.at("name")),
                              {file.at("bytes").get<uint64_t>(), hash_from(file.at("xxh3"))}});
  }
  if (value.contains("extra")) {
    for (const json& tensor : value["extra"]) manifest.extra.push_back(tensor_from(tensor));
  }
  if (value.contains("weights")) {
    for (const json& tensor : value["weights"]) manifest.weights.push_back(tensor_from(tensor));
  } else {
    manifest.missing.emplace_back("weights");
  }
  if (value.contains("optimizer")) {
    read_optimizer(value["optimizer"], manifest);
  } else {
    manifest.missing.emplace_back("optimizer");
  }
  if (value.contains("scalars")) manifest.scalars = value["scalars"];
  for (const std::string& section : required_sections()) {
    if (!manifest.scalars.contains(section)) manifest.missing.push_back(section);
  }
  return manifest;
}

// The hash over the text of the whole, if its last member is one.
bool intact(std::string_view text) {
  const std::size_t member = kHashHead.size() + kHashDigits + kHashTail.size();
  if (text.size() < member) return false;
  return text.substr(text.size() - member) == hash_member(text.substr(0, text.size() - member));
}

}  // namespace

int64_t Manifest::OptimizerTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

uint64_t Manifest::total_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files) bytes += file.digest.bytes;
  return bytes;
}

std::string manifest_text(const Manifest& manifest) {
  json files = json::array();
  for (const Manifest::File& file : manifest.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.digest.bytes}, {"xxh3", hash_text(file.digest.xxh3)}});
  }
  json weights = json::array();
  for (const Manifest::Tensor& tensor : manifest.weights) weights.push_back(tensor_json(tensor));
  json extra = json::array();
  for (const Manifest::Tensor& tensor : manifest.extra) extra.push_back(tensor_json(tensor));
  json optimizer = {{"tensors", json::array()}, {"pieces", json::array()}};
  for (const Manifest::OptimizerTensor& entry : manifest.optimizer) {
    optimizer["tensors"].push_back({{"parameter", entry.parameter},
                                    {"state", entry.state},
                                    {"shape", entry.shape},
                                    {"dtype", entry.dtype}});
  }
  for (const Manifest::Piece& piece : manifest.pieces) {
    optimizer["pieces"].push_back({{"parameter", piece.parameter},
                                   {"state", piece.state},
                                   {"begin", piece.begin},
                                   {"end", piece.end},
                                   {"file", piece.file},
                                   {"key", piece.key}});
  }
  const nlohmann::ordered_json value = {{"format", kFormat},
                                        {"version", kManifestVersion},
                                        {"step", manifest.step},
                                        {"applied", manifest.applied},
                                        {"created", manifest.created},
                                        {"world_size", manifest.world_size},
                                        {"versions", manifest.versions},
                                        {"files", files},
                                        {"weights", weights},
                                        {"extra", extra},
                                        {"optimizer", optimizer},
                                        {"scalars", manifest.scalars}};
  std::string text = value.dump(2);
  text.resize(text.size() - 2);  // without the last "\n}", which the hash's member brings
  return text + hash_member(text);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded() || !value.is_object() || value.value("format", json()) != kFormat) {
    throw DamagedError(path + " is not the manifest of a Longship checkpoint");
  }
  if (!intact(text)) {
    throw DamagedError(path + " was changed after it was written: its hash does not match");
  }
  try {
    const int64_t version = value.at("version");
    if (version > kManifestVersion) {
      const json versions = value.value("versions", json::object());
      throw RefusedError(path + " has format version " + std::to_string(version) +
                         " (written by Longship " +
                         versions.value("longship", "of unknown version") +
                         "); this Longship " LONGSHIP_VERSION " reads up to version " +
                         std::to_string(kManifestVersion) + ": use a newer one");
    }
    if (version < 1) {
      throw RefusedError(path + " has format version " + std::to_string(version) +
                         "; this Longship " LONGSHIP_VERSION " reads version " +
                         std::to_string(kManifestVersion));
    }
    return manifest_from(value);
  } catch (const json::exception& error) {
    throw DamagedError(path + " is not a valid manifest: " + error.what());
  } catch (const DamagedError& error) {
    throw DamagedError(path + " is not a valid manifest: " + error.what());
  }
}

void require_parts(const Manifest& manifest, const std::vector<std::string>& needed,
                   const std::string& path) {
  std::string names;
  for (const std::string& part : manifest.missing) {
    if (std::find(needed.begin(), needed.end(), part) == needed.end()) continue;
    names += (names.empty() ? "'" : ", '") + part + "'";
  }
  if (!names.empty()) {
    throw RefusedError(path + " lacks " + names +
                       ", without which it cannot be used; take another checkpoint");
  }
}

std::vector<std::string> uncovered_optimizer(const Manifest& manifest) {
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<int64_t, int64_t>>> ranges;
  for (const Manifest::Piece& piece : manifest.pieces) {
    ranges[{piece.parameter, piece.state}].emplace_back(piece.begin, piece.end);
  }
  std::vector<std::string> problems;
  for (const Manifest::OptimizerTensor& entry : manifest.optimizer) {
    auto& covered = ranges[{entry.parameter, entry.state}];
    std::sort(covered.begin(), covered.end());
    int64_t next = 0;
    bool joined = true;
    for (const auto& [begin, end] : covered) {
      joined = begin == next && end >= begin;
      if (!joined) break;
      next = end;
    }
    if (!joined || next != entry.elements()) {
      problems.push_back("the optimizer's " + entry.state + " of " + entry.parameter +
                         " should have " + std::to_string(entry.elements()) +
                         " elements; its pieces leave off or overlap at element " +
                         std::to_string(next));
    }
    ranges.erase({entry.parameter, entry.state});
  }
  for (const auto& [name, unknown] : ranges) {
    problems.push_back("there are pieces of an optimizer tensor " + name.second + " of " +
                       name.first + " that is not listed");
  }
  return problems;
}

}  // namespace longship::runtime
