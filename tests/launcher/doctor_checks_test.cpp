#include "launcher/doctor_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/device_binding.h"

namespace longship::launcher {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Facts of a rank in good order: one GPU of its own, enough of everything.
json facts(int node, const std::string& gpu) {
  RankDevices devices;
  devices.node = node;
  devices.host = "host" + std::to_string(node);
  if (!gpu.empty()) devices.gpus = {gpu};
  json gpus = json::array();
  if (!gpu.empty()) {
    gpus.push_back({{"name", "H200"}, {"compute_capability", "9.0"}, {"memory_gib", 139.8}});
  }
  return {{"host", devices.host},
          {"node", node},
          {"local_rank", 0},
          {"local_size", 1},
          {"versions",
           {{"longship", "0.1.0"},
            {"nccl", "2.28.9"},
            {"cuda", "13.0"},
            {"driver", "580.65.06"},
            {"driver_cuda", "13.0"}}},
          {"gpus", gpus},
          {"gpu_failure", ""},
          {"gpu_files", !gpu.empty()},
          {"devices", json_of(devices)},
          {"cpus", {{"list", "0-7"}, {"count", 8}, {"threads", 8}}},
          {"shared_memory", {{"total_mib", 4096}, {"free_mib", 4096}}},
          {"interfaces",
           {{{"name", "lo"}, {"address", "127.0.0.1"}, {"loopback", true}},
            {{"name", "eth0"}, {"address", "10.0.0.1"}, {"loopback", false}}}},
          {"filters", {{{"id", 1}, {"name", "deflate"}, {"usable", true}}}},
          {"environment", json::object()},
          {"slurm", nullptr}};
}

TEST(DoctorChecks, HostsInGoodOrderHaveNoFindings) {
  const Findings findings = doctor_checks({facts(0, "a"), facts(1, "b")});
  EXPECT_THAT(findings.problems, IsEmpty());
  EXPECT_THAT(findings.warnings, IsEmpty());
}

TEST(DoctorChecks, DifferentVersionsAreNamedOncePerHost) {
  json other = facts(1, "b");
  other["versions"]["nccl"] = "2.27.3";
  json third = other;
  third["devices"] = facts(1, "c")["devices"];
  const Findings findings = doctor_checks({facts(0, "a"), other, third});
  EXPECT_THAT(findings.problems,
              ElementsAre(AllOf(HasSubstr("Host host1 has nccl '2.27.3', host host0 has '2.28.9'"),
                                HasSubstr("-x LD_LIBRARY_PATH"))));
}

TEST(DoctorChecks, DifferentSettingsAreWarnedAbout) {
  json first = facts(0, "a");
  first["environment"] = {{"NCCL_IB_DISABLE", "1"}, {"CUDA_VISIBLE_DEVICES", "0"}};
  const Findings findings = doctor_checks({first, facts(1, "b")});
  EXPECT_THAT(findings.problems, IsEmpty());
  EXPECT_THAT(findings.warnings,
              ElementsAre(AllOf(HasSubstr("NCCL_IB_DISABLE is '1' on rank 0 (host host0) and not "
                                          "set on rank 1 (host host1)"),
                                HasSubstr("mpirun -x NCCL_IB_DISABLE"))));
}

TEST(DoctorChecks, TooFewGpusKeepTrainingFromStarting) {
  const Findings findings = doctor_checks({facts(0, "a"), facts(0, "a")});
  EXPECT_THAT(findings.problems, ElementsAre(HasSubstr("Host host0: 2 ranks, 1 GPU")));
}

TEST(DoctorChecks, AnUnusableDriverIsExplained) {
  json rank = facts(0, "");
  rank["gpu_files"] = true;
  rank["versions"]["driver"] = "550.54.14";
  rank["versions"]["driver_cuda"] = "12.4";
  const Findings findings = doctor_checks({rank});
  EXPECT_THAT(findings.problems, IsEmpty());
  EXPECT_THAT(findings.warnings,
              ElementsAre(AllOf(HasSubstr("CUDA 13.0 sees none"), HasSubstr("550.54.14"),
                                HasSubstr("580"), HasSubstr("CUDA 12.8"))));
}

TEST(DoctorChecks, HiddenGpusAreNoSurprise) {
  json rank = facts(0, "");
  rank["gpu_files"] = true;
  rank["environment"] = {{"CUDA_VISIBLE_DEVICES", ""}};
  EXPECT_THAT(doctor_checks({rank}).warnings, IsEmpty());
}

TEST(DoctorChecks, FewCpusAreWarnedAboutOncePerHost) {
  json rank = facts(0, "a");
  rank["cpus"] = {{"list", "0"}, {"count", 1}, {"threads", 1}};
  rank["slurm"] = {{"cpus_per_task", 10}};
  json second = rank;
  second["devices"] = [] {
    RankDevices devices;
    devices.host = "host0";
    devices.gpus = {"b"};
    return json_of(devices);
  }();
  const Findings findings = doctor_checks({rank, second});
  EXPECT_THAT(findings.warnings,
              ElementsAre(AllOf(HasSubstr("Host host0"), HasSubstr("10 CPUs per task"),
                                HasSubstr("SRUN_CPUS_PER_TASK"))));
}

TEST(DoctorChecks, SmallSharedMemoryIsWarnedAbout) {
  json rank = facts(0, "a");
  rank["shared_memory"] = {{"total_mib", 64}, {"free_mib", 64}};
  EXPECT_THAT(doctor_checks({rank}).warnings,
              ElementsAre(AllOf(HasSubstr("64 MiB"), HasSubstr("--shm-size"))));
  rank["shared_memory"] = nullptr;
  EXPECT_THAT(doctor_checks({rank}).warnings, ElementsAre(HasSubstr("/dev/shm has 0 MiB")));
}

TEST(DoctorChecks, AWrongInterfaceKeepsTrainingFromStarting) {
  json rank = facts(0, "a");
  rank["environment"] = {{"NCCL_SOCKET_IFNAME", "eht0"}};
  EXPECT_THAT(doctor_checks({rank}).problems,
              ElementsAre(AllOf(HasSubstr("NCCL_SOCKET_IFNAME=eht0"), HasSubstr("eth0, lo"))));
}

TEST(DoctorChecks, LoopbackIsEnoughForOneHostOnly) {
  json first = facts(0, "a");
  first["environment"] = {{"NCCL_SOCKET_IFNAME", "lo"}};
  EXPECT_THAT(doctor_checks({first}).problems, IsEmpty());
  json second = facts(1, "b");
  second["environment"] = first["environment"];
  EXPECT_THAT(doctor_checks({first, second}).problems,
              ElementsAre(HasSubstr("Host host0: NCCL_SOCKET_IFNAME=lo leaves only the loopback"),
                          HasSubstr("Host host1")));
}

TEST(DoctorChecks, MissingFiltersAreNamed) {
  json rank = facts(0, "a");
  rank["filters"].push_back({{"id", 32001}, {"name", "blosc"}, {"usable", false}});
  EXPECT_THAT(doctor_checks({rank}).warnings,
              ElementsAre(AllOf(HasSubstr("blosc"), HasSubstr("hdf5plugin"))));
}

TEST(NcclInterface, FollowsNcclsRules) {
  EXPECT_TRUE(nccl_takes_interface("eth", "eth1"));
  EXPECT_FALSE(nccl_takes_interface("=eth", "eth1"));
  EXPECT_TRUE(nccl_takes_interface("=eth0,eth1", "eth1"));
  EXPECT_TRUE(nccl_takes_interface("ib,eth", "ib0"));
  EXPECT_FALSE(nccl_takes_interface("^docker,lo", "docker0"));
  EXPECT_FALSE(nccl_takes_interface("^docker,lo", "lo"));
  EXPECT_TRUE(nccl_takes_interface("^docker,lo", "eth0"));
  EXPECT_TRUE(nccl_takes_interface("^=eth", "eth0"));
}

}  // namespace
}  // namespace longship::launcher
