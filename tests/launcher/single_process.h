#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

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
  void TearDown() override { unsetenv("LONGSHIP_DEVICE"); }
};

}  // namespace longship::launcher
