#include "launcher/cpu_affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <vector>

namespace longship::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CpuAffinity, ListJoinsRuns) {
  EXPECT_EQ(cpu_list({}), "");
  EXPECT_EQ(cpu_list({5}), "5");
  EXPECT_EQ(cpu_list({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(cpu_list({0, 2, 3, 5}), "0,2-3,5");
}

TEST(CpuAffinity, AllowedCpusFollowTheMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const std::vector<int> all = allowed_cpus();
  ASSERT_EQ(static_cast<int>(all.size()), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(all.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_THAT(allowed_cpus(), ElementsAre(all.back()));
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(CpuAffinity, RanksThatShareCpusDivideThem) {
  const std::vector<RankCpus> shared{{0, "0-15"}, {0, "0-15"}, {0, "0-15"}, {1, "0-15"}};
  EXPECT_EQ(threads_of_rank(shared, 0, 16), 5);
  EXPECT_EQ(threads_of_rank(shared, 3, 16), 16);
  const std::vector<RankCpus> bound{{0, "0-7"}, {0, "8-15"}};
  EXPECT_EQ(threads_of_rank(bound, 1, 8), 8);
}

TEST(CpuAffinity, MoreRanksThanCpusGetOneThreadEach) {
  EXPECT_EQ(threads_of_rank({{0, "0-1"}, {0, "0-1"}, {0, "0-1"}}, 2, 2), 1);
}

TEST(CpuAffinity, WarningsCarryBothNumbersAndTheRemedy) {
  EXPECT_THAT(cpu_warnings(8, 8, 0), IsEmpty());
  EXPECT_THAT(cpu_warnings(8, 4, 8), IsEmpty());
  EXPECT_THAT(cpu_warnings(1, 8, 0),
              ElementsAre(testing::AllOf(HasSubstr("8 threads"), HasSubstr("1 CPUs"),
                                         HasSubstr("--bind-to none"))));
  EXPECT_THAT(cpu_warnings(1, 1, 10),
              ElementsAre(testing::AllOf(HasSubstr("10 CPUs per task"), HasSubstr("1 only"),
                                         HasSubstr("SRUN_CPUS_PER_TASK"))));
}

}  // namespace
}  // namespace longship::launcher
