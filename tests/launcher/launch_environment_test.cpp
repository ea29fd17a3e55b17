#include "launcher/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace longship::launcher {
namespace {

using testing::HasSubstr;
using Table = std::map<std::string, std::string>;

GetVariable from(const Table& table) {
  return [&table](const char* name) -> const char* {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
  };
}

TEST(LaunchEnvironment, PlainShellHasNoLauncher) {
  const Table table{{"HOME", "/root"}};
  const LaunchEnvironment environment = read_launch_environment(from(table));
  EXPECT_EQ(environment.variable, "");
  EXPECT_EQ(environment.size, 0);
  EXPECT_EQ(environment.rank, 0);
}

TEST(LaunchEnvironment, OpenMpiTellsSizeAndRank) {
  const Table table{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}};
  const LaunchEnvironment environment = read_launch_environment(from(table));
  EXPECT_EQ(environment.variable, "OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(environment.size, 4);
  EXPECT_EQ(environment.rank, 3);
  EXPECT_FALSE(environment.slurm_step);
}

TEST(LaunchEnvironment, BatchScriptAndSallocShellsAreNoLauncher) {
  const Table batch{{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}};
  EXPECT_EQ(read_launch_environment(from(batch)).variable, "");
  for (const std::string step : {"batch", "4294967291", "4294967290"}) {
    const Table special{{"SLURM_STEP_ID", step}, {"SLURM_STEP_NUM_TASKS", "4"}};
    EXPECT_EQ(read_launch_environment(from(special)).variable, "") << step;
  }
  const Table single{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  EXPECT_EQ(read_launch_environment(from(single)).variable, "");
}

TEST(LaunchEnvironment, SrunWithoutPmiIsRefusedWithTheRemedy) {
  const Table table{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}};
  const LaunchEnvironment environment = read_launch_environment(from(table));
  EXPECT_TRUE(environment.slurm_step);
  EXPECT_FALSE(environment.has_pmi);
  EXPECT_EQ(environment.rank, 2);
  const auto message = launcher_mismatch(environment, 1, "Open MPI v4.1.4", from(table));
  ASSERT_TRUE(message.has_value());
  EXPECT_THAT(*message, HasSubstr("The launcher says 4 tasks (SLURM_STEP_NUM_TASKS), MPI says 1 "
                                  "(Open MPI v4.1.4)"));
  EXPECT_THAT(*message, HasSubstr("srun --mpi=pmix"));
  EXPECT_THAT(*message, HasSubstr("mpirun"));
}

TEST(LaunchEnvironment, SrunWithPmixFits) {
  const Table table{{"SLURM_STEP_ID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "4"},
                    {"SLURM_PROCID", "2"},
                    {"PMIX_RANK", "2"}};
  const LaunchEnvironment environment = read_launch_environment(from(table));
  EXPECT_EQ(environment.size, 4);
  EXPECT_EQ(environment.rank, 2);
  EXPECT_TRUE(environment.has_pmi);
  EXPECT_EQ(launcher_mismatch(environment, 4, "Open MPI", from(table)), std::nullopt);
  EXPECT_NE(launcher_mismatch(environment, 1, "Open MPI", from(table)), std::nullopt);
}

// mpirun starts its daemons with srun: their step has as many tasks as there are nodes.
TEST(LaunchEnvironment, MpirunInsideAStepCountsItsOwnRanks) {
  const Table table{{"SLURM_STEP_ID", "3"},
                    {"SLURM_STEP_NUM_TASKS", "2"},
                    {"OMPI_COMM_WORLD_SIZE", "1"},
                    {"OMPI_COMM_WORLD_RANK", "0"}};
  const LaunchEnvironment environment = read_launch_environment(from(table));
  EXPECT_EQ(environment.size, 1);
  EXPECT_EQ(launcher_mismatch(environment, 1, "Open MPI", from(table)), std::nullopt);
}

TEST(LaunchEnvironment, AnotherMpisLauncherIsRefused) {
  for (const std::string size : {"PMI_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE"}) {
    const Table table{{size, "4"}};
    const auto message =
        launcher_mismatch(read_launch_environment(from(table)), 1, "MPICH 4.0", from(table));
    ASSERT_TRUE(message.has_value()) << size;
    EXPECT_THAT(*message, HasSubstr("4 tasks (" + size + "), MPI says 1 (MPICH 4.0)"));
    EXPECT_THAT(*message, HasSubstr("another MPI library"));
  }
}

TEST(LaunchEnvironment, TheCheckCanBeTurnedOff) {
  const Table foreign{{"PMI_SIZE", "4"}, {"LONGSHIP_IGNORE_LAUNCHER", "1"}};
  EXPECT_EQ(launcher_mismatch(read_launch_environment(from(foreign)), 1, "MPICH", from(foreign)),
            std::nullopt);
  const Table srun{
      {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"LONGSHIP_IGNORE_LAUNCHER", "1"}};
  EXPECT_EQ(read_launch_environment(from(srun)).variable, "");
}

TEST(LaunchEnvironment, WhatIsNoNumberCountsAsAbsent) {
  const Table table{{"OMPI_COMM_WORLD_SIZE", "four"}, {"PMI_SIZE", ""}, {"PMI_RANK", "1"}};
  const LaunchEnvironment environment = read_launch_environment(from(table));
  EXPECT_EQ(environment.variable, "PMI_RANK");
  EXPECT_EQ(environment.size, 0);
  EXPECT_EQ(environment.rank, 1);
}

}  // namespace
}  // namespace longship::launcher
