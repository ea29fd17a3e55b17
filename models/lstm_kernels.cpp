#include "models/lstm_kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <limits>

#include "models/lstm_recurrence.h"

namespace longship::models {
namespace {

constexpr int64_t kGates = 4;
constexpr int64_t kAlignment = 8;  // of the columns of matrices of halves, for Tensor Cores

int64_t rounded_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

LstmElement element_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return LstmElement::kFloat;
    case at::kHalf:
      return LstmElement::kHalf;
    case at::kBFloat16:
      return LstmElement::kBfloat16;
    default:
      TORCH_CHECK(false, "LSTM kernels take float32, fp16 or bfloat16, not ", tensor.scalar_type());
  }
}

int64_t tiles_of(const std::vector<LstmTiles>& round) {
  int64_t tiles = 0;
  for (const LstmTiles& part : round) tiles += part.tiles;
  return tiles;
}

// What `first` has so far comes before what `second` gets.
void order(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& second) {
  at::cuda::CUDAEvent event;
  event.record(first);
  event.block(second);
}

LstmKernelKind kind_of(const LstmKernelShape& shape, int64_t tiles) {
  return {static_cast<int>(shape.hidden), shape.type == at::kBFloat16, static_cast<int>(tiles)};
}

int64_t tiles_of_batch(int64_t batch) {
  return (batch + kLstmTileRows - 1) / kLstmTileRows;
}

}  // namespace

std::string lstm_kernels_obstacle(const LstmKernelShape& shape, c10::DeviceIndex device) {
  if (!at::cuda::is_available()) return "there is no GPU";
  const cudaDeviceProp* gpu = at::cuda::getDeviceProperties(device);
  if (gpu->major != 9 || gpu->minor != 0) {
    return "they are for compute capability 9.0, and " + std::string(gpu->name) + " has " +
           std::to_string(gpu->major) + "." + std::to_string(gpu->minor);
  }
  if (shape.type != at::kHalf && shape.type != at::kBFloat16) {
    return "they are for fp16 and bf16";
  }
  constexpr int64_t kMostHidden = kLstmCtaHidden * kLstmMostCtas;
  if (shape.hidden < 1 || shape.hidden > kMostHidden || shape.hidden % kLstmCtaHidden != 0) {
    return "they are for hidden sizes of 64, 128, 192 and 256, not " + std::to_string(shape.hidden);
  }
  if (shape.batch < 1 || shape.window < 1 || shape.inputs < 1 || shape.layers < 1) {
    return "a size is not positive";
  }
  constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;
  if (shape.window > kMost || shape.batch > kMost) return "a size is too large";
  const c10::cuda::CUDAGuard guard(device);
  for (const int64_t tiles : {1, 2}) {
    if (tiles == 2 && shape.hidden < kLstmLeastPairedHidden) continue;
    const LstmKernelKind kind = kind_of(shape, tiles);
    if (resident_lstm_forward_clusters(kind) < 1 || resident_lstm_backward_clusters(kind) < 1) {
      return "this GPU runs no cluster of " + std::to_string(shape.hidden / kLstmCtaHidden) +
             " thread blocks of theirs";
    }
  }
  return {};
}

std::vector<std::vector<LstmTiles>> lstm_rounds(int64_t layers, int64_t tiles, int64_t clusters) {
  // No launch is larger than a layer: else a tile and its predecessor could be in one.
  const int64_t size = std::max(tiles / clusters, int64_t{1}) * clusters;
  const int64_t most = std::min(size, tiles);
  std::vector<std::vector<LstmTiles>> rounds;
  for (int64_t begin = 0; begin < layers * tiles; begin += most) {
    const int64_t end = std::min(begin + most, layers * tiles);
    std::vector<LstmTiles>& round = rounds.emplace_back();
    for (int64_t at = begin; at < end;) {
      const int64_t layer = at / tiles;
      const int64_t upto = std::min(end, (layer + 1) * tiles);
      round.push_back({layer, at - layer * tiles, upto - at});
      at = upto;
    }
  }
  return rounds;
}

LstmKernels::LstmKernels(const LstmKernelShape& shape, c10::DeviceIndex device)
    : shape_(shape),
      device_(at::kCUDA, device),
      side_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)) {
  const std::string obstacle = lstm_kernels_obstacle(shape, device);
  TORCH_CHECK(obstacle.empty(), "these LSTM kernels cannot be used: ", obstacle);
  const c10::cuda::CUDAGuard guard(device);
  const auto choose = [&](int64_t together) {
    together_ = together;
    forward_clusters_ = resident_lstm_forward_clusters(kind_of(shape, together));
    backward_clusters_ = resident_lstm_backward_clusters(kind_of(shape, together));
  };
  choose(1);
  const int64_t needed = tiles_of_batch(shape.batch);
  if (shape.hidden >= kLstmLeastPairedHidden &&
      needed > std::min(forward_clusters_, backward_clusters_)) {
    choose(2);
  }
  tiles_ = rounded_up(needed, together_);
  processors_ = at::cuda::getDeviceProperties(device)->multiProcessorCount;
}

