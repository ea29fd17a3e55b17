#include "communicator_suite.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>

#include "comm/text_collectives.h"

namespace longship::comm::suite {
namespace {

const std::vector<at::ScalarType> kDtypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                          at::kInt,   at::kLong,   at::kByte};

bool is_half(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16;
}

// Small whole numbers, so that sums are exact in every dtype and for every order of additions.
at::Tensor values(int rank, int64_t count, at::ScalarType dtype) {
  const auto index = torch::arange(count, torch::kLong);
  auto numbers = index.remainder(7) * (rank + 1) + rank;
  if (dtype != at::kByte) numbers = numbers - 3 * (rank + 1);
  return numbers.to(dtype);
}

at::Tensor reduced(int size, int64_t count, at::ScalarType dtype, ReduceOp op) {
  auto result = values(0, count, dtype).to(torch::kLong);
  for (int r = 1; r < size; ++r) {
    const auto next = values(r, count, dtype).to(torch::kLong);
    if (op == ReduceOp::kSum) result = result + next;
    if (op == ReduceOp::kMax) result = at::maximum(result, next);
    if (op == ReduceOp::kMin) result = at::minimum(result, next);
  }
  return result;
}

void expect_equal(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  const auto host = got.cpu();
  if (!want.is_floating_point() && host.is_floating_point()) {
    EXPECT_TRUE(torch::equal(host.to(torch::kDouble), want.to(torch::kDouble))) << what;
  } else {
    EXPECT_TRUE(torch::equal(host, want.to(host.scalar_type()))) << what;
  }
}

std::string describe(at::ScalarType dtype, int64_t count) {
  return std::string(c10::toString(dtype)) + " x " + std::to_string(count);
}

void all_reduce(Communicator& communicator, c10::Device device) {
  for (const auto dtype : kDtypes) {
    for (const auto op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      if (is_half(dtype) && op != ReduceOp::kSum) continue;
      for (const int64_t count : {0, 1, 7, 4099}) {
        const auto tensor = values(communicator.rank(), count, dtype).to(device);
        communicator.all_reduce(tensor, op);
        expect_equal(tensor, reduced(communicator.size(), count, dtype, op),
                     describe(dtype, count));
      }
    }
  }
}

void all_reduce_of_a_million(Communicator& communicator, c10::Device device) {
  const int64_t count = 1000003;
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const auto tensor = values(communicator.rank(), count, dtype).to(device);
    communicator.all_reduce(tensor, ReduceOp::kSum);
    expect_equal(tensor, reduced(communicator.size(), count, dtype, ReduceOp::kSum),
                 describe(dtype, count));
  }
}

void broadcast(Communicator& communicator, c10::Device device) {
  for (const auto dtype : kDtypes) {
    for (int root = 0; root < communicator.size(); ++root) {
      for (const int64_t count : {0, 1, 7, 4099}) {
        const auto tensor = values(communicator.rank(), count, dtype).to(device);
        communicator.broadcast(tensor, root);
        expect_equal(tensor, values(root, count, dtype), describe(dtype, count));
      }
    }
  }
}

void all_gather(Communicator& communicator, c10::Device device) {
  for (const auto dtype : kDtypes) {
    for (const int64_t count : {0, 1, 7, 4099}) {
      const auto input = values(communicator.rank(), count, dtype).to(device);
      const auto output = torch::empty({communicator.size(), count}, input.options());
      communicator.all_gather(input, output);
      for (int r = 0; r < communicator.size(); ++r) {
        expect_equal(output[r], values(r, count, dtype), describe(dtype, count));
      }
      expect_equal(input, values(communicator.rank(), count, dtype), "input is left alone");
    }
  }
}

void reduce_scatter(Communicator& communicator, c10::Device device) {
  const int size = communicator.size();
  for (const auto dtype : kDtypes) {
    for (const auto op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      if (is_half(dtype) && op != ReduceOp::kSum) continue;
      for (const int64_t part : {0, 1, 7, 1031}) {
        const auto input = values(communicator.rank(), size * part, dtype).to(device);
        const auto output = torch::empty({part}, input.options());
        communicator.reduce_scatter(input, output, op);
        const auto want = reduced(size, size * part, dtype, op);
        expect_equal(output, want.narrow(0, communicator.rank() * part, part),
                     describe(dtype, part));
        expect_equal(input, values(communicator.rank(), size * part, dtype), "input");
      }
    }
  }
}

