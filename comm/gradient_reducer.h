#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longship::comm {

// What gradients are sent as. The sum of FP16 or BF16 is made in that type by the communicator.
enum class WireFormat { kFp32, kFp16, kBf16 };

// One bucket of the layout: which parameters lie in it, at which element offsets.
struct BucketLayout {
  std::vector<int64_t> parameters;  // indices into the list given to the constructor
  std::vector<int64_t> offsets;     // elements, same length
  int64_t elements = 0;
};

struct ReducerOptions {
  WireFormat wire = WireFormat::kFp32;
  int64_t bucket_bytes = int64_t{25} << 20;       // of FP32 gradient storage
  int64_t first_bucket_bytes = int64_t{1} << 20;  // small, so that communication starts early
  // Whether a single rank, which needs no wire, casts to it all the same: one GPU then does what
  // each of many would.
  bool cast_alone = false;
  // The order in which backward reaches the parameters; empty: the reverse of theirs.
  std::vector<int64_t> order = {};
  // A layout to be used as it is, if it is one of these parameters: sums of the same bits as those
  // of the run that it comes from need the same offsets.
  std::vector<BucketLayout> layout = {};
  // Whether a rank gets the sums of an equal part of every bucket only, to update that part of the
  // parameters and hand it to the others. See Note [Sharded updates].
  bool shard = false;
};

// A run of a parameter's elements whose summed gradients a rank gets; the whole unless sharded.
struct GradientPiece {
  int64_t parameter = 0;  // index into the list given to the constructor
  int64_t begin = 0;      // first element, in the order of the parameter's memory
  at::Tensor values;      // float32, shares storage with the parameter; flat where sharded
  at::Tensor gradient;    // as values: the sum over ranks after finalize()
};

// Gradients of all parameters in flat FP32 buckets, summed over ranks while backward goes on.
//
//   GradientReducer reducer(parameters, communicator, options);
//   for every step:
//     reducer.zero();
//     for every micro-step m:
//       reducer.begin_micro_step(/*last=*/m + 1 == micro_steps);
//       loss.backward();                  // accumulates into .grad; in the last, buckets take off
//     reducer.finalize();                 // .grad holds the sum over ranks of all micro-steps
//
// Note [Sharded updates]
// With N ranks each holds an N-th of the optimizer's state: it gets the summed gradients of an N-th
// of every bucket (reduce-scatter), updates that part of the parameters, and all hand their parts
// to all (all-gather). What a part's update needs of the others, the norm and whether all is
// finite, comes by one small collective; so do the codes of the wire scales, which elsewhere travel
// with the gradients. On the wire go as many bytes of gradients as half an all-reduce, and the
// parameters in float32. Where a sharded step ends, .grad no longer holds gradients.
//
// Each parameter's .grad is a view into its bucket and stays so. Buckets are filled in the order of
// the options and sent strictly in index order, each once a step, on every rank, also where
// parameters got no gradient (those count as zero) and where the number of micro-steps differs.
class GradientReducer {
 public:
  // parameters: leaf tensors, float32, all on one device, requires_grad; equal on all ranks.
  // The communicator must outlive the reducer.
  GradientReducer(std::vector<at::Tensor> parameters, Communicator& communicator,
                  const ReducerOptions& options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  void zero();
  void begin_micro_step(bool last);
  // Sends what has not been sent, waits for all of it, and leaves the sums in .grad. A wire
  // overflow shows as a non-finite gradient on every rank. On CUDA ordered on the current stream.
  void finalize();

  // The parts of a step whose communication cannot be captured in a CUDA graph (see
  // runtime/train_step.h). With overlap off, backward sends nothing; then
  //   pack()         casts all buckets to the wire,
  //   communicate()  sums the wires over ranks and waits,
  //   unpack()       leaves the sums in .grad, as finalize() does.
  // pack() and unpack() only put work on the current stream. They need settled().
  void set_overlap(bool overlap);
  void pack();
  void communicate();
  void unpack();
  // Whether the wire scales are known, which the first finalize() of finite gradients sees to;
  // equal on all ranks.
  bool settled() const;

  // What this rank updates. Sharded: at most one piece of a parameter, none of some.
  const std::vector<GradientPiece>& pieces() const;
  // The gradients of all pieces in one tensor, float32 (elements,), with zeros between them.
  const at::Tensor& reduced() const;

  // With options.shard, after finalize(): the sum of squares of every rank's reduced gradients in
  // float64, (ranks,) on the device; not finite where any of its gradients is not. In parts:
  // measure() is work on the current stream, share_measure() the collective.
  bool sharded() const;
  void measure();
  void share_measure();
  const at::Tensor& squares() const;
  // Then, with the pieces updated: all ranks get all parameters. In parts as above.
  void pack_parameters();
  void communicate_parameters();
  void unpack_parameters();

  // For a rank whose step failed: sends the remaining buckets, poisoned with NaN, so that the other
  // ranks neither hang nor use this step. finalize() must follow.
  void poison();

  // The loss scale by which the gradients are multiplied at the moment: a float32 scalar tensor on
  // the gradients' device, a power of two; undefined means 1. Wire scales are kept without it.
  void set_loss_scale(at::Tensor scale);

  const std::vector<BucketLayout>& layout() const;
  // The flat float32 storage of each bucket (elements,): this rank's gradients; after finalize(),
  // unless sharded, the reduced ones.
  const std::vector<at::Tensor>& buckets() const;
  // Bytes handed to the communicator by this rank for one step.
  int64_t wire_bytes_per_step() const;

  // What must be kept over a resume for equal bits: the history behind the wire scales, a CPU
  // tensor (buckets, history), with NaN where there is none yet. load_state ignores a state of
  // another shape (other layout), and the next step then agrees on scales anew.
  at::Tensor state() const;
  void load_state(const at::Tensor& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longship::comm
