#include <ATen/Functions.h>

#include <chrono>
#include <cxxopts.hpp>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "comm/error.h"
#include "comm/host_name.h"
#include "comm/local_communicator.h"
#include "comm/text_collectives.h"
#include "data/error.h"
#include "data/series_store.h"
#include "launcher/arguments.h"
#include "launcher/command.h"
#include "launcher/device_binding.h"
#include "launcher/doctor_checks.h"
#include "launcher/doctor_facts.h"
#include "launcher/doctor_text.h"
#include "launcher/mpirun_command.h"
#include "launcher/parallel_command.h"
#include "launcher/session.h"
#include "runtime/agreement.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

using nlohmann::json;
using std::chrono::seconds;

struct DoctorOptions {
  bool json = false;
  std::string data;  // "": none
  seconds timeout{60};
};

std::string to_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Each rank's value on every rank.
std::vector<json> gather(Session& session, const json& own) {
  std::vector<json> all;
  for (const std::string& line : comm::all_gather_text(*session.host, to_line(own))) {
    all.push_back(json::parse(line));
  }
  return all;
}

// A sum that every rank knows beforehand, over the communicator that training would use.
json try_all_reduce(Session& session, seconds timeout) {
  try {
    connect_devices(session, "auto", timeout);
    const int ranks = session.gradients->size();
    const at::Tensor values =
        at::full({1024}, session.gradients->rank() + 1,
                 at::TensorOptions().dtype(at::kFloat).device(session.device));
    // The first one also opens connections; it is not what the time is about.
    session.gradients->all_reduce(at::zeros_like(values), comm::ReduceOp::kSum);
    const auto start = std::chrono::steady_clock::now();
    session.gradients->all_reduce(values, comm::ReduceOp::kSum);
    const float sum = values.min().item<float>();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    const int sum_of_ranks = ranks * (ranks + 1) / 2;
    const auto expected = static_cast<float>(sum_of_ranks);
    if (sum != expected) {
      return {{"error", "the all-reduce gave " + std::to_string(sum) + " instead of " +
                            std::to_string(expected)}};
    }
    return {{"backend", session.gradients->backend()},
            {"device", session.device.str()},
            {"milliseconds", took.count()}};
  } catch (const runtime::AgreedError& error) {
    return {{"error_of_all", error.what()}};
  } catch (const std::exception& error) {
    return {{"error", runtime::message_of(error)}};
  }
}

// Whether this host can read the data; one rank a host tries.
json try_data(const Session& session, const std::string& path) {
  if (path.empty() || session.local_rank != 0) return "";
  try {
    data::read_series({path}, "", {});
    return "";
  } catch (const std::exception& error) {
    return runtime::message_of(error);
  }
}

void add_errors(const std::vector<json>& ranks, const std::vector<json>& errors,
                Findings& findings) {
  for (size_t r = 0; r < errors.size(); ++r) {
    const std::string error = errors[r].get<std::string>();
    if (error.empty()) continue;
    findings.problems.push_back("Rank " + std::to_string(r) + " on host " +
                                ranks[r].at("host").get<std::string>() + ": " + error);
  }
}

json binding(const std::vector<json>& ranks) {
  std::vector<RankDevices> devices;
  devices.reserve(ranks.size());
  for (const json& rank : ranks) {
    devices.push_back(devices_of(rank.at("devices")));
  }
  json names = json::array();
  for (const int index : choose_devices(devices, false)) {
    names.push_back(index < 0 ? "cpu" : "cuda:" + std::to_string(index));
  }
  return names;
}

// The mpirun line for this machine. Runs a process, so only where MPI has not started.
std::string mpirun_line(Findings& findings) {
  LaunchOptions options;
  options.program_arguments = {"train", "CONFIG"};
  try {
    return shell_quoted(mpirun_command(options, this_machine(true), find_mpirun("mpirun"),
                                       std::filesystem::read_symlink("/proc/self/exe")));
  } catch (const runtime::Error& error) {
    findings.warnings.emplace_back(error.what());
    return "";
  }
}

