#include "launcher/doctor_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace longship::launcher {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

json rank_of(int node, int local_rank) {
  return {
      {"host", "node" + std::to_string(node)},
      {"node", node},
      {"local_rank", local_rank},
      {"local_size", 2},
      {"versions",
       {{"longship", "0.1.0"},
        {"libtorch", "2.11.0"},
        {"mpi", "Open MPI 4.1.4"},
        {"hdf5", "1.10.8"},
        {"nccl", "2.28.9"},
        {"cuda", "13.0"},
        {"cudnn", "9.13.0"},
        {"driver", ""},
        {"driver_cuda", ""}}},
      {"gpus", {{{"name", "NVIDIA H200"}, {"compute_capability", "9.0"}, {"memory_gib", 139.81}}}},
      {"cpus", {{"list", "0-15"}, {"count", 16}, {"threads", 8}}},
      {"shared_memory", {{"total_mib", 64}, {"free_mib", 60}}},
      {"interfaces", {{{"name", "eth0"}, {"address", "10.0.0.1"}, {"loopback", false}}}},
      {"filters",
       {{{"id", 1}, {"name", "deflate"}, {"usable", true}},
        {{"id", 32001}, {"name", "blosc"}, {"usable", false}}}},
      {"environment", {{"NCCL_DEBUG", "WARN"}}},
      {"slurm", nullptr}};
}

json report_of_two_ranks() {
  return {{"ranks", {rank_of(0, 0), rank_of(0, 1)}},
          {"binding", {"cuda:0", "cuda:1"}},
          {"all_reduce", {{"backend", "nccl"}, {"device", "cuda:0"}, {"milliseconds", 0.123}}},
          {"mpirun", ""},
          {"problems", json::array()},
          {"warnings", {"Host node0: small"}},
          {"ok", true}};
}

TEST(DoctorText, ShowsHostsRanksAndTheAllReduce) {
  const std::string text = doctor_text(report_of_two_ranks());
  EXPECT_THAT(text, HasSubstr("Longship 0.1.0\n"));
  EXPECT_THAT(text, HasSubstr("  NVIDIA driver  none\n"));
  EXPECT_THAT(text, HasSubstr("  HDF5 filters   deflate\n"));
  EXPECT_THAT(text, HasSubstr("Host node0 (node 0): 2 rank(s), /dev/shm 64 MiB\n"));
  EXPECT_THAT(text, HasSubstr("NVIDIA H200, compute capability 9.0, 139.8 GiB"));
  EXPECT_THAT(text, HasSubstr("NCCL_DEBUG=WARN"));
  EXPECT_THAT(text, HasSubstr("  rank  host   local  device  CPUs  threads\n"
                              "  0     node0  0      cuda:0  0-15  8\n"
                              "  1     node0  1      cuda:1  0-15  8\n"));
  EXPECT_THAT(text, HasSubstr("All-reduce over nccl on cuda:0: 0.12 ms\n"));
  EXPECT_THAT(text, HasSubstr("Warnings\n  - Host node0: small\n"));
  EXPECT_THAT(text, testing::EndsWith("\nTraining can start.\n"));
}

TEST(DoctorText, SaysWhatKeepsTrainingFromStarting) {
  json report = report_of_two_ranks();
  report["binding"] = json::array();
  report["all_reduce"] = nullptr;
  report["problems"] = {"Host node0: 2 ranks, 1 GPU"};
  report["ok"] = false;
  const std::string text = doctor_text(report);
  EXPECT_THAT(text, HasSubstr("Problems: training cannot start\n  - Host node0: 2 ranks, 1 GPU\n"));
  EXPECT_THAT(text, HasSubstr("  0     node0  0      ?       0-15  8\n"));
  EXPECT_THAT(text, Not(HasSubstr("All-reduce")));
  EXPECT_THAT(text, Not(HasSubstr("Training can start.")));
}

TEST(DoctorText, ShowsTheMpirunLine) {
  json report = report_of_two_ranks();
  report["mpirun"] = "mpirun -q -n 8 longship train CONFIG";
  EXPECT_THAT(doctor_text(report), HasSubstr("longship launch -- train CONFIG\nwhich runs\n  "
                                             "mpirun -q -n 8 longship train CONFIG\n"));
}

}  // namespace
}  // namespace longship::launcher
