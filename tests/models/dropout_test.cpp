#include "models/dropout.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "models/philox.h"
#include "test_models.h"

namespace longship::models {
namespace {

at::Tensor mask_of(const RandomKey& key, int64_t layer, double probability = 0.5) {
  return dropout(at::ones({64, 32}), probability, key, layer);
}

TEST(Dropout, KeepsTheShareAndTheMean) {
  const at::Tensor y = dropout(at::ones({1000, 1000}), 0.3, random_key(7, 0, 0), 0);
  const at::Tensor kept = y != 0;
  EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.7, 0.003);
  EXPECT_NEAR(y.to(at::kDouble).mean().item<double>(), 1.0, 0.005);
  EXPECT_TRUE(at::allclose(y.masked_select(kept), at::full({1}, 1 / 0.7f)));
}

TEST(Dropout, EqualKeysGiveEqualMasksWhateverElseWasDrawn) {
  const at::Tensor first = mask_of(random_key(1, 2, 3), 4);
  at::rand({100});
  mask_of(random_key(9, 9, 9), 9);
  EXPECT_TRUE(at::equal(first, mask_of(random_key(1, 2, 3), 4)));
}

TEST(Dropout, EachPartOfTheKeyChangesTheMask) {
  const at::Tensor base = mask_of(random_key(1, 2, 3), 4);
  const std::vector<at::Tensor> others = {
      mask_of(random_key(2, 2, 3), 4), mask_of(random_key(1, 3, 3), 4),
      mask_of(random_key(1, 2, 4), 4), mask_of(random_key(1, 2, 3), 5),
      mask_of(random_key(1, 3, 2), 4), mask_of(random_key(1, 2, 4), 3)};
  for (size_t i = 0; i < others.size(); ++i) {
    // Independent masks of probability 1/2 differ in half of their elements.
    EXPECT_NEAR((base != others[i]).to(at::kDouble).mean().item<double>(), 0.5, 0.06) << i;
  }
}

TEST(Dropout, DrawsNothingFromTheDefaultGenerator) {
  at::manual_seed(5);
  const at::Tensor expected = at::rand({8});
  at::manual_seed(5);
  mask_of(random_key(1, 2, 3), 4);
  EXPECT_TRUE(at::equal(expected, at::rand({8})));
}

TEST(Dropout, OfProbabilityZeroIsTheIdentity) {
  const at::Tensor x = at::rand({3});
  EXPECT_TRUE(dropout(x, 0, {}, 0).is_same(x));
}

TEST(Dropout, GradientsGoThroughTheMask) {
  const at::Tensor x = at::rand({50}).requires_grad_();
  const at::Tensor y = dropout(x, 0.4, random_key(1, 1, 1), 1);
  y.sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), dropout(at::ones({50}), 0.4, random_key(1, 1, 1), 1)));
}

TEST(Philox, GivesThePublishedWords) {
  // Random123's known answers for philox4x32-10: counter and key zero.
  const Philox zero = Philox::at(0, 0);
  EXPECT_EQ(zero.words[0], 0x6627e8d5U);
  EXPECT_EQ(zero.words[1], 0xe169c58dU);
  EXPECT_EQ(zero.words[2], 0xbc57ac4cU);
  EXPECT_EQ(zero.words[3], 0x9b00dbd8U);
}

TEST(DropoutGpu, DrawsTheSameMaskAsOnTheCpu) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor ones = at::ones({1001, 33}, type);
    const at::Tensor here = dropout(ones, 0.2, random_key(7, 5, 3), 2);
    RandomKey there = random_key(7, 5, 3);
    there.counters = there.counters.to(at::kCUDA);
    EXPECT_TRUE(at::equal(dropout(ones.to(at::kCUDA), 0.2, there, 2).cpu(), here)) << type;
    EXPECT_EQ(here.max().item<double>(), at::full({}, 1.25, type).item<double>());
  }
}

}  // namespace
}  // namespace longship::models
