#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "runtime/file_descriptor.h"

namespace longship::runtime {

// What is known about the training after a step, or about one evaluation. NaN stands for "not
// measured" and for a value that is not finite.
struct MetricRecord {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  int64_t step = 0;     // optimizer steps, skipped ones included
  int64_t applied = 0;  // steps that changed the weights
  double epoch = 0;
  std::string split;  // "train", "validation", "test"
  double loss = kNone;
  double grad_norm = kNone;  // before clipping
  double lr = kNone;
  double loss_scale = kNone;
  int64_t skipped = 0;  // steps since the record before
  double samples_per_s = kNone;
  double exposed_comm_ms = kNone;  // per step, communication that computing did not hide
  std::string time;                // UTC, ISO 8601; "" is filled in when it is written
  std::map<std::string, double>
      extra;  // further values by name, such as the metrics of an evaluation
};

// Takes records; one implementation per format.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual void write(const MetricRecord& record) = 0;
};

// metrics.jsonl: one JSON object a line, each written at once; values that are not finite are null.
class JsonLinesSink : public MetricSink {
 public:
  // Continues `path` after `resume_step`: records of later steps are removed (those steps will be
  // run again), as is a last line that was cut short. Without a resume step the file begins anew.
  // Throws ConfigError when it cannot be read or written.
  explicit JsonLinesSink(std::string path, std::optional<int64_t> resume_step = std::nullopt);

  // Throws ConfigError naming the file and the system's reason, std::logic_error for an extra value
  // with the name of another field.
  void write(const MetricRecord& record) override;

 private:
  std::string path_;
  FileDescriptor file_;
};

// The record as a JSON object on one line, without newline.
std::string to_json(const MetricRecord& record);

}  // namespace longship::runtime
