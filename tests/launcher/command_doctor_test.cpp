#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/command.h"
#include "runtime/error.h"
#include "single_process.h"

namespace longship::launcher {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Without a launcher: doctor starts no MPI.
class DoctorCommandTest : public SingleProcess {
 protected:
  void TearDown() override {
    SingleProcess::TearDown();
    unsetenv("NCCL_SOCKET_IFNAME");
  }

  int run(const std::vector<std::string>& arguments) {
    testing::internal::CaptureStdout();
    const int code = doctor_command().run(arguments);
    output_ = testing::internal::GetCapturedStdout();
    return code;
  }

  std::string output_;
};

TEST_F(DoctorCommandTest, OneRankOnCpusCanTrain) {
  EXPECT_EQ(run({"--json"}), 0);
  const json report = json::parse(output_);
  EXPECT_TRUE(report.at("ok").get<bool>());
  EXPECT_EQ(report.at("ranks").size(), 1U);
  EXPECT_EQ(report.at("binding"), json({"cpu"}));
  EXPECT_EQ(report.at("all_reduce").at("backend"), "local");
  EXPECT_THAT(report.at("mpirun").get<std::string>(), HasSubstr("train CONFIG"));
}

TEST_F(DoctorCommandTest, TextEndsWithTheVerdict) {
  EXPECT_EQ(run({}), 0);
  EXPECT_THAT(output_, testing::EndsWith("Training can start.\n"));
}

TEST_F(DoctorCommandTest, ProblemsGiveTheSetupCode) {
  setenv("NCCL_SOCKET_IFNAME", "nosuch", 1);
  EXPECT_EQ(run({"--json"}), 5);
  const json report = json::parse(output_);
  EXPECT_FALSE(report.at("ok").get<bool>());
  EXPECT_THAT(report.at("problems").at(0).get<std::string>(), HasSubstr("NCCL_SOCKET_IFNAME"));
  EXPECT_TRUE(report.at("all_reduce").is_null());
}

TEST_F(DoctorCommandTest, DataThatCannotBeReadIsAProblem) {
  EXPECT_EQ(run({"--json", "--data", "/nonexistent/a,b.h5"}), 5);
  EXPECT_THAT(json::parse(output_).at("problems").at(0).get<std::string>(),
              HasSubstr("/nonexistent/a,b.h5"));
}

TEST_F(DoctorCommandTest, SrunWithoutPmiIsToldByTheFirstTaskOnly) {
  setenv("SLURM_STEP_ID", "0", 1);
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  setenv("SLURM_PROCID", "0", 1);
  EXPECT_EQ(run({}), 5);
  EXPECT_THAT(output_, HasSubstr("The launcher says 4 tasks (SLURM_STEP_NUM_TASKS), MPI says 1"));
  setenv("SLURM_PROCID", "3", 1);
  EXPECT_EQ(run({}), 5);
  EXPECT_EQ(output_, "");
}

TEST_F(DoctorCommandTest, MistakesAreUsageErrors) {
  EXPECT_THROW(doctor_command().run({"--frobnicate"}), runtime::UsageError);
  EXPECT_THROW(doctor_command().run({"stray"}), runtime::UsageError);
  EXPECT_THROW(doctor_command().run({"--timeout", "0"}), runtime::UsageError);
}

}  // namespace
}  // namespace longship::launcher
