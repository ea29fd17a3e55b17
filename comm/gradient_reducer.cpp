#include "comm/gradient_reducer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "comm/bucket_layout.h"
#include "comm/gradient_hook.h"
#include "comm/gradient_shards.h"
#include "comm/stream_mark.h"
#include "comm/wire_scale.h"

// Note [Why buckets are sent in index order]
// A collective pairs with the other ranks' by its place in the order of calls, not by what it
// holds. Which bucket is complete first depends on the autograd engine and on which parameters a
// rank's data reached. So a bucket takes off when it is complete *and* all before it have; one that
// never completes (a parameter without gradient) is sent by finalize(), with zeros where nothing
// came. Every rank thus makes the same calls in the same order, whatever its graph did.
//
// Note [Gradients are views]
// Each .grad is a view of its bucket, so neither packing nor unpacking copies anything. It works
// only while autograd adds to .grad in place: it does so when .grad is defined and no graph of the
// backward is made. A gradient set to none, or replaced, would silently train on zeros; every hook
// therefore compares the address.
//
// Note [Streams]
// Communication has a stream of its own, of high priority, so that it overlaps with backward. Where
// a bucket takes off it waits for the bucket's gradients, each on the stream that was current when
// its hook ran (a model may compute some beside others); the compute stream waits for it once, in
// finalize(). All persistent memory is made in the constructor, so the caching allocator never
// hands a bucket to another stream.

namespace longship::comm {
namespace {

constexpr int64_t kBucketAlignment = 64;  // elements: 256 bytes, as of memory from CUDA

at::ScalarType dtype_of(WireFormat wire) {
  switch (wire) {
    case WireFormat::kFp32:
      return at::kFloat;
    case WireFormat::kFp16:
      return at::kHalf;
    case WireFormat::kBf16:
      return at::kBFloat16;
  }
  throw std::invalid_argument("unknown wire format");
}

std::string describe(const std::vector<at::Tensor>& parameters, size_t index) {
  std::ostringstream text;
  text << "parameter " << index << " of shape " << parameters[index].sizes();
  return text.str();
}

std::vector<at::Tensor> checked(std::vector<at::Tensor> parameters) {
  if (parameters.empty()) throw std::invalid_argument("GradientReducer: there are no parameters");
  for (size_t p = 0; p < parameters.size(); ++p) {
    const at::Tensor& parameter = parameters[p];
    const char* fault = nullptr;
    if (!parameter.is_leaf() || !parameter.requires_grad()) fault = "is not a leaf with gradient";
    if (parameter.scalar_type() != at::kFloat) fault = "is not float32";
    if (parameter.device() != parameters[0].device()) fault = "is on another device than the first";
    if (parameter.numel() == 0) fault = "has no elements";
    for (size_t other = 0; other < p; ++other) {
      if (parameter.is_same(parameters[other])) {
        fault = "is in the list twice: register a module that serves twice once";
      }
    }
    if (!parameter.is_non_overlapping_and_dense()) fault = "is not dense";
    if (fault) {
      throw std::invalid_argument("GradientReducer: " + describe(parameters, p) + " " + fault);
    }
  }
  return parameters;
}

std::vector<int64_t> element_counts(const std::vector<at::Tensor>& parameters) {
  std::vector<int64_t> counts;
  counts.reserve(parameters.size());
  for (const auto& parameter : parameters) counts.push_back(parameter.numel());
  return counts;
}

std::vector<BucketLayout> chosen_layout(const std::vector<int64_t>& counts,
                                        const ReducerOptions& options) {
  if (!options.layout.empty() && is_layout_of(options.layout, counts)) return options.layout;
  return make_bucket_layout(counts, options.first_bucket_bytes, options.bucket_bytes,
                            options.order);
}

// A number that two reducers share only when parameters and buckets are alike (FNV-1a of sizes).
int64_t fingerprint(const std::vector<at::Tensor>& parameters,
                    const std::vector<BucketLayout>& layout) {
  uint64_t hash = 14695981039346656037ULL;
  const auto add = [&hash](int64_t number) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 1099511628211ULL;
  };
  for (const auto& parameter : parameters) {
    add(parameter.dim());
    for (const int64_t size : parameter.sizes()) add(size);
  }
  for (const BucketLayout& bucket : layout) {
    add(bucket.elements);
    for (const int64_t p : bucket.parameters) add(p);
  }
  return static_cast<int64_t>(hash >> 2U);
}

// Buckets of different sizes would meet in a collective and hang it or mix gradients.
void check_equal_on_all_ranks(const std::vector<at::Tensor>& parameters,
                              const std::vector<BucketLayout>& layout, Communicator& communicator) {
  const int64_t own = fingerprint(parameters, layout);
  const at::Tensor extremes =
      at::tensor({own, -own}, at::TensorOptions().dtype(at::kLong)).to(parameters[0].device());
  communicator.all_reduce(extremes, ReduceOp::kMax);
  const at::Tensor host = extremes.cpu();
  if (host[0].item<int64_t>() == -host[1].item<int64_t>()) return;
  throw std::logic_error("GradientReducer: the ranks hold different parameters or buckets (rank " +
                         std::to_string(communicator.rank()) + " has " +
                         std::to_string(parameters.size()) +
                         "): every rank must build the same model");
}

}  // namespace

