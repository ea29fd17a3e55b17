#include "slurm/job_environment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace longship::slurm {
namespace {

using Table = std::map<std::string, std::string>;

std::optional<JobEnvironment> from(const Table& table) {
  return job_environment([&table](const char* name) -> const char* {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
  });
}

TEST(JobEnvironment, OutsideOfAJobThereIsNone) {
  EXPECT_FALSE(from({{"SLURM_NTASKS", "4"}}).has_value());
  EXPECT_FALSE(from({{"SLURM_JOB_ID", ""}}).has_value());
}

TEST(JobEnvironment, ReadsWhatSlurmSets) {
  const auto job = from({{"SLURM_JOB_ID", "42"},
                         {"SLURM_JOB_NAME", "longship"},
                         {"SLURM_JOB_NODELIST", "node[1-2]"},
                         {"SLURM_JOB_NUM_NODES", "2"},
                         {"SLURM_NTASKS", "8"},
                         {"SLURM_CPUS_PER_TASK", "10"},
                         {"SRUN_CPUS_PER_TASK", "40"},
                         {"SLURM_RESTART_COUNT", "3"}});
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->job_id, "42");
  EXPECT_EQ(job->job_name, "longship");
  EXPECT_EQ(job->node_list, "node[1-2]");
  EXPECT_EQ(job->nodes, 2);
  EXPECT_EQ(job->tasks, 8);
  EXPECT_EQ(job->cpus_per_task, 10);
  EXPECT_EQ(job->step_cpus_per_task, 40);
  EXPECT_EQ(job->restarts, 3);
}

TEST(JobEnvironment, WhatIsNotSetOrNoNumberIsAbsent) {
  const auto job = from({{"SLURM_JOB_ID", "42"},
                         {"SLURM_NTASKS", "many"},
                         {"SLURM_CPUS_PER_TASK", "-1"},
                         {"SLURM_JOB_NUM_NODES", "99999999999"}});
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->nodes, std::nullopt);
  EXPECT_EQ(job->tasks, std::nullopt);
  EXPECT_EQ(job->cpus_per_task, std::nullopt);
  EXPECT_EQ(job->restarts, 0);
}

}  // namespace
}  // namespace longship::slurm
