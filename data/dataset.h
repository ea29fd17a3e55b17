#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "data/normalizer.h"

namespace longship::data {

enum class Split { kTrain, kValidation, kTest, kAll };
const char* to_string(Split split);  // "train", "validation", "test", "all"

// By time, per series: the shares of train, validation and test (sum at most 1).
using SplitFractions = std::array<double, 3>;
// Row ranges [begin, end) per series of train, validation and test.
using SplitRows = std::array<std::array<int64_t, 2>, 3>;
// Validation starts at the first stamp, test at the second; nanoseconds since 1970 UTC.
using SplitDates = std::array<int64_t, 2>;
using SplitSpec = std::variant<SplitFractions, SplitRows, SplitDates>;

// What to do with missing (NaN or absent) values of the used columns.
enum class MissingPolicy {
  kError,        // refuse, naming the first one
  kForwardFill,  // the last value before; a series' leading gap takes the first value after
  kInterpolate,  // linear between neighbours; constant at the ends of a series
  kDrop,         // windows that touch a missing value are left out
};

struct DatasetSpec {
  std::vector<std::string> paths;  // files, globs and folders, in order
  std::string dataset;             // dataset path inside other HDF5 files; empty: recognised
  std::vector<std::string> inputs;
  std::vector<std::string> targets;  // may also be among the inputs
  int64_t window = 0;                // rows that the model looks back
  int64_t horizon = 1;               // rows to forecast
  int64_t stride = 1;                // between window starts
  SplitSpec split = SplitFractions{0.7, 0.1, 0.2};
  std::string normalize = "standard";  // standard, minmax, none
  MissingPolicy missing = MissingPolicy::kError;
  // Set when a trained model's normaliser must be used rather than fitted anew.
  std::optional<Normalizer> normalizer;
};

// Samples of one micro-batch, on the CPU, normalised, float32.
struct Batch {
  at::Tensor past;      // (batch, window, inputs)
  at::Tensor target;    // (batch, horizon, targets)
  at::Tensor observed;  // (batch, horizon, targets) bool, true where the value was measured rather
                        // than filled; undefined when every value of the split was measured, and
                        // in training
};

// All series of a run, resident in memory: columns chosen, missing values treated, split by time
// and normalised. A window is an index (series, start row); nothing is copied before gather().
//
// A window belongs to a split when all its target rows lie in it. The look-back part of validation
// and test windows may reach into the split before; no window crosses a series.
// Windows of a split are numbered by series, then by start row. Immutable; gather() is thread-safe.
class Dataset {
 public:
  // Throws DataError.
  static std::shared_ptr<const Dataset> open(const DatasetSpec& spec);
  ~Dataset();

  int64_t windows(Split split) const;
  // Without `with_observed` the batch has no mask: training learns from filled values too.
  // `pinned`: in memory that a GPU copies from without the host.
  Batch gather(Split split, std::span<const int64_t> windows, bool with_observed = true,
               bool pinned = false) const;
  // The target columns over the look-back window, (batch, window, targets), normalised: what the
  // naive forecasts repeat.
  at::Tensor history(Split split, std::span<const int64_t> windows) const;
  // All rows of the input columns, and of the target columns, as gather() takes windows from them:
  // float32 (rows, columns), normalised, all series one after the other.
  at::Tensor input_matrix() const;
  at::Tensor target_matrix() const;
  // The row of those matrices at which a window begins.
  int64_t first_row(Split split, int64_t window) const;

  const DatasetSpec& spec() const;
  const Normalizer& normalizer() const;
  // XXH3 of what training reads: values after the treatment of missing ones but before
  // normalisation, series lengths, column names in config order, window, horizon, stride, split.
  // Independent of file names.
  uint64_t fingerprint() const;
  int64_t series_count() const;
  int64_t rows() const;   // over all series
  int64_t bytes() const;  // resident
  // Nanoseconds between rows, 0 when unknown.
  int64_t step_ns() const;
  // One line each for the log: what was filled, skipped, recognised, found constant.
  const std::vector<std::string>& notes() const;

 private:
  Dataset();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longship::data