// Tiles are dealt in items of those that run together.
std::vector<std::vector<LstmTiles>> LstmKernels::rounds(int64_t clusters) const {
  auto rounds = lstm_rounds(shape_.layers, tiles_ / together_, clusters);
  for (auto& round : rounds) {
    for (LstmTiles& part : round) {
      part.first *= together_;
      part.tiles *= together_;
    }
  }
  return rounds;
}

template <typename Job>
LstmLaunch<Job> LstmKernels::launch_of(int64_t clusters) const {
  LstmLaunch<Job> launch;
  launch.batch = shape_.batch;
  launch.window = static_cast<int>(shape_.window);
  launch.layer_tiles = tiles_;
  launch.kernel = kind_of(shape_, together_);
  launch.clusters = static_cast<int>(clusters);
  return launch;
}

int64_t LstmKernels::row_of(int64_t tile) const {
  return tile * (shape_.window + 1) * kLstmTileRows;
}

int64_t LstmKernels::rows() const {
  return row_of(tiles_);
}

at::TensorOptions LstmKernels::options(at::ScalarType type) const {
  return at::TensorOptions().device(device_).dtype(type);
}

LstmRowsCopy LstmKernels::rows_copy(const at::Tensor& sequence, const at::Tensor& rows) const {
  LstmRowsCopy copy;
  copy.sequence_type = element_of(sequence);
  copy.bfloat16 = shape_.type == at::kBFloat16;
  copy.sequence_batch_stride = sequence.stride(0);
  copy.sequence_step_stride = sequence.stride(1);
  copy.batch = shape_.batch;
  copy.tiles = tiles_;
  copy.window = shape_.window;
  copy.columns = sequence.size(2);
  copy.row_columns = rows.size(1);
  copy.row_stride = rows.stride(0);
  return copy;
}

void LstmKernels::copy_to_rows(const at::Tensor& sequence, const at::Tensor& rows) const {
  TORCH_CHECK(
      sequence.dim() == 3 && sequence.size(0) == shape_.batch && sequence.size(1) == shape_.window,
      "LSTM kernels for batch ", shape_.batch, " and window ", shape_.window,
      " were given a sequence of ", sequence.sizes());
  const at::Tensor from = sequence.stride(2) == 1 ? sequence : sequence.contiguous();
  LstmRowsCopy copy = rows_copy(from, rows);
  copy.from = from.const_data_ptr();
  copy.to = rows.mutable_data_ptr();
  lstm_sequence_to_rows(copy, c10::cuda::getCurrentCUDAStream());
}

at::Tensor LstmKernels::to_rows(const at::Tensor& sequence) const {
  const c10::cuda::CUDAGuard guard(device_);
  at::Tensor rows =
      at::empty({this->rows(), rounded_up(sequence.size(-1), kAlignment)}, options(shape_.type));
  copy_to_rows(sequence, rows);
  return rows;
}

at::Tensor LstmKernels::to_sequence(const at::Tensor& rows, int64_t n) const {
  TORCH_CHECK(rows.dim() == 2 && rows.stride(1) == 1 && rows.size(0) == this->rows() &&
                  rows.size(1) >= n && rows.scalar_type() == shape_.type,
              "rows of an LSTM were given as ", rows.sizes());
  const c10::cuda::CUDAGuard guard(device_);
  const at::Tensor sequence = at::empty({shape_.batch, shape_.window, n}, rows.options());
  LstmRowsCopy copy = rows_copy(sequence, rows);
  copy.from = rows.const_data_ptr();
  copy.to = sequence.mutable_data_ptr();
  lstm_rows_to_sequence(copy, c10::cuda::getCurrentCUDAStream());
  return sequence;
}

at::Tensor LstmKernels::output_rows(const at::Tensor& hidden) const {
  return hidden.narrow(0, kLstmTileRows, rows());
}

at::Tensor LstmKernels::padded(const at::Tensor& weight) const {
  const int64_t missing = rounded_up(weight.size(1), kAlignment) - weight.size(1);
  return missing == 0 ? weight : at::constant_pad_nd(weight, {0, missing});
}

