#include "runtime/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "runtime/logging.h"
#include "terminal.h"

namespace longship::runtime {
namespace {

using longship::tests::CapturedOutput;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

MetricRecord record(int64_t step) {
  MetricRecord result;
  result.step = step;
  result.epoch = 2.5;
  result.loss = 0.12345;
  result.lr = 1e-3;
  result.samples_per_s = 8120.4;
  return result;
}

class ProgressTest : public testing::Test {
 protected:
  void open(CapturedOutput::Kind kind) {
    output_ = std::make_unique<CapturedOutput>(kind);
    const bool live = kind == CapturedOutput::Kind::kTerminal;
    console_ = std::make_shared<Console>(output_->fd(), live, false);
    Progress::Options options;
    options.first_step = 100;
    options.total_steps = 400;
    options.interval = seconds(10);
    options.now = [this] { return now_; };
    progress_ = std::make_unique<Progress>(console_, make_logger("info", console_), options);
  }
  ~ProgressTest() override { progress_.reset(); }

  Progress::Clock::time_point now_;
  std::unique_ptr<CapturedOutput> output_;
  std::shared_ptr<Console> console_;
  std::unique_ptr<Progress> progress_;
};

TEST_F(ProgressTest, LogsOneLineInAnIntervalAndTheLastOne) {
  open(CapturedOutput::Kind::kPipe);
  now_ += seconds(50);
  progress_->update(record(150));
  EXPECT_THAT(output_->take(),
              AllOf(HasSubstr("info epoch 2.50, step 150 of 400, loss 0.1235, lr 0.001, 8120 "
                              "samples/s, 4 min left\n"),
                    Not(HasSubstr("\r")), Not(HasSubstr("\033"))));
  now_ += seconds(9);
  progress_->update(record(160));
  EXPECT_TRUE(output_->empty());
  now_ += seconds(1);
  progress_->update(record(170));
  EXPECT_THAT(output_->take(), HasSubstr("step 170 of 400"));
  now_ += seconds(1);
  progress_->update(record(180));
  EXPECT_TRUE(output_->empty());
  progress_->finish();
  EXPECT_THAT(output_->take(), HasSubstr("step 180 of 400"));
  progress_->finish();
  EXPECT_TRUE(output_->empty());
}

TEST_F(ProgressTest, KeepsOneLiveLineOnATerminal) {
  open(CapturedOutput::Kind::kTerminal);
  now_ += seconds(10);
  progress_->update(record(200));
  // 39 of the terminal's 40 columns.
  EXPECT_EQ(output_->take(), "\r\033[K[##########----------] epoch 2.50, step");
  progress_->finish();
  EXPECT_EQ(output_->take(), "\r\033[K");
}

TEST(ProgressBar, FillsWithTheShare) {
  EXPECT_EQ(progress_bar(0, 4), "[----]");
  EXPECT_EQ(progress_bar(0.5, 4), "[##--]");
  EXPECT_EQ(progress_bar(1.5, 4), "[####]");
  EXPECT_EQ(progress_bar(std::nan(""), 4), "[----]");
}

TEST(DurationText, UsesTwoUnits) {
  EXPECT_EQ(duration_text(seconds(45)), "45 s");
  EXPECT_EQ(duration_text(seconds(720)), "12 min");
  EXPECT_EQ(duration_text(seconds(11100)), "3 h 05 min");
  EXPECT_EQ(duration_text(seconds(187200)), "2 d 04 h");
}

}  // namespace
}  // namespace longship::runtime