struct GradientReducer::Impl {
  enum class Phase { kAccumulate, kLast, kFinal };

  Impl(std::vector<at::Tensor> parameters_of_model, Communicator& communicator_of_group,
       const ReducerOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void make_views();
  void make_pieces();
  void make_wire();
  void gradient_arrived(size_t parameter);
  void agree_on_factors();
  void pack(size_t bucket);
  void unpack(size_t bucket);
  std::unique_ptr<Work> send(size_t bucket);
  // ready: what the next bucket waits for.
  template <typename Marks>
  void launch_next(const Marks& ready);
  void finalize();

  at::Device device() const { return parameters[0].device(); }
  bool half() const { return wire_dtype != at::kFloat; }
  // Whether codes of wire scales travel by themselves: with all-reduce they lie in the wire.
  bool codes_apart() const { return shards && half(); }

  std::vector<at::Tensor> parameters;
  Communicator& communicator;
  at::ScalarType wire_dtype;  // float32 also where nothing is sent to anyone
  std::vector<BucketLayout> layout;
  std::optional<GradientShards> shards;  // only where updates are sharded
  at::Tensor storage;                    // all buckets, one after the other
  std::vector<at::Tensor> buckets;       // parts of it
  std::vector<at::Tensor> views;         // by parameter
  std::vector<size_t> bucket_of;         // by parameter
  std::vector<GradientPiece> pieces;
  at::Tensor wire_storage;
  std::vector<at::Tensor> wire;  // by bucket: [gradients | a slot for each rank]; half only
  at::Tensor code_places;        // of this rank's slots in wire_storage
  WireScale scale;
  at::Tensor loss_scale;
  std::optional<c10::Stream> comm_stream;  // none on the CPU
  StreamMark compute_mark;
  StreamMark comm_mark;

  // Of the step under way.
  Phase phase = Phase::kAccumulate;
  bool overlap = true;
  std::vector<bool> arrived;                 // by parameter, in the last micro-step
  std::vector<size_t> missing;               // by bucket: parameters that have not arrived
  std::vector<StreamMarks> arrivals;         // by bucket: where those that have are complete
  std::vector<std::unique_ptr<Work>> works;  // by bucket, in order; its size is the next to send
};

GradientReducer::Impl::Impl(std::vector<at::Tensor> parameters_of_model,
                            Communicator& communicator_of_group, const ReducerOptions& options)
    : parameters(checked(std::move(parameters_of_model))),
      communicator(communicator_of_group),
      wire_dtype(communicator.size() > 1 || options.cast_alone ? dtype_of(options.wire)
                                                               : at::kFloat),
      layout(chosen_layout(element_counts(parameters), options)),
      scale(static_cast<int64_t>(layout.size()), communicator.rank(), communicator.size(),
            device()) {
  check_equal_on_all_ranks(parameters, layout, communicator);
  if (options.shard) shards.emplace(parameters, layout, communicator, wire_dtype);
  const c10::impl::VirtualGuardImpl streams(device().type());
  if (!device().is_cpu()) {
    comm_stream = streams.getStreamFromGlobalPool(device(), /*isHighPriority=*/true);
  }
  make_views();
  make_pieces();
  make_wire();
  for (size_t p = 0; p < parameters.size(); ++p) {
    set_gradient_hook(parameters[p], [this, p] { gradient_arrived(p); });
  }
}

GradientReducer::Impl::~Impl() {
  for (const auto& parameter : parameters) {
    set_gradient_hook(parameter, nullptr);
  }
  const bool unfinished = !works.empty();
  works.clear();
  if (!unfinished || !comm_stream) return;
  try {
    comm_stream->synchronize();      // buckets must not be freed under it
  } catch (const std::exception&) {  // the device is lost, and with it what was on it
  }
}

void GradientReducer::Impl::make_views() {
  int64_t elements = 0;
  std::vector<int64_t> starts;
  for (const BucketLayout& bucket : layout) {
    starts.push_back(elements);
    elements +=
        shards ? shard_elements(bucket.elements, communicator.size()) * communicator.size()
               : (bucket.elements + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
  }
  starts.push_back(elements);
  storage = at::zeros({elements}, at::TensorOptions().dtype(at::kFloat).device(device()));
  views.resize(parameters.size());
  bucket_of.resize(parameters.size());
  arrived.resize(parameters.size());
  missing.resize(layout.size());
  arrivals.resize(layout.size());
  for (size_t b = 0; b < layout.size(); ++b) {
    // All parts of a sharded bucket are of equal size, zeros behind its elements among them.
    buckets.push_back(
        storage.narrow(0, starts[b], shards ? starts[b + 1] - starts[b] : layout[b].elements));
    for (size_t i = 0; i < layout[b].parameters.size(); ++i) {
      const auto p = static_cast<size_t>(layout[b].parameters[i]);
      const at::Tensor& parameter = parameters[p];
      views[p] = storage.as_strided(parameter.sizes(), parameter.strides(),
                                    starts[b] + layout[b].offsets[i]);
      bucket_of[p] = b;
      parameters[p].mutable_grad() = views[p];
    }
  }
}

void GradientReducer::Impl::make_pieces() {
  if (shards) {
    pieces = shards->pieces();
    return;
  }
  for (size_t p = 0; p < parameters.size(); ++p) {
    pieces.push_back({static_cast<int64_t>(p), 0, parameters[p], views[p]});
  }
}

void GradientReducer::Impl::make_wire() {
  if (!half()) return;
  int64_t elements = 0;
  std::vector<int64_t> starts;
  std::vector<int64_t> places;
  for (const auto& bucket : buckets) {
    starts.push_back(elements);
    places.push_back(elements + bucket.numel() + communicator.rank());
    elements += (bucket.numel() + communicator.size() + kBucketAlignment - 1) / kBucketAlignment *
                kBucketAlignment;
  }
  wire_storage = at::zeros({elements}, at::TensorOptions().dtype(wire_dtype).device(device()));
  for (size_t b = 0; b < buckets.size(); ++b) {
    wire.push_back(wire_storage.narrow(0, starts[b], buckets[b].numel() + communicator.size()));
  }
  code_places = at::tensor(places, at::kLong).to(device());
}

void GradientReducer::Impl::gradient_arrived(size_t parameter) {
  if (parameters[parameter].grad().data_ptr() != views[parameter].data_ptr()) {
    throw std::logic_error("GradientReducer: the gradient of " + describe(parameters, parameter) +
                           " is no longer a view of its bucket: clear gradients with "
                           "GradientReducer::zero() only, and run backward without create_graph");
  }
  if (phase != Phase::kLast) return;
  if (arrived[parameter]) {
    throw std::logic_error("GradientReducer: the gradient of " + describe(parameters, parameter) +
                           " came twice in the last micro-step: run backward once, on the sum of "
                           "the losses");
  }
  arrived[parameter] = true;
  --missing[bucket_of[parameter]];
  arrivals[bucket_of[parameter]].record(device());
  // Without scales nothing can be sent before all ranks have agreed on them in finalize().
  if (!overlap || (half() && !scale.known())) return;
  while (works.size() < buckets.size() && missing[works.size()] == 0) {
    launch_next(arrivals[works.size()]);
  }
}

// See Note [Wire scale]: only where there is no history, on all ranks alike.
void GradientReducer::Impl::agree_on_factors() {
  const at::Tensor codes = WireScale::codes(buckets, loss_scale);
  communicator.all_reduce(codes, ReduceOp::kMax);
  scale.use_codes(codes);
}

void GradientReducer::Impl::pack(size_t bucket) {
  if (half()) scale.pack(static_cast<int64_t>(bucket), buckets[bucket], wire[bucket], loss_scale);
}

void GradientReducer::Impl::unpack(size_t bucket) {
  if (!half()) return;
  if (shards) {
    scale.unpack(static_cast<int64_t>(bucket), shards->received(bucket), shards->gradients(bucket),
                 loss_scale);
  } else {
    scale.unpack(static_cast<int64_t>(bucket), wire[bucket], buckets[bucket], loss_scale);
  }
}

std::unique_ptr<Work> GradientReducer::Impl::send(size_t bucket) {
  const at::Tensor& packed = half() ? wire[bucket] : buckets[bucket];
  if (shards) return shards->reduce(bucket, packed.narrow(0, 0, buckets[bucket].numel()));
  return communicator.all_reduce_async(packed, ReduceOp::kSum);
}

template <typename Marks>
void GradientReducer::Impl::launch_next(const Marks& ready) {
  const size_t b = works.size();
  const c10::OptionalStreamGuard guard(comm_stream);
  ready.block(device());
  pack(b);
  works.push_back(send(b));
}

void GradientReducer::Impl::finalize() {
  if (phase == Phase::kFinal) {
    throw std::logic_error("GradientReducer: finalize() was called twice; zero() begins a step");
  }
  phase = Phase::kFinal;
  if (half() && !scale.known()) agree_on_factors();
  compute_mark.record(device());
  while (works.size() < buckets.size()) launch_next(compute_mark);
  {
    const c10::OptionalStreamGuard guard(comm_stream);
    if (codes_apart()) {
      shards->collect_codes(wire_storage, code_places);
      shards->exchange_codes();
      shards->spread_codes();
    }
    for (size_t b = 0; b < buckets.size(); ++b) {
      works[b]->wait();
      unpack(b);
    }
    scale.step_done();
    comm_mark.record(device());
  }
  comm_mark.block(device());
  works.clear();
}

GradientReducer::GradientReducer(std::vector<at::Tensor> parameters, Communicator& communicator,
                                 const ReducerOptions& options)
    : impl_(std::make_unique<Impl>(std::move(parameters), communicator, options)) {}
GradientReducer::~GradientReducer() = default;

void GradientReducer::zero() {
  impl_->storage.zero_();
  // Left over where a capture of the step was given up.
  impl_->works.clear();
  impl_->phase = Impl::Phase::kAccumulate;
}

void GradientReducer::begin_micro_step(bool last) {
  if (impl_->phase != Impl::Phase::kAccumulate) {
    throw std::logic_error(
        "GradientReducer: a micro-step after the last one; zero() begins a step");
  }
  if (!last) return;
  impl_->phase = Impl::Phase::kLast;
  impl_->arrived.assign(impl_->arrived.size(), false);
  for (size_t b = 0; b < impl_->layout.size(); ++b) {
    impl_->missing[b] = impl_->layout[b].parameters.size();
    impl_->arrivals[b].clear();
  }
}

void GradientReducer::finalize() {
  impl_->finalize();
}

void GradientReducer::set_overlap(bool overlap) {
  impl_->overlap = overlap;
}

void GradientReducer::pack() {
  for (size_t b = 0; b < impl_->buckets.size(); ++b) impl_->pack(b);
  if (impl_->codes_apart()) impl_->shards->collect_codes(impl_->wire_storage, impl_->code_places);
}

void GradientReducer::communicate() {
  for (size_t b = 0; b < impl_->buckets.size(); ++b) impl_->works.push_back(impl_->send(b));
  if (impl_->codes_apart()) impl_->shards->exchange_codes();
  for (const auto& work : impl_->works) work->wait();
  impl_->works.clear();
}

void GradientReducer::unpack() {
  if (impl_->codes_apart()) impl_->shards->spread_codes();
  for (size_t b = 0; b < impl_->buckets.size(); ++b) impl_->unpack(b);
  impl_->phase = Impl::Phase::kFinal;
}

bool GradientReducer::settled() const {
  return !impl_->half() || impl_->scale.known();
}

void GradientReducer::poison() {
  if (impl_->phase == Impl::Phase::kFinal) return;
  // What runs backward from now on, such as a trial of what fits into memory, sends nothing.
  impl_->phase = Impl::Phase::kAccumulate;
  for (size_t b = impl_->works.size(); b < impl_->buckets.size(); ++b) {
    impl_->buckets[b].fill_(std::numeric_limits<float>::quiet_NaN());
  }
}

void GradientReducer::set_loss_scale(at::Tensor scale) {
  impl_->loss_scale = std::move(scale);
}

const std::vector<BucketLayout>& GradientReducer::layout() const {
  return impl_->layout;
}

const std::vector<at::Tensor>& GradientReducer::buckets() const {
  return impl_->buckets;
}

const std::vector<GradientPiece>& GradientReducer::pieces() const {
  return impl_->pieces;
}

const at::Tensor& GradientReducer::reduced() const {
  return impl_->shards ? impl_->shards->gradients() : impl_->storage;
}

bool GradientReducer::sharded() const {
  return impl_->shards.has_value();
}

void GradientReducer::measure() {
  impl_->shards->measure();
}

void GradientReducer::share_measure() {
  impl_->shards->share_measure();
}

const at::Tensor& GradientReducer::squares() const {
  return impl_->shards->squares();
}

void GradientReducer::pack_parameters() {
  impl_->shards->pack_parameters();
}

void GradientReducer::communicate_parameters() {
  impl_->shards->exchange_parameters(impl_->buckets);
}

void GradientReducer::unpack_parameters() {
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(impl_->parameters, impl_->views);
}

int64_t GradientReducer::wire_bytes_per_step() const {
  const auto& sent = impl_->wire.empty() ? impl_->buckets : impl_->wire;
  int64_t bytes = 0;
  for (const auto& tensor : sent) bytes += static_cast<int64_t>(tensor.nbytes());
  if (impl_->shards) bytes += static_cast<int64_t>(impl_->shards->gradients().nbytes());
  return bytes;
}

at::Tensor GradientReducer::state() const {
  return impl_->scale.history().cpu().clone();
}

void GradientReducer::load_state(const at::Tensor& state) {
  impl_->scale.load(state);
}

}  // namespace longship::comm
