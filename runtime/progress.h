#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/console.h"
#include "runtime/metrics.h"

namespace longship::runtime {

// Shows how far the training is, on rank 0: a live line on a terminal, and elsewhere a line of the
// log now and then, without carriage returns or escapes.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    int64_t first_step = 0;  // steps done before this start
    int64_t total_steps = 0;
    std::chrono::seconds interval{10};  // between two lines of the log
    std::function<Clock::time_point()> now = Clock::now;
  };

  // Lines go to `log` where `console` is not live.
  Progress(std::shared_ptr<Console> console, std::shared_ptr<spdlog::logger> log, Options options);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Takes a record of the training part.
  void update(const MetricRecord& record);
  // Removes the live line, or logs the last record that was not logged yet.
  void finish();

 private:
  std::string remaining(int64_t step) const;

  std::shared_ptr<Console> console_;
  std::shared_ptr<spdlog::logger> log_;
  Options options_;
  Clock::time_point begin_;
  std::optional<Clock::time_point> logged_;
  std::string pending_;  // a line that came too early to be logged
};

// "epoch 2.50, step 500 of 2000, loss 0.1234, lr 0.001, 8120 samples/s".
std::string progress_text(const MetricRecord& record, int64_t total_steps);

// "[#####----------]" of `width` cells.
std::string progress_bar(double share, int width);

// "45 s", "12 min", "3 h 05 min", "2 d 04 h".
std::string duration_text(std::chrono::seconds duration);

}  // namespace longship::runtime
