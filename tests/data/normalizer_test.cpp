#include "data/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

TEST(NormalizerTest, FindsColumnsByNameAndRefusesOthers) {
  Normalizer normalizer;
  normalizer.columns = {"a", "b"};
  EXPECT_EQ(normalizer.index("b"), 1U);
  EXPECT_THAT(message_of<DataError>([&] { normalizer.index("c"); }),
              ::testing::HasSubstr("does not know the column 'c'; it knows a, b"));
}

}  // namespace
}  // namespace longship::data
