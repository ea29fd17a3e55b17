#include "runtime/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace longship::runtime {

Progress::Progress(std::shared_ptr<Console> console, std::shared_ptr<spdlog::logger> log,
                   Options options)
    : console_(std::move(console)),
      log_(std::move(log)),
      options_(std::move(options)),
      begin_(options_.now()) {}

void Progress::update(const MetricRecord& record) {
  const std::string text = progress_text(record, options_.total_steps) + remaining(record.step);
  if (console_->live()) {
    constexpr int kCells = 20;
    const double share = options_.total_steps > 0 ? static_cast<double>(record.step) /
                                                        static_cast<double>(options_.total_steps)
                                                  : 0;
    console_->set_status(progress_bar(share, kCells) + " " + text);
    return;
  }
  const Clock::time_point now = options_.now();
  if (logged_ && now - *logged_ < options_.interval) {
    pending_ = text;
    return;
  }
  log_->info(text);
  logged_ = now;
  pending_.clear();
}

void Progress::finish() {
  console_->clear_status();
  if (pending_.empty()) return;
  log_->info(pending_);
  pending_.clear();
}

std::string Progress::remaining(int64_t step) const {
  const int64_t done = step - options_.first_step;
  const int64_t left = options_.total_steps - step;
  if (done <= 0 || left <= 0) return "";
  const double elapsed = std::chrono::duration<double>(options_.now() - begin_).count();
  const double seconds = elapsed / static_cast<double>(done) * static_cast<double>(left);
  return ", " + duration_text(std::chrono::seconds(std::llround(seconds))) + " left";
}

std::string progress_text(const MetricRecord& record, int64_t total_steps) {
  return fmt::format("epoch {:.2f}, step {} of {}, loss {:.4g}, lr {:.3g}, {:.0f} samples/s",
                     record.epoch, record.step, total_steps, record.loss, record.lr,
                     record.samples_per_s);
}

std::string progress_bar(double share, int width) {
  const double bounded = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
  const auto filled = static_cast<size_t>(bounded * width);
  return fmt::format("[{}{}]", std::string(filled, '#'),
                     std::string(static_cast<size_t>(width) - filled, '-'));
}

std::string duration_text(std::chrono::seconds duration) {
  const int64_t seconds = duration.count();
  if (seconds < 60) return fmt::format("{} s", seconds);
  const int64_t minutes = (seconds + 30) / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < 24 * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  const int64_t hours = (minutes + 30) / 60;
  return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

}  // namespace longship::runtime