// The same findings on every rank: all of it follows from what was gathered.
json examine(Session& session, const DoctorOptions& options, Findings findings) {
  const bool guarded = !findings.problems.empty();  // MPI does not fit the launcher: no ranks
  const std::string mpi_library =
      session.mpi ? session.mpi->library_version() : built_mpi_library();
  const std::vector<json> ranks = gather(session, doctor_facts(session, mpi_library));
  const Findings found = doctor_checks(ranks);
  findings.problems.insert(findings.problems.end(), found.problems.begin(), found.problems.end());
  findings.warnings.insert(findings.warnings.end(), found.warnings.begin(), found.warnings.end());
  add_errors(ranks, gather(session, try_data(session, options.data)), findings);

  json report{{"ranks", ranks}, {"binding", json::array()}, {"all_reduce", nullptr}};
  if (findings.problems.empty()) {
    report["binding"] = binding(ranks);
    const json own = try_all_reduce(session, options.timeout);
    try {
      std::vector<json> errors;
      for (const json& outcome : gather(session, own)) errors.push_back(outcome.value("error", ""));
      add_errors(ranks, errors, findings);
    } catch (const comm::CommError& error) {  // the network that was to be tried carries no answer
      findings.problems.push_back(own.value("error", std::string(error.what())));
    }
    if (own.contains("error_of_all")) {
      findings.problems.push_back(own.at("error_of_all").get<std::string>());
    } else if (!own.contains("error")) {
      report["all_reduce"] = own;
    }
  }
  report["mpirun"] = session.mpi == nullptr && !guarded ? mpirun_line(findings) : "";
  report["problems"] = findings.problems;
  report["warnings"] = findings.warnings;
  report["ok"] = findings.problems.empty();
  return report;
}

// A session of this process alone, for what can be said when MPI cannot be used.
std::unique_ptr<Session> session_alone() {
  auto session = std::make_unique<Session>();
  session->host = comm::make_local_communicator();
  session->host_name = comm::host_name();
  return session;
}

int run(const DoctorOptions& options) {
  Findings findings;
  std::unique_ptr<Session> session;
  bool leader = rank_by_environment() == 0;
  try {
    session = start_session(options.timeout);
    leader = session->host->rank() == 0;
  } catch (const comm::CommError& error) {
    findings.problems.emplace_back(error.what());
    session = session_alone();
  }
  const json report = examine(*session, options, findings);
  if (leader) {
    std::cout << (options.json ? report.dump(2, ' ', false, json::error_handler_t::replace) + "\n"
                               : doctor_text(report))
              << std::flush;
  }
  return static_cast<int>(report.at("ok").get<bool>() ? runtime::ExitCode::kDone
                                                      : runtime::ExitCode::kSetup);
}

cxxopts::Options option_table() {
  cxxopts::Options table(
      "longship doctor",
      "Says what this machine, or all hosts of an mpirun, offer for training and what is missing.\n"
      "Example: mpirun -n 4 longship doctor");
  table.add_options()                                    //
      ("json", "print one JSON object instead of text")  //
      ("data", "also try to read this file, folder or glob on every host",
       cxxopts::value<std::string>(), "PATH")  //
      ("timeout", "limit for MPI, NCCL and the trial all-reduce, in seconds",
       cxxopts::value<int>()->default_value("60"), "SECONDS")  //
      ("h,help", "print this help");
  return table;
}

int parse_and_run(const std::vector<std::string>& arguments) {
  cxxopts::Options table = option_table();
  const cxxopts::ParseResult parsed = parse_arguments(table, arguments);
  if (parsed.count("help") > 0) {
    std::cout << table.help();
    return 0;
  }
  DoctorOptions options;
  options.json = parsed.count("json") > 0;
  options.data = text_option(parsed, "data", "");
  options.timeout = seconds(parsed["timeout"].as<int>());
  if (options.timeout < seconds(1)) {
    throw runtime::UsageError("doctor: --timeout is at least 1 second");
  }
  return run(options);
}

}  // namespace

Command doctor_command() {
  return {"doctor", "say what the hosts offer for training, and what is missing", parse_and_run};
}

}  // namespace longship::launcher
