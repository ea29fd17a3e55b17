#include "data/normalizer.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

Normalizer two_columns() {
  Normalizer normalizer;
  normalizer.kind = "standard";
  normalizer.columns = {"a", "b"};
  normalizer.shift = {1, 1e6};
  normalizer.scale = {2, 0.5};
  return normalizer;
}

TEST(NormalizerTest, TakesColumnsInTheOrderOfTheNames) {
  const at::Tensor values = at::tensor({1e6f, 5.f}).view({1, 1, 2});
  const at::Tensor normalised = two_columns().normalize(values, {"b", "a"});
  EXPECT_TRUE(at::equal(normalised, at::tensor({0.f, 2.f}).view({1, 1, 2})));
  EXPECT_TRUE(at::equal(two_columns().denormalize(normalised, {"b", "a"}), values));
  EXPECT_EQ(normalised.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(values, at::tensor({1e6f, 5.f}).view({1, 1, 2})));
}

TEST(NormalizerTest, KeepsDigitsOfALargeShift) {
  const at::Tensor values = at::tensor({1'000'000.0625f});
  EXPECT_EQ(two_columns().normalize(values, {"b"}).item<float>(), 0.125f);
}

TEST(NormalizerTest, RefusesUnknownColumnsAndWidths) {
  EXPECT_EQ(two_columns().index("b"), 1U);
  EXPECT_THAT(message_of<DataError>([] { two_columns().index("c"); }), ::testing::HasSubstr("'c'"));
  EXPECT_THROW(two_columns().normalize(at::zeros({3}), {"a", "b"}), DataError);
}

}  // namespace
}  // namespace longship::data
