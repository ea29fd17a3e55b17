#include "comm/stream_mark.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/torch.h>

#include <chrono>
#include <thread>

#include "comm/gradient_reducer.h"
#include "comm/local_communicator.h"

namespace longship::comm {
namespace {

TEST(StreamMark, IsReachedAtOnceOnTheCpu) {
  StreamMark mark;
  EXPECT_TRUE(mark.reached());
  mark.record(at::kCPU);
  mark.block(at::kCPU);
  EXPECT_TRUE(mark.reached());
}

class StreamMarkGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  }
  // Some hundred milliseconds of work on the current stream, at its end `number` in `result`.
  static void work(const at::Tensor& result, float number) {
    at::Tensor matrix = torch::full({8192, 8192}, 1e-4F, result.device());
    for (int i = 0; i < 20; ++i) matrix = matrix.mm(matrix);
    result.copy_(matrix[0][0] * 0 + number);
  }
  const at::Device gpu_{at::kCUDA, 0};
};

TEST_F(StreamMarkGpu, IsReachedOnceTheStreamHasPassedIt) {
  const at::Tensor result = torch::zeros({}, gpu_);
  work(result, 1);
  torch::cuda::synchronize();
  work(result, 3);
  StreamMark mark;
  mark.record(gpu_);
  EXPECT_FALSE(mark.reached());
  std::thread([&] {  // as the MPI thread asks
    while (!mark.reached()) std::this_thread::sleep_for(std::chrono::microseconds(10));
  })
      .join();
  EXPECT_EQ(result.item<float>(), 3);
}

TEST_F(StreamMarkGpu, HoldsAnotherStreamBack) {
  const at::Tensor result = torch::zeros({}, gpu_);
  const at::Tensor seen = torch::zeros({}, gpu_);
  torch::cuda::synchronize();
  work(result, 5);
  StreamMark mark;
  mark.record(gpu_);
  {
    const c10::impl::VirtualGuardImpl streams(at::kCUDA);
    const c10::StreamGuard other(streams.getStreamFromGlobalPool(gpu_));
    mark.block(gpu_);
    seen.copy_(result);
  }
  torch::cuda::synchronize();
  EXPECT_EQ(seen.item<float>(), 5);
}

TEST_F(StreamMarkGpu, MarksOfSeveralStreamsAllHoldBack) {
  const at::Tensor results = torch::zeros({2}, gpu_);
  const at::Tensor seen = torch::zeros({2}, gpu_);
  torch::cuda::synchronize();
  const c10::impl::VirtualGuardImpl streams(at::kCUDA);
  StreamMarks marks;
  for (int64_t i = 0; i < 2; ++i) {
    const c10::StreamGuard other(streams.getStreamFromGlobalPool(gpu_));
    marks.record(gpu_);
    work(results[i], static_cast<float>(i + 1));
    marks.record(gpu_);  // in place of the one before
  }
  {
    const c10::StreamGuard other(streams.getStreamFromGlobalPool(gpu_));
    marks.block(gpu_);
    seen.copy_(results);
  }
  torch::cuda::synchronize();
  EXPECT_EQ(seen[0].item<float>(), 1);
  EXPECT_EQ(seen[1].item<float>(), 2);
}

// A gradient that is made beside the others, as by a node that adds to .grad on a stream of its
// own.
TEST_F(StreamMarkGpu, ABucketWaitsForGradientsOfEveryStream) {
  const auto alone = make_local_communicator();
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 2; ++i) {
    parameters.push_back(torch::zeros({64}, torch::device(gpu_).requires_grad(true)));
  }
  ReducerOptions options;
  options.wire = WireFormat::kFp16;
  options.cast_alone = true;
  GradientReducer reducer(parameters, *alone, options);
  const c10::impl::VirtualGuardImpl streams(at::kCUDA);
  const auto arrive = [](const at::Tensor& parameter) {
    (*torch::autograd::impl::post_acc_grad_hooks(parameter))(parameter);
  };
  for (int step = 1; step <= 2; ++step) {  // the first only finds the wire's scale
    reducer.zero();
    reducer.begin_micro_step(true);
    torch::cuda::synchronize();
    {
      const c10::StreamGuard other(streams.getStreamFromGlobalPool(gpu_));
      const at::Tensor late = torch::zeros({}, gpu_);
      work(late, 7);
      parameters[0].mutable_grad().add_(late);
      arrive(parameters[0]);
    }
    parameters[1].mutable_grad().add_(3);
    arrive(parameters[1]);
    reducer.finalize();
    torch::cuda::synchronize();
    EXPECT_EQ(parameters[0].grad().sum().item<float>(), 64 * 7);
    EXPECT_EQ(parameters[1].grad().sum().item<float>(), 64 * 3);
  }
}

}  // namespace
}  // namespace longship::comm