template <typename Layer>
void LstmKernels::check_layers(const std::vector<Layer>& layers, const char* what,
                               at::ScalarType matrices) const {
  TORCH_CHECK(static_cast<int64_t>(layers.size()) == shape_.layers, "an LSTM of ", shape_.layers,
              " layers was given ", what, " of ", layers.size());
  const int64_t gates = kGates * shape_.hidden;
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    const Layer& l = layers.at(layer);
    const auto check = [&](const at::Tensor& tensor, const char* name, at::IntArrayRef sizes,
                           at::ScalarType type) {
      TORCH_CHECK(tensor.sizes() == sizes && tensor.scalar_type() == type &&
                      tensor.device() == device_ && tensor.is_contiguous(),
                  what, " of layer ", layer, ": ", name, " must be ", sizes, ' ', type, " on ",
                  device_, ", is ", tensor.sizes(), ' ', tensor.scalar_type(), " on ",
                  tensor.device());
    };
    int64_t inputs = layer == 0 ? shape_.inputs : shape_.hidden;
    // Padded, which weights may be and gradients not.
    if (matrices != at::kFloat && l.weight_ih.size(-1) == row_inputs()) inputs = row_inputs();
    check(l.weight_ih, "weight_ih", {gates, layer == 0 ? inputs : shape_.hidden}, matrices);
    check(l.weight_hh, "weight_hh", {gates, shape_.hidden}, matrices);
    check(l.bias_ih, "bias_ih", {gates}, at::kFloat);
    check(l.bias_hh, "bias_hh", {gates}, at::kFloat);
  }
}

int64_t LstmKernels::row_inputs() const {
  return rounded_up(shape_.inputs, kAlignment);
}

std::vector<LstmLayerWeights> LstmKernels::cast(const std::vector<at::Tensor>& parameters) const {
  constexpr size_t kTensorsOfLayer = 4;
  const c10::cuda::CUDAGuard guard(device_);
  std::vector<LstmLayerWeights> layers;
  std::vector<LstmCasts> launches(1);
  const auto to_half = [&](const at::Tensor& weight) {
    if (weight.scalar_type() != at::kFloat || !weight.is_contiguous()) {
      return weight.to(shape_.type).contiguous();
    }
    if (launches.back().count == kLstmMostCasts) launches.emplace_back();
    at::Tensor half =
        at::empty({weight.size(0), rounded_up(weight.size(1), kAlignment)}, options(shape_.type));
    LstmCasts& casts = launches.back();
    casts.matrices[casts.count++] = {weight.const_data_ptr<float>(), half.mutable_data_ptr(),
                                     weight.size(0), weight.size(1), half.size(1)};
    return half;
  };
  for (size_t i = 0; i < parameters.size(); i += kTensorsOfLayer) {
    layers.push_back({to_half(parameters[i]), to_half(parameters[i + 1]),
                      parameters[i + 2].to(at::kFloat), parameters[i + 3].to(at::kFloat)});
  }
  // Not before the memory is there: LibTorch may fill it first, on the current stream.
  order(c10::cuda::getCurrentCUDAStream(), side_);
  for (const LstmCasts& casts : launches) {
    cast_lstm_weights(casts, shape_.type == at::kBFloat16, side_);
  }
  return layers;
}

void LstmKernels::wait_for_cast() const {
  order(side_, c10::cuda::getCurrentCUDAStream());
}

LstmTape LstmKernels::begin(const at::Tensor& sequence, bool keep) const {
  TORCH_CHECK(sequence.size(-1) == shape_.inputs, "an LSTM of ", shape_.inputs,
              " inputs was given a sequence of ", sequence.sizes());
  const c10::cuda::CUDAGuard guard(device_);
  const int64_t saved = kLstmTileRows * shape_.hidden;  // of a step of a tile
  LstmTape tape;
  tape.states = at::empty(
      {rows() + kLstmTileRows * shape_.layers, row_inputs() + shape_.layers * shape_.hidden},
      options(shape_.type));
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    tape.hidden.push_back(tape.states.narrow(0, kLstmTileRows * layer, rows() + kLstmTileRows)
                              .narrow(1, row_inputs() + shape_.hidden * layer, shape_.hidden));
    if (!keep) continue;
    tape.gates.push_back(at::empty({tiles_, shape_.window, kGates * saved}, options(at::kHalf)));
    tape.cells.push_back(at::empty({tiles_, shape_.window, saved}, options(at::kFloat)));
  }
  tape.last = at::empty({tiles_ * kLstmTileRows, shape_.hidden}, options(shape_.type))
                  .narrow(0, 0, shape_.batch);
  copy_to_rows(sequence, tape.states.narrow(0, 0, rows()).narrow(1, 0, row_inputs()));
  return tape;
}

