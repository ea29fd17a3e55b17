#include "runtime/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config_support.h"
#include "runtime/config_dump.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

using namespace longship::tests;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

const auto kNow = std::chrono::sys_days(std::chrono::year(2026) / 3 / 1) + std::chrono::hours(12) +
                  std::chrono::minutes(34) + std::chrono::seconds(56);

TEST(ChooseRunRoot, TakesTheGivenNameAndCreatesNothing) {
  const TemporaryFolder folder;
  EXPECT_EQ(choose_run_root(folder / "runs", "a b", "run", kNow), folder / "runs/a b");
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST(ChooseRunRoot, MakesNewNamesFromTheTimeInUtc) {
  const TemporaryFolder folder;
  const std::string runs = folder / "deep/runs/";
  EXPECT_EQ(choose_run_root(runs, "", "lstm", kNow), runs + "lstm-20260301-123456");
  EXPECT_EQ(choose_run_root(runs, "", "lstm", kNow), runs + "lstm-20260301-123456-2");
  EXPECT_EQ(choose_run_root(runs, "", "lstm", kNow), runs + "lstm-20260301-123456-3");
  EXPECT_TRUE(fs::is_directory(runs + "lstm-20260301-123456-3"));
}

TEST(ChooseRunRoot, ExpandsTheHomeFolder) {
  setenv("HOME", "/home/ada", 1);
  EXPECT_EQ(choose_run_root("~/runs", "x", "run", kNow), "/home/ada/runs/x");
  EXPECT_EQ(choose_run_root("a~/runs", "x", "run", kNow), "a~/runs/x");
}

TEST(RunDirectory, CreatesItsFoldersAndFiles) {
  const TemporaryFolder folder;
  const RunDirectory run(folder / "runs/first");
  EXPECT_FALSE(run.has_config());
  EXPECT_TRUE(fs::is_directory(folder / "runs/first/logs"));
  EXPECT_TRUE(fs::is_directory(run.checkpoints_path()));
  EXPECT_EQ(run.metrics_path(), folder / "runs/first/metrics.jsonl");
  EXPECT_EQ(rank_log_path(run.root(), 3), folder / "runs/first/logs/rank-00003.log");
}

TEST(RunDirectory, KeepsTheConfigSoThatItCanBeUsedWhereItLies) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "configs");
  const Config config = parse_config(kMinimal, "run.yaml", folder / "configs", {});
  const RunDirectory run(folder / "runs/first");
  run.write_config(config);
  EXPECT_TRUE(run.has_config());
  const Config stored = load_config(run.config_path());
  EXPECT_THAT(compare_configs(config, stored), IsEmpty());
  EXPECT_EQ(fs::weakly_canonical(resolve_paths(stored)[0]),
            fs::weakly_canonical(folder / "configs/weather.h5"));
}

TEST(RunDirectory, KeepsTheFactsEvenWithNamesThatAreNotUtf8) {
  const TemporaryFolder folder;
  const RunDirectory run(folder / "first");
  run.write_run({{"seed", 42}, {"command", "caf\xe9"}});
  std::ifstream stream(run.run_path());
  const auto facts = nlohmann::json::parse(stream);
  EXPECT_EQ(facts["seed"], 42);
  EXPECT_EQ(facts["command"], "caf\xef\xbf\xbd");
}

TEST(RunDirectory, RefusesASecondLiveJobAndOpensAgainAfterIt) {
  const TemporaryFolder folder;
  {
    const RunDirectory run(folder / "first");
    EXPECT_THAT(config_error([&] { const RunDirectory second(folder / "first"); }),
                HasSubstr("is in use by process " + std::to_string(getpid())));
  }
  RunDirectory again(folder / "first");
  EXPECT_EQ(again.note(), "");
  EXPECT_TRUE(again.refresh());
}

TEST(RunDirectory, RefusesAFolderThatHoldsOtherThings) {
  const TemporaryFolder folder;
  std::ofstream(folder / "thesis.tex") << "x";
  EXPECT_THAT(config_error([&] { const RunDirectory run(folder.path().string()); }),
              HasSubstr("holds no run"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(RunDirectory, NamesWhatIsInTheWay) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(config_error([&] { const RunDirectory run(folder / "file"); }),
              AllOf(HasSubstr(folder / "file"), HasSubstr("Not a directory")));
  EXPECT_THAT(config_error([&] { const RunDirectory run(folder / "file/below"); }),
              AllOf(HasSubstr(folder / "file/below"), HasSubstr("host " + host_name()),
                    HasSubstr("Not a directory")));
}

TEST(RunDirectory, NeedsNoRightsAboveAFolderThatExists) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const TemporaryFolder folder;
  constexpr uid_t kNobody = 65534;
  fs::permissions(folder.path(), fs::perms(0755));
  fs::create_directory(folder / "mine");
  ASSERT_EQ(chown((folder / "mine").c_str(), kNobody, static_cast<gid_t>(-1)), 0);
  ASSERT_EQ(seteuid(kNobody), 0);
  const std::string own = config_error([&] { const RunDirectory run(folder / "mine"); });
  const std::string sibling = config_error([&] { const RunDirectory run(folder / "other"); });
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(own, "no error");
  EXPECT_THAT(sibling, AllOf(HasSubstr("cannot create the folder"), HasSubstr(folder / "other"),
                             HasSubstr("Permission denied (errno 13)")));
}

}  // namespace
}  // namespace longship::runtime
