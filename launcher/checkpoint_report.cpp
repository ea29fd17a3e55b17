#include "launcher/checkpoint_report.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "runtime/checkpoint_folder.h"
#include "runtime/checkpoint_reader.h"
#include "runtime/error.h"

namespace longship::launcher {

namespace {

using nlohmann::json;
using runtime::Manifest;

// "12.3 MB": powers of 1000, as disks are sold and df -H shows.
std::string size_text(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// Strings without quotes, a text of several lines by their number.
std::string value_text(const json& value) {
  if (!value.is_string()) return value.dump();
  const std::string text = value;
  const auto lines = std::count(text.begin(), text.end(), '\n');
  return lines > 1 ? std::to_string(lines) + " lines (shown by --json)" : text;
}

// A section's members, one a line, nested ones joined by dots.
std::string section_text(const json& value, const std::string& prefix) {
  if (!value.is_object()) return "  " + padded(prefix, 26) + value_text(value) + "\n";
  std::string text;
  for (const auto& [key, member] : value.items()) {
    text += section_text(member, prefix.empty() ? key : prefix + "." + key);
  }
  return text;
}

json tensors_json(const std::vector<Manifest::Tensor>& tensors) {
  json result = json::array();
  for (const Manifest::Tensor& tensor : tensors) {
    result.push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", tensor.dtype}});
  }
  return result;
}

std::string shape_text(const json& tensor) {
  return tensor["dtype"].get<std::string>() + " " + tensor["shape"].dump();
}

std::string field(const std::string& name, const std::string& value) {
  return padded(name, 14) + value + "\n";
}

}  // namespace

json list_report(const std::string& checkpoints_folder) {
  const runtime::CheckpointListing listing = runtime::list_checkpoints(checkpoints_folder);
  json report = {{"folder", checkpoints_folder},
                 {"checkpoints", json::array()},
                 {"set_aside", listing.set_aside}};
  for (const runtime::CheckpointEntry& entry : listing.checkpoints) {
    json item = {{"name", entry.name},
                 {"path", entry.path},
                 {"step", entry.step},
                 {"latest", entry.latest},
                 {"best", entry.best}};
    try {
      const Manifest manifest = runtime::read_manifest(entry.path);
      item["step"] = manifest.step;
      item["applied"] = manifest.applied;
      item["created"] = manifest.created;
      item["bytes"] = manifest.total_bytes();
      item["files"] = manifest.files.size();
    } catch (const runtime::CheckpointError& error) {
      item["problem"] = error.what();
    }
    report["checkpoints"].push_back(std::move(item));
  }
  return report;
}

std::string list_text(const json& report) {
  if (report["checkpoints"].empty() && report["set_aside"].empty()) {
    return "no checkpoints in " + report["folder"].get<std::string>() + "\n";
  }
  std::string text = padded("name", 18) + padded("step", 12) + padded("applied", 12) +
                     padded("size", 11) + "written (UTC)\n";
  for (const json& item : report["checkpoints"]) {
    std::string line = padded(item["name"], 18) + padded(item["step"].dump(), 12);
    if (item.contains("problem")) {
      line += item["problem"].get<std::string>();
    } else {
      line += padded(item["applied"].dump(), 12) +
              padded(size_text(item["bytes"].get<uint64_t>()), 11) + padded(item["created"], 22);
    }
    if (item["latest"]) line += " latest";
    if (item["best"]) line += " best";
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  for (const json& name : report["set_aside"]) {
    text += name.get<std::string>() + "  set aside\n";
  }
  return text;
}

json inspect_report(const std::string& checkpoint) {
  const Manifest manifest = runtime::read_manifest(checkpoint);
  json files = json::array();
  for (const Manifest::File& file : manifest.files) {
    files.push_back({{"name", file.name},
                     {"bytes", file.digest.bytes},
                     {"xxh3", runtime::hash_text(file.digest.xxh3)}});
  }
  json optimizer = json::array();
  for (const Manifest::OptimizerTensor& entry : manifest.optimizer) {
    optimizer.push_back({{"parameter", entry.parameter},
                         {"state", entry.state},
                         {"shape", entry.shape},
                         {"dtype", entry.dtype}});
  }
  json report = {{"checkpoint", checkpoint},
                 {"step", manifest.step},
                 {"applied", manifest.applied},
                 {"created", manifest.created},
                 {"world_size", manifest.world_size},
                 {"versions", manifest.versions},
                 {"bytes", manifest.total_bytes()},
                 {"files", files},
                 {"weights", tensors_json(manifest.weights)},
                 {"optimizer", optimizer},
                 {"extra", tensors_json(manifest.extra)},
                 {"scalars", manifest.scalars}};
  if (!manifest.missing.empty()) report["missing"] = manifest.missing;
  return report;
}

std::string inspect_text(const json& report) {
  std::string text =
      field("checkpoint", report["checkpoint"]) + field("step", report["step"].dump()) +
      field("applied", report["applied"].dump()) +
      field("written",
            report["created"].get<std::string>() + " by " + report["world_size"].dump() + " ranks");
  for (const auto& [name, version] : report["versions"].items()) text += field(name, version);
  if (report.contains("missing")) {
    text += field("missing", report["missing"].dump() + ": a training cannot go on from it");
  }
  for (const auto& [name, section] : report["scalars"].items()) {
    text += "\n" + name + "\n" + section_text(section, "");
  }
  text += "\nweights\n";
  for (const json& tensor : report["weights"]) {
    text += "  " + padded(tensor["name"], 40) + " " + shape_text(tensor) + "\n";
  }
  text += "\noptimizer\n";
  for (const json& entry : report["optimizer"]) {
    text += "  " + padded(entry["parameter"], 40) + " " + padded(entry["state"], 16) +
            shape_text(entry) + "\n";
  }
  if (!report["extra"].empty()) text += "\nextra\n";
  for (const json& tensor : report["extra"]) {
    text += "  " + padded(tensor["name"], 40) + " " + shape_text(tensor) + "\n";
  }
  text += "\nfiles, " + size_text(report["bytes"].get<uint64_t>()) + "\n";
  for (const json& file : report["files"]) {
    text += "  " + padded(file["name"], 40) + " " + size_text(file["bytes"].get<uint64_t>()) + "\n";
  }
  return text;
}

}  // namespace longship::launcher
