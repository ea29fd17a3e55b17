#include "slurm/job_environment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace longship::slurm {
namespace {

using std::chrono::seconds;
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

TEST(TimeLeft, ReadsEveryFormOfSqueue) {
  EXPECT_EQ(parse_time_left("0:07\n"), seconds(7));
  EXPECT_EQ(parse_time_left("5:30"), seconds(330));
  EXPECT_EQ(parse_time_left("1:02:03"), seconds(3723));
  EXPECT_EQ(parse_time_left("2-01:02:03\n"), seconds(2 * 86400 + 3723));
}

TEST(TimeLeft, WordsAndRubbishAreNoTime) {
  for (const std::string text : {"", "UNLIMITED", "INVALID", "NOT_SET", "12", "1:2:3:4", "1-2:03",
                                 "-1:00", "1:", "x-01:02:03"}) {
    EXPECT_EQ(parse_time_left(text), std::nullopt) << text;
  }
}

// A squeue of our own on PATH, which notes its words.
class AskedTimeLeft : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "longship-squeue-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = std::getenv("PATH");
    const std::filesystem::path squeue = folder_ / "squeue";
    std::ofstream(squeue) << "#!/bin/sh\necho \"$*\" > '" << folder_.string()
                          << "/words'\necho 1:00:05\n";
    chmod(squeue.c_str(), 0755);
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(AskedTimeLeft, AsksSqueueForTheJob) {
  EXPECT_EQ(time_left("42"), seconds(3605));
  std::string words;
  std::getline(std::ifstream(folder_ / "words"), words);
  EXPECT_EQ(words, "-h -j 42 -o %L");
}

TEST_F(AskedTimeLeft, OnlyAnIdReachesTheShell) {
  EXPECT_EQ(time_left("42; touch x"), std::nullopt);
  EXPECT_EQ(time_left(""), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "words"));
}

}  // namespace
}  // namespace longship::slurm
