#include "data/dataset.h"

#include <ATen/Functions.h>

#include <cstring>
#include <utility>

#include "data/dataset_builder.h"

namespace longship::data {
namespace {

// Columns of the resident matrix that a tensor takes: a run of neighbours is copied at once.
struct ColumnPicker {
  std::vector<int64_t> columns;
  bool neighbours = true;

  explicit ColumnPicker(std::vector<int64_t> picked) : columns(std::move(picked)) {
    for (size_t i = 1; i < columns.size(); ++i) {
      neighbours = neighbours && columns[i] == columns[i - 1] + 1;
    }
  }

  template <typename T>
  void copy_rows(const T* matrix, int64_t width, int64_t first, int64_t rows, T* out) const {
    const auto count = static_cast<int64_t>(columns.size());
    if (neighbours && count == width) {
      std::memcpy(out, matrix + first * width, sizeof(T) * static_cast<size_t>(rows * width));
      return;
    }
    for (int64_t row = first; row < first + rows; ++row, out += count) {
      const T* line = matrix + row * width;
      if (neighbours) {
        std::memcpy(out, line + columns.front(), sizeof(T) * columns.size());
      } else {
        for (size_t i = 0; i < columns.size(); ++i) out[i] = line[columns[i]];
      }
    }
  }
};

}  // namespace

const char* to_string(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValidation:
      return "validation";
    case Split::kTest:
      return "test";
    case Split::kAll:
      return "all";
  }
  return "unknown";
}

struct Dataset::Impl {
  DatasetParts parts;
  ColumnPicker inputs;
  ColumnPicker targets;

  explicit Impl(DatasetParts built)
      : parts(std::move(built)), inputs(parts.input_columns), targets(parts.target_columns) {}

  const WindowIndex& index(Split split) const { return parts.windows[static_cast<size_t>(split)]; }
  // First row of a window in the resident matrix.
  int64_t first_row(Split split, int64_t window) const {
    const WindowStart start = index(split).at(window);
    return parts.table.offsets[static_cast<size_t>(start.series)] + start.row;
  }
  at::Tensor matrix(const ColumnPicker& picker) const {
    at::Tensor result =
        at::empty({parts.table.rows(), static_cast<int64_t>(picker.columns.size())}, at::kFloat);
    picker.copy_rows(parts.table.values.const_data_ptr<float>(), width(), 0, parts.table.rows(),
                     result.mutable_data_ptr<float>());
    return result;
  }
  int64_t width() const { return static_cast<int64_t>(parts.table.columns.size()); }
};

Dataset::Dataset() = default;
Dataset::~Dataset() = default;

std::shared_ptr<const Dataset> Dataset::open(const DatasetSpec& spec) {
  std::shared_ptr<Dataset> dataset(new Dataset());
  dataset->impl_ = std::make_unique<Impl>(build_dataset(spec));
  return dataset;
}

int64_t Dataset::windows(Split split) const {
  return impl_->index(split).size();
}

Batch Dataset::gather(Split split, std::span<const int64_t> windows, bool with_observed,
                      bool pinned) const {
  const DatasetParts& parts = impl_->parts;
  const auto batch = static_cast<int64_t>(windows.size());
  const int64_t look_back = parts.spec.window;
  const int64_t horizon = parts.spec.horizon;
  const auto inputs = static_cast<int64_t>(impl_->inputs.columns.size());
  const auto targets = static_cast<int64_t>(impl_->targets.columns.size());

  Batch result;
  const auto options = at::TensorOptions().dtype(at::kFloat).pinned_memory(pinned);
  result.past = at::empty({batch, look_back, inputs}, options);
  result.target = at::empty({batch, horizon, targets}, options);
  const bool filled = with_observed && parts.filled_targets[static_cast<size_t>(split)];
  if (filled) result.observed = at::empty({batch, horizon, targets}, at::kBool);

  const auto* values = parts.table.values.const_data_ptr<float>();
  auto* past = result.past.mutable_data_ptr<float>();
  auto* target = result.target.mutable_data_ptr<float>();
  bool* observed = filled ? result.observed.mutable_data_ptr<bool>() : nullptr;
  for (const int64_t window : windows) {
    const int64_t row = impl_->first_row(split, window);
    impl_->inputs.copy_rows(values, impl_->width(), row, look_back, past);
    impl_->targets.copy_rows(values, impl_->width(), row + look_back, horizon, target);
    past += look_back * inputs;
    target += horizon * targets;
    if (!filled) continue;
    for (int64_t i = (row + look_back) * targets; i < (row + look_back + horizon) * targets; ++i) {
      *observed++ = parts.target_filled[static_cast<size_t>(i)] == 0;
    }
  }
  return result;
}

at::Tensor Dataset::history(Split split, std::span<const int64_t> windows) const {
  const DatasetParts& parts = impl_->parts;
  const int64_t look_back = parts.spec.window;
  const auto targets = static_cast<int64_t>(impl_->targets.columns.size());
  at::Tensor result =
      at::empty({static_cast<int64_t>(windows.size()), look_back, targets}, at::kFloat);
  auto* out = result.mutable_data_ptr<float>();
  for (const int64_t window : windows) {
    impl_->targets.copy_rows(parts.table.values.const_data_ptr<float>(), impl_->width(),
                             impl_->first_row(split, window), look_back, out);
    out += look_back * targets;
  }
  return result;
}

at::Tensor Dataset::input_matrix() const {
  return impl_->matrix(impl_->inputs);
}

at::Tensor Dataset::target_matrix() const {
  return impl_->matrix(impl_->targets);
}

int64_t Dataset::first_row(Split split, int64_t window) const {
  return impl_->first_row(split, window);
}

const DatasetSpec& Dataset::spec() const {
  return impl_->parts.spec;
}
const Normalizer& Dataset::normalizer() const {
  return impl_->parts.normalizer;
}
uint64_t Dataset::fingerprint() const {
  return impl_->parts.fingerprint;
}
int64_t Dataset::series_count() const {
  return impl_->parts.table.series_count();
}
int64_t Dataset::rows() const {
  return impl_->parts.table.rows();
}
int64_t Dataset::step_ns() const {
  return impl_->parts.step_ns;
}
const std::vector<std::string>& Dataset::notes() const {
  return impl_->parts.table.notes;
}

int64_t Dataset::bytes() const {
  const DatasetParts& parts = impl_->parts;
  return static_cast<int64_t>(parts.table.values.nbytes() +
                              parts.table.time.size() * sizeof(int64_t) +
                              parts.target_filled.size());
}

}  // namespace longship::data