void LstmKernels::forward(LstmTape& tape, const std::vector<LstmLayerWeights>& weights) const {
  check_layers(weights, "weights", shape_.type);
  const c10::cuda::CUDAGuard guard(device_);
  const at::NoGradGuard no_grad;
  const int64_t gates = kGates * shape_.hidden;
  const bool keep = !tape.gates.empty();
  const at::Tensor rows = tape.states.narrow(0, 0, this->rows()).narrow(1, 0, row_inputs());
  std::vector<at::Tensor> projections(shape_.layers);

  for (const std::vector<LstmTiles>& round : rounds(forward_clusters_)) {
    auto launch = launch_of<LstmForwardJob>(forward_clusters_);
    LstmForwardJob* job = launch.jobs;
    for (const LstmTiles& part : round) {
      const LstmLayerWeights& w = weights.at(part.layer);
      at::Tensor& projection = projections.at(part.layer);
      // What rounds to BF16 would be most of the error.
      const at::ScalarType type = shape_.type == at::kBFloat16 ? at::kFloat : shape_.type;
      if (part.first == 0) projection = at::empty({this->rows(), gates}, options(type));
      // The first layer's inputs are all there.
      const bool all = part.layer == 0;
      if (!all || part.first == 0) {
        const at::Tensor& input = all ? rows : output_rows(tape.hidden.at(part.layer - 1));
        const int64_t begin = row_of(part.first);
        const int64_t count = all ? this->rows() : row_of(part.tiles);
        at::Tensor to = projection.narrow(0, begin, count);
        const at::Tensor from = input.narrow(0, begin, count);
        if (type == shape_.type) {
          at::mm_out(to, from, padded(w.weight_ih).t());
        } else {
          at::mm_out(to, from, padded(w.weight_ih).t(), type);
        }
      }
      job->projection = projection.const_data_ptr();
      job->weight_hh = w.weight_hh.const_data_ptr();
      job->bias_ih = w.bias_ih.const_data_ptr<float>();
      job->bias_hh = w.bias_hh.const_data_ptr<float>();
      job->hidden = tape.hidden.at(part.layer).mutable_data_ptr();
      job->hidden_stride = tape.states.stride(0);
      if (part.layer + 1 == shape_.layers) job->last = tape.last.mutable_data_ptr();
      if (keep) {
        job->gates = tape.gates.at(part.layer).mutable_data_ptr();
        job->cells = tape.cells.at(part.layer).mutable_data_ptr<float>();
      }
      job->first_tile = part.first;
      job->tiles = part.tiles;
      ++job;
    }
    launch_lstm_forward(launch, c10::cuda::getCurrentCUDAStream());
    // Memory of a layer that is through may be had by the next one's.
    for (const LstmTiles& part : round) {
      if (part.first + part.tiles == tiles_) projections.at(part.layer).reset();
    }
  }
}

std::vector<LstmLayerGradients> LstmKernels::zero_gradients() const {
  const int64_t gates = kGates * shape_.hidden;
  std::vector<LstmLayerGradients> gradients;
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    const auto zeros = [&](at::IntArrayRef sizes) { return at::zeros(sizes, options(at::kFloat)); };
    gradients.push_back({zeros({gates, layer == 0 ? shape_.inputs : shape_.hidden}),
                         zeros({gates, shape_.hidden}), zeros({gates}), zeros({gates})});
  }
  return gradients;
}

