#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "comm/error.h"

namespace longship::launcher {

// A process that no launcher started, on CPUs.
class SingleProcess : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
                             "MPI_LOCALNRANKS", "SLURM_STEP_ID"}) {
      unsetenv(name);
    }
    setenv("LONGSHIP_DEVICE", "cpu", 1);
  }
  void TearDown() override {
    for (const char* name :
         {"LONGSHIP_DEVICE", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}) {
      unsetenv(name);
    }
  }
};

// The message of the set-up error that the action throws.
inline std::string setup_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const comm::CommError& error) {
    EXPECT_EQ(error.kind(), comm::CommError::Kind::kSetup);
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

}  // namespace longship::launcher
