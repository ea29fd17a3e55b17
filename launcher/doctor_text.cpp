#include "launcher/doctor_text.h"

#include <algorithm>
#include <cstddef>
#include <iomanip>
#include <set>
#include <sstream>
#include <vector>

namespace longship::launcher {
namespace {

using nlohmann::json;

std::string text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : value.dump();
}

// Columns as wide as their widest cell; text to the left.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.at(0).size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::ostringstream out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += "  " + row[i] + std::string(widths[i] - row[i].size(), ' ');
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }
  return out.str();
}

std::string versions(const json& facts) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, label] :
       std::vector<std::pair<std::string, std::string>>{{"libtorch", "LibTorch"},
                                                        {"mpi", "MPI"},
                                                        {"hdf5", "HDF5"},
                                                        {"nccl", "NCCL"},
                                                        {"cuda", "CUDA runtime"},
                                                        {"cudnn", "cuDNN"},
                                                        {"driver", "NVIDIA driver"},
                                                        {"driver_cuda", "driver's CUDA"}}) {
    const std::string value = text(facts.at("versions").at(key));
    rows.push_back({label, value.empty() ? "none" : value});
  }
  std::string usable;
  for (const json& filter : facts.at("filters")) {
    if (!filter.at("usable").get<bool>()) continue;
    if (!usable.empty()) usable += ", ";
    usable += text(filter.at("name"));
  }
  rows.push_back({"HDF5 filters", usable});
  return "Longship " + text(facts.at("versions").at("longship")) + "\n" + table(rows);
}

std::string hosts(const json& ranks) {
  std::ostringstream out;
  std::set<int> seen;
  for (const json& facts : ranks) {
    const int node = facts.at("node").get<int>();
    if (!seen.insert(node).second) continue;
    const json& memory = facts.at("shared_memory");
    out << "\nHost " << text(facts.at("host")) << " (node " << node
        << "): " << facts.at("local_size").get<int>() << " rank(s), /dev/shm "
        << (memory.is_null() ? "not mounted" : text(memory.at("total_mib")) + " MiB") << "\n";
    std::vector<std::vector<std::string>> rows;
    int index = 0;
    for (const json& gpu : facts.at("gpus")) {
      std::ostringstream gib;
      gib << std::fixed << std::setprecision(1) << gpu.at("memory_gib").get<double>() << " GiB";
      rows.push_back({"GPU " + std::to_string(index++),
                      text(gpu.at("name")) + ", compute capability " +
                          text(gpu.at("compute_capability")) + ", " + gib.str()});
    }
    if (rows.empty()) rows.push_back({"GPU", "none visible"});
    for (const json& interface : facts.at("interfaces")) {
      rows.push_back({"network", text(interface.at("name")) + " " + text(interface.at("address"))});
    }
    for (const auto& [name, value] : facts.at("environment").items()) {
      rows.push_back({"variable", name + "=" + text(value)});
    }
    if (const json& job = facts.at("slurm"); job.is_object()) {
      rows.push_back({"Slurm job", text(job.at("job_id")) + " on " + text(job.at("node_list")) +
                                       ", nodes " + text(job.at("nodes")) + ", tasks " +
                                       text(job.at("tasks")) + ", CPUs per task " +
                                       text(job.at("cpus_per_task")) + ", restarts " +
                                       text(job.at("restarts"))});
    }
    out << table(rows);
  }
  return out.str();
}

std::string binding(const json& report) {
  std::vector<std::vector<std::string>> rows{
      {"rank", "host", "local", "device", "CPUs", "threads"}};
  const json& devices = report.at("binding");
  for (size_t r = 0; r < report.at("ranks").size(); ++r) {
    const json& facts = report.at("ranks").at(r);
    rows.push_back({std::to_string(r), text(facts.at("host")), text(facts.at("local_rank")),
                    devices.empty() ? "?" : text(devices.at(r)), text(facts.at("cpus").at("list")),
                    text(facts.at("cpus").at("threads"))});
  }
  return "\nRanks\n" + table(rows);
}

void list(std::ostringstream& out, const std::string& title, const json& lines) {
  if (lines.empty()) return;
  out << "\n" << title << "\n";
  for (const json& line : lines) out << "  - " << text(line) << "\n";
}

}  // namespace

std::string doctor_text(const json& report) {
  std::ostringstream out;
  out << versions(report.at("ranks").at(0)) << hosts(report.at("ranks")) << binding(report);
  if (const json& done = report.at("all_reduce"); done.is_object()) {
    out << "\nAll-reduce over " << text(done.at("backend")) << " on " << text(done.at("device"))
        << ": " << std::fixed << std::setprecision(2) << done.at("milliseconds").get<double>()
        << " ms\n";
  }
  if (const std::string line = text(report.at("mpirun")); !line.empty()) {
    out << "\nTo start training on this machine\n  longship launch -- train CONFIG\nwhich runs\n  "
        << line << "\n";
  }
  list(out, "Warnings", report.at("warnings"));
  list(out, "Problems: training cannot start", report.at("problems"));
  if (report.at("ok").get<bool>()) out << "\nTraining can start.\n";
  return out.str();
}

}  // namespace longship::launcher
