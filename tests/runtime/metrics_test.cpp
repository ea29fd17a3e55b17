#include "runtime/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "config_support.h"
#include "runtime/error.h"
#include "temporary_folder.h"

namespace longship::runtime {
namespace {

using longship::tests::config_error;
using longship::tests::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<nlohmann::json> read_records(const std::string& path) {
  std::vector<nlohmann::json> records;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    records.push_back(nlohmann::json::parse(line));
  }
  return records;
}

std::vector<int64_t> steps(const std::string& path) {
  std::vector<int64_t> result;
  for (const auto& record : read_records(path)) result.push_back(record["step"]);
  return result;
}

MetricRecord at_step(int64_t step) {
  MetricRecord record;
  record.step = step;
  record.split = "train";
  return record;
}

TEST(ToJson, HoldsAllFieldsInOrder) {
  MetricRecord record;
  record.step = 12;
  record.applied = 11;
  record.epoch = 0.5;
  record.split = "train";
  record.loss = 0.25;
  record.grad_norm = 1.5;
  record.lr = 1e-3;
  record.loss_scale = 65536;
  record.skipped = 1;
  record.samples_per_s = 100;
  record.exposed_comm_ms = 0.5;
  record.time = "2026-03-01T12:00:00Z";
  EXPECT_EQ(to_json(record),
            R"({"step":12,"applied":11,"epoch":0.5,"split":"train","loss":0.25,"grad_norm":1.5,)"
            R"("lr":0.001,"loss_scale":65536.0,"skipped":1,"samples_per_s":100.0,)"
            R"("exposed_comm_ms":0.5,"time":"2026-03-01T12:00:00Z"})");
}

TEST(ToJson, WritesWhatIsNotFiniteAsNull) {
  MetricRecord record = at_step(1);
  record.loss = std::numeric_limits<double>::infinity();
  record.extra = {{"mae", 0.125}, {"rmse", std::nan("")}};
  const auto object = nlohmann::json::parse(to_json(record));
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_TRUE(object["grad_norm"].is_null());
  EXPECT_EQ(object["mae"], 0.125);
  EXPECT_TRUE(object["rmse"].is_null());
}

TEST(ToJson, RefusesAnExtraValueWithAFieldsName) {
  MetricRecord record = at_step(1);
  record.extra = {{"loss", 1}};
  EXPECT_THROW(to_json(record), std::logic_error);
}

TEST(JsonLinesSink, WritesEachRecordAtOnce) {
  const TemporaryFolder folder;
  JsonLinesSink sink(folder / "metrics.jsonl");
  sink.write(at_step(1));
  EXPECT_THAT(steps(folder / "metrics.jsonl"), ElementsAre(1));
  sink.write(at_step(2));
  EXPECT_THAT(steps(folder / "metrics.jsonl"), ElementsAre(1, 2));
  EXPECT_EQ(read_records(folder / "metrics.jsonl")[0]["time"].get<std::string>().size(), 20u);
}

TEST(JsonLinesSink, RemovesTheStepsThatAreRunAgain) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  for (int life = 0; life < 3; ++life) {
    JsonLinesSink sink(path, life * 100);
    for (int64_t step = life * 100 + 50; step <= life * 100 + 150; step += 50) {
      sink.write(at_step(step));
    }
  }
  EXPECT_THAT(steps(path), ElementsAre(50, 100, 150, 200, 250, 300, 350));
}

TEST(JsonLinesSink, DropsALineThatWasCutShort) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  std::ofstream(path) << to_json(at_step(1)) << "\n" << to_json(at_step(2)).substr(0, 20);
  JsonLinesSink sink(path, 5);
  sink.write(at_step(6));
  EXPECT_THAT(steps(path), ElementsAre(1, 6));
}

TEST(JsonLinesSink, BeginsAnewWithoutAResumeStep) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  JsonLinesSink(path).write(at_step(1));
  JsonLinesSink(path).write(at_step(9));
  EXPECT_THAT(steps(path), ElementsAre(9));
}

TEST(JsonLinesSink, StartsWithAnEmptyFileWhenThereIsNone) {
  const TemporaryFolder folder;
  const JsonLinesSink sink(folder / "metrics.jsonl", 100);
  EXPECT_EQ(std::filesystem::file_size(folder / "metrics.jsonl"), 0u);
}

TEST(JsonLinesSink, NamesAFileThatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_THAT(config_error([&] { const JsonLinesSink sink(folder / "none/metrics.jsonl"); }),
              AllOf(HasSubstr(folder / "none/metrics.jsonl"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace longship::runtime
