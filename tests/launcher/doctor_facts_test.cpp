#include "launcher/doctor_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "launcher/cpu_affinity.h"
#include "launcher/device_binding.h"

namespace longship::launcher {
namespace {

using nlohmann::json;

class DoctorFacts : public testing::Test {
 protected:
  void SetUp() override {
    setenv("LONGSHIP_DEVICE", "cpu", 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    setenv("SLURM_JOB_ID", "17", 1);
    setenv("SLURM_CPUS_PER_TASK", "10", 1);
    session_.host_name = "here";
    facts_ = doctor_facts(session_, "Some MPI 1.2");
  }
  void TearDown() override {
    for (const char* name :
         {"LONGSHIP_DEVICE", "NCCL_DEBUG", "SLURM_JOB_ID", "SLURM_CPUS_PER_TASK"})
      unsetenv(name);
  }
  Session session_;
  json facts_;
};

TEST_F(DoctorFacts, VersionsAreNumbers) {
  const json& versions = facts_.at("versions");
  EXPECT_EQ(versions.at("longship"), LONGSHIP_VERSION);
  EXPECT_EQ(versions.at("mpi"), "Some MPI 1.2");
  for (const std::string name : {"libtorch", "hdf5", "nccl", "cudnn"}) {
    EXPECT_THAT(versions.at(name).get<std::string>(), testing::MatchesRegex("[0-9]+\\.[0-9]+.*"))
        << name;
  }
}

TEST_F(DoctorFacts, ProcessAndMachine) {
  EXPECT_EQ(facts_.at("host"), "here");
  EXPECT_EQ(facts_.at("cpus").at("list"), cpu_list(allowed_cpus()));
  EXPECT_EQ(facts_.at("cpus").at("count"), allowed_cpus().size());
  EXPECT_GT(facts_.at("shared_memory").at("total_mib").get<int>(), 0);
  bool loopback = false;
  for (const json& interface : facts_.at("interfaces")) {
    loopback = loopback ||
               (interface.at("loopback").get<bool>() && interface.at("address") == "127.0.0.1");
  }
  EXPECT_TRUE(loopback);
}

TEST_F(DoctorFacts, SettingsAndJob) {
  EXPECT_EQ(facts_.at("environment").at("NCCL_DEBUG"), "WARN");
  EXPECT_FALSE(facts_.at("environment").contains("HOME"));
  EXPECT_EQ(facts_.at("slurm").at("job_id"), "17");
  EXPECT_EQ(facts_.at("slurm").at("cpus_per_task"), 10);
  EXPECT_TRUE(facts_.at("slurm").at("tasks").is_null());
  EXPECT_EQ(devices_of(facts_.at("devices")).requested, "cpu");
}

TEST(BuiltMpiLibrary, SaysThatItIsNotStarted) {
  EXPECT_THAT(built_mpi_library(), testing::HasSubstr("(built with; not started)"));
}

}  // namespace
}  // namespace longship::launcher