void many_in_flight(Communicator& communicator, c10::Device device) {
  std::vector<at::Tensor> tensors;
  std::vector<std::unique_ptr<Work>> works;
  for (int64_t i = 0; i < 64; ++i) {
    const auto dtype = i % 2 == 0 ? at::kFloat : at::kHalf;
    tensors.push_back(values(communicator.rank(), 1 + 97 * i, dtype).to(device));
    works.push_back(communicator.all_reduce_async(tensors.back(), ReduceOp::kSum));
  }
  for (int64_t i = 63; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    works[at]->wait();
    const auto dtype = i % 2 == 0 ? at::kFloat : at::kHalf;
    expect_equal(tensors[at], reduced(communicator.size(), 1 + 97 * i, dtype, ReduceOp::kSum),
                 "number " + std::to_string(i));
  }
}

// The operation must take what the stream has put in the tensor before it, and what follows in the
// stream must see its result.
void in_the_order_of_the_stream(Communicator& communicator, c10::Device device) {
  const auto tensor = torch::zeros({20011}, torch::dtype(torch::kFloat).device(device));
  for (int i = 0; i < 20; ++i) {
    tensor.add_(1);
    const auto work = communicator.all_reduce_async(tensor, ReduceOp::kMax);
    work->wait();
    EXPECT_TRUE(work->done() || device.is_cuda());
    tensor.add_(1);
  }
  EXPECT_EQ(tensor.min().item<float>(), 40.0F);
  EXPECT_EQ(tensor.max().item<float>(), 40.0F);
}

void half_sums_round_and_overflow(Communicator& communicator, c10::Device device) {
  const bool first = communicator.rank() == 0;
  const float size = static_cast<float>(communicator.size());
  const auto sum = [&](float of_first, float of_others, at::ScalarType dtype) {
    // Longer than a vector register, so that the vectorised part and the rest are both seen.
    const auto tensor =
        torch::full({19}, first ? of_first : of_others, torch::dtype(dtype).device(device));
    communicator.all_reduce(tensor, ReduceOp::kSum);
    const auto host = tensor.cpu().to(torch::kFloat);
    EXPECT_TRUE(
        torch::equal(torch::nan_to_num(host, -7), torch::nan_to_num(host[0], -7).expand(19)));
    return host[0].item<float>();
  };
  if (communicator.size() == 2) {
    EXPECT_EQ(sum(2048, 1, at::kHalf), 2048.0F);  // a tie: to even
    EXPECT_EQ(sum(2050, 1, at::kHalf), 2052.0F);
    EXPECT_EQ(sum(256, 1, at::kBFloat16), 256.0F);
    EXPECT_EQ(sum(258, 1, at::kBFloat16), 260.0F);
  }
  if (communicator.size() > 1) {
    EXPECT_EQ(sum(65504, 65504, at::kHalf), std::numeric_limits<float>::infinity());
    EXPECT_EQ(sum(-65504, -65504, at::kHalf), -std::numeric_limits<float>::infinity());
  }
  EXPECT_EQ(sum(std::ldexp(1.0F, -24), std::ldexp(1.0F, -24), at::kHalf),
            std::ldexp(size, -24));  // subnormal
  EXPECT_TRUE(std::isnan(sum(std::nanf(""), 1, at::kHalf)));
  EXPECT_TRUE(std::isnan(sum(std::nanf(""), 1, at::kBFloat16)));
}

void equal_bits_on_all_ranks_and_again(Communicator& communicator, c10::Device device) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    auto generator =
        at::detail::createCPUGenerator(17 + static_cast<uint64_t>(communicator.rank()));
    const auto numbers = torch::randn({10007}, generator, torch::kFloat).to(dtype).to(device);
    const auto once = numbers.clone();
    const auto again = numbers.clone();
    communicator.all_reduce(once, ReduceOp::kSum);
    communicator.all_reduce(again, ReduceOp::kSum);
    EXPECT_TRUE(torch::equal(once, again)) << c10::toString(dtype);
    const auto of_first = once.clone();
    communicator.broadcast(of_first, 0);
    EXPECT_TRUE(torch::equal(once, of_first)) << c10::toString(dtype);
  }
}