at::Tensor LstmKernels::backward(const LstmTape& tape, const std::vector<LstmLayerWeights>& weights,
                                 const Incoming& incoming,
                                 std::vector<LstmLayerGradients>& gradients, bool input_gradient,
                                 const LayerDone& done) const {
  check_layers(weights, "weights", shape_.type);
  check_layers(gradients, "gradients", at::kFloat);
  TORCH_CHECK(static_cast<int64_t>(tape.gates.size()) == shape_.layers,
              "an LSTM's backward needs a tape that was kept");
  TORCH_CHECK(incoming.rows || incoming.last, "an LSTM's backward was given no gradient");
  const auto check = [&](const std::optional<at::Tensor>& gradient, int64_t count) {
    TORCH_CHECK(!gradient || (gradient->sizes() == at::IntArrayRef{count, shape_.hidden} &&
                              gradient->scalar_type() == shape_.type && gradient->is_contiguous()),
                "gradients of an LSTM's output must be (", count, ", ", shape_.hidden, ") ",
                shape_.type);
  };
  check(incoming.rows, rows());
  check(incoming.last, shape_.batch);
  const c10::cuda::CUDAGuard guard(device_);
  const at::NoGradGuard no_grad;
  const int64_t gates = kGates * shape_.hidden;
  const int64_t top = shape_.layers - 1;

  std::vector<at::Tensor> of_gates(shape_.layers);
  std::vector<at::Tensor> of_bias(shape_.layers);
  std::vector<at::Tensor> of_output(shape_.layers);  // rows
  at::Tensor of_input;
  if (incoming.rows) of_output.at(top) = *incoming.rows;
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    of_gates.at(layer) = at::empty({rows(), gates}, options(shape_.type));
    of_bias.at(layer) = at::empty({tiles_ / together_, gates}, options(at::kFloat));
    if (layer < top) of_output.at(layer) = at::empty({rows(), shape_.hidden}, options(shape_.type));
  }
  if (input_gradient) {
    of_input = at::empty({rows(), rounded_up(shape_.inputs, kAlignment)}, options(shape_.type));
  }

  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const auto weight_gradients = [&](int64_t layer) {
    const int64_t inputs = layer == 0 ? row_inputs() : shape_.hidden;
    const int64_t first = layer == 0 ? 0 : row_inputs() + (layer - 1) * shape_.hidden;
    const at::Tensor states = tape.states.narrow(0, kLstmTileRows * layer, rows())
                                  .narrow(1, first, inputs + shape_.hidden);
    const at::Tensor product = at::mm(of_gates.at(layer).t(), states, at::kFloat);
    LstmLayerGradients& g = gradients.at(layer);
    LstmGradientSum sum;
    sum.product = product.const_data_ptr<float>();
    sum.bias_shares = of_bias.at(layer).const_data_ptr<float>();
    sum.count = of_bias.at(layer).size(0);
    sum.inputs = layer == 0 ? shape_.inputs : shape_.hidden;
    sum.row_inputs = inputs;
    sum.hidden = shape_.hidden;
    sum.weight_ih = g.weight_ih.mutable_data_ptr<float>();
    sum.weight_hh = g.weight_hh.mutable_data_ptr<float>();
    sum.bias_ih = g.bias_ih.mutable_data_ptr<float>();
    sum.bias_hh = g.bias_hh.mutable_data_ptr<float>();
    add_lstm_gradients(sum, c10::cuda::getCurrentCUDAStream());
    if (done) done(layer);
  };

  bool aside = false;
  const auto all = rounds(backward_clusters_);
  for (auto round = all.begin(); round != all.end(); ++round) {
    auto launch = launch_of<LstmBackwardJob>(backward_clusters_);
    LstmBackwardJob* job = launch.jobs;
    for (const LstmTiles& part : *round) {
      const int64_t layer = top - part.layer;
      const at::Tensor& output = of_output.at(layer);
      if (output.defined()) job->output_gradient = output.const_data_ptr();
      if (layer == top && incoming.last) job->last_gradient = incoming.last->const_data_ptr();
      job->weight_hh = weights.at(layer).weight_hh.const_data_ptr();
      job->gates = tape.gates.at(layer).const_data_ptr();
      job->cells = tape.cells.at(layer).const_data_ptr<float>();
      job->gate_gradient = of_gates.at(layer).mutable_data_ptr();
      job->bias_gradient = of_bias.at(layer).mutable_data_ptr<float>();
      job->first_tile = part.first;
      job->tiles = part.tiles;
      ++job;
    }
    launch_lstm_backward(launch, stream);
    for (const LstmTiles& part : *round) {
      const int64_t layer = top - part.layer;
      if (layer == 0 && !input_gradient) continue;
      const int64_t begin = row_of(part.first);
      const int64_t count = row_of(part.tiles);
      at::Tensor to = (layer > 0 ? of_output.at(layer - 1) : of_input).narrow(0, begin, count);
      at::mm_out(to, of_gates.at(layer).narrow(0, begin, count),
                 padded(weights.at(layer).weight_ih));
    }
    // The products for the weights of layers that are through go beside the next launch if that
    // leaves half of the processors idle.
    const bool idle =
        round + 1 != all.end() &&
        tiles_of(*(round + 1)) / together_ * (shape_.hidden / kLstmCtaHidden) * 2 <= processors_;
    for (const LstmTiles& part : *round) {
      if (part.first + part.tiles != tiles_) continue;
      const int64_t layer = top - part.layer;
      if (!idle) {
        weight_gradients(layer);
        continue;
      }
      aside = true;
      order(stream, side_);
      const c10::cuda::CUDAStreamGuard side(side_);
      weight_gradients(layer);
    }
  }
  if (aside) order(side_, stream);
  return of_input;
}

}  // namespace longship::models
