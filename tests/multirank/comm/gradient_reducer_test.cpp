#include "comm/gradient_reducer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include "mpi_environment.h"

namespace longship::comm {
namespace {

struct Setting {
  WireFormat wire;
  const char* name;
  float tolerance;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}

class ReducerOverMpi : public testing::TestWithParam<Setting> {
 protected:
  // Three layers trained for a few steps on gradients that every rank knows of all ranks.
  static void check(at::Device device, const Setting& setting, bool shard) {
    auto& communicator = MpiEnvironment::current().communicator();
    const std::vector<std::vector<int64_t>> shapes{{64, 33}, {64}, {300, 64}, {300}, {5, 300}};
    std::vector<at::Tensor> parameters;
    for (const auto& shape : shapes) {
      parameters.push_back(torch::zeros(shape, device).requires_grad_());
    }
    ReducerOptions options;
    options.wire = setting.wire;
    options.first_bucket_bytes = 4096;
    options.bucket_bytes = 32768;
    options.shard = shard;
    GradientReducer reducer(parameters, communicator, options);
    for (int step = 0; step < 4; ++step) {
      reducer.zero();
      const int micro_steps = 1 + communicator.rank() % 2;
      for (int m = 0; m < micro_steps; ++m) {
        reducer.begin_micro_step(m + 1 == micro_steps);
        at::Tensor loss = torch::zeros({}, device);
        for (size_t p = 0; p < shapes.size(); ++p) {
          const auto gradient = gradient_of(shapes[p], step, communicator.rank(), m, p);
          loss = loss + (parameters[p] * gradient.to(device)).sum();
        }
        loss.backward();
      }
      reducer.finalize();
      std::vector<at::Tensor> sums;
      for (size_t p = 0; p < shapes.size(); ++p) {
        at::Tensor want = torch::zeros(shapes[p]);
        for (int r = 0; r < communicator.size(); ++r) {
          for (int m = 0; m < 1 + r % 2; ++m) want += gradient_of(shapes[p], step, r, m, p);
        }
        sums.push_back(want);
      }
      for (const GradientPiece& piece : reducer.pieces()) {
        const auto p = static_cast<size_t>(piece.parameter);
        const at::Tensor want = sums[p].view(-1).narrow(0, piece.begin, piece.gradient.numel());
        const at::Tensor found = piece.gradient.cpu().view(-1);
        EXPECT_LT((found - want).abs().max().item<float>() / sums[p].abs().max().item<float>(),
                  setting.tolerance)
            << step << ' ' << p;
      }
      if (shard) check_spread(reducer, parameters, communicator.rank());
    }
  }

  // Every rank writes its number into its pieces; then all ranks hold all numbers.
  static void check_spread(GradientReducer& reducer, const std::vector<at::Tensor>& parameters,
                           int rank) {
    const torch::NoGradGuard no_grad;
    for (const GradientPiece& piece : reducer.pieces()) {
      at::Tensor values = piece.values;
      values.fill_(static_cast<float>(rank + 1));
    }
    reducer.pack_parameters();
    reducer.communicate_parameters();
    reducer.unpack_parameters();
    for (const GradientPiece& piece : reducer.pieces()) {
      EXPECT_TRUE(piece.values.eq(rank + 1).all().item<bool>());
    }
    for (const at::Tensor& parameter : parameters) {
      EXPECT_TRUE(parameter.gt(0).all().item<bool>());
      // Parts follow each other by rank.
      const at::Tensor flat = parameter.view(-1);
      EXPECT_TRUE(flat.narrow(0, 1, flat.numel() - 1)
                      .ge(flat.narrow(0, 0, flat.numel() - 1))
                      .all()
                      .item<bool>());
    }
  }

 private:
  static at::Tensor gradient_of(const std::vector<int64_t>& shape, int step, int rank, int micro,
                                size_t parameter) {
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(
        ((step * 100 + rank) * 10 + micro) * 10 + static_cast<int>(parameter)));
    return torch::randn(shape, generator, torch::kFloat) * 1e-5F;
  }
};

TEST_P(ReducerOverMpi, SumsOnCpu) {
  check(at::kCPU, GetParam(), /*shard=*/false);
}

TEST_P(ReducerOverMpi, SumsOnGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  check(at::Device(at::kCUDA, 0), GetParam(), /*shard=*/false);
}

TEST_P(ReducerOverMpi, ShardsOnCpu) {
  check(at::kCPU, GetParam(), /*shard=*/true);
}

TEST_P(ReducerOverMpi, ShardsOnGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  check(at::Device(at::kCUDA, 0), GetParam(), /*shard=*/true);
}

std::string setting_name(const testing::TestParamInfo<Setting>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(Wire, ReducerOverMpi,
                         testing::Values(Setting{WireFormat::kFp32, "fp32", 1e-5F},
                                         Setting{WireFormat::kFp16, "fp16", 2e-3F},
                                         Setting{WireFormat::kBf16, "bf16", 2e-2F}),
                         setting_name);

}  // namespace
}  // namespace longship::comm