// Every rank leaves a file before the barrier and sees everybody's after it.
void barrier(Communicator& communicator, c10::Device /*device*/) {
  namespace fs = std::filesystem;
  std::string folder;
  if (communicator.rank() == 0) {
    folder = (fs::temp_directory_path() / "longship-barrier-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
  }
  folder = broadcast_text(communicator, folder, 0);
  const auto file = [&](int round, int rank) {
    return fs::path(folder) / (std::to_string(round) + "-" + std::to_string(rank));
  };
  for (int round = 0; round < 10; ++round) {
    std::ofstream(file(round, communicator.rank())) << "here";
    communicator.barrier();
    for (int r = 0; r < communicator.size(); ++r) EXPECT_TRUE(fs::exists(file(round, r))) << round;
  }
  communicator.barrier();
  if (communicator.rank() == 0) fs::remove_all(folder);
}

void refuses_wrong_arguments(Communicator& communicator, c10::Device device) {
  const auto options = torch::dtype(torch::kFloat).device(device);
  const int size = communicator.size();
  const auto matrix = torch::zeros({4, 4}, options);
  EXPECT_THROW(communicator.all_reduce(matrix.t(), ReduceOp::kSum), std::invalid_argument);
  EXPECT_THROW(communicator.all_reduce(matrix.to(torch::kBool), ReduceOp::kSum),
               std::invalid_argument);
  EXPECT_THROW(communicator.all_reduce(matrix.to(torch::kHalf), ReduceOp::kMax),
               std::invalid_argument);
  EXPECT_THROW(communicator.broadcast(matrix, size), std::invalid_argument);
  EXPECT_THROW(communicator.broadcast(matrix, -1), std::invalid_argument);
  EXPECT_THROW(communicator.all_gather(matrix, torch::zeros({16 * size + 1}, options)),
               std::invalid_argument);
  EXPECT_THROW(communicator.all_gather(matrix, torch::zeros({16 * size}, options.dtype(at::kHalf))),
               std::invalid_argument);
  EXPECT_THROW(
      communicator.reduce_scatter(torch::zeros({16 * size + 1}, options), matrix, ReduceOp::kSum),
      std::invalid_argument);
  // The refused calls have sent nothing: the next collective still meets its like.
  communicator.all_reduce(matrix.fill_(1), ReduceOp::kSum);
  EXPECT_EQ(matrix.sum().item<float>(), 16.0F * static_cast<float>(size));
}

void text(Communicator& communicator, c10::Device /*device*/) {
  const auto text_of = [](int rank) {
    return rank == 1 ? std::string()
                     : std::string(static_cast<size_t>(rank * 1000 + 3), 'a') + '\0';
  };
  const auto texts = all_gather_text(communicator, text_of(communicator.rank()));
  ASSERT_EQ(texts.size(), static_cast<size_t>(communicator.size()));
  for (int r = 0; r < communicator.size(); ++r)
    EXPECT_EQ(texts[static_cast<size_t>(r)], text_of(r));
  for (int root = 0; root < communicator.size(); ++root) {
    EXPECT_EQ(broadcast_text(communicator, text_of(communicator.rank()), root), text_of(root));
  }
  for (const auto& nothing : all_gather_text(communicator, "")) EXPECT_EQ(nothing, "");
}

}  // namespace

std::vector<Case> tensor_cases() {
  return {{"all_reduce", all_reduce},
          {"all_reduce_of_a_million", all_reduce_of_a_million},
          {"broadcast", broadcast},
          {"all_gather", all_gather},
          {"reduce_scatter", reduce_scatter},
          {"many_in_flight", many_in_flight},
          {"in_the_order_of_the_stream", in_the_order_of_the_stream},
          {"half_sums_round_and_overflow", half_sums_round_and_overflow},
          {"equal_bits_on_all_ranks_and_again", equal_bits_on_all_ranks_and_again},
          {"refuses_wrong_arguments", refuses_wrong_arguments}};
}

std::vector<Case> host_cases() {
  return {{"text", text}, {"barrier", barrier}};
}

}  // namespace longship::comm::suite
