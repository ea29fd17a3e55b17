#include "data/normalizer_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/error.h"
#include "test_files.h"

namespace longship::data {
namespace {

using ::testing::ElementsAre;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Columns: normal, all 0, all 7.5, all 1e-30, zero but for one spike in the last row.
SeriesTable odd_columns() {
  return make_table({{{1, 0, 7.5, 1e-30f, 0},
                      {2, 0, 7.5, 1e-30f, 0},
                      {3, 0, 7.5, 1e-30f, 0},
                      {6, 0, 7.5, 1e-30f, 0},
                      {9, 0, 7.5, 1e-30f, 1000}}});
}

TEST(NormalizerFitTest, StandardUsesPopulationDeviation) {
  const SeriesTable table = odd_columns();
  const Normalizer fitted = fit_normalizer("standard", table, find_missing(table), {{{0, 5}}});
  EXPECT_DOUBLE_EQ(fitted.shift[0], 4.2);
  EXPECT_DOUBLE_EQ(fitted.scale[0],
                   std::sqrt((3.2 * 3.2 + 2.2 * 2.2 + 1.2 * 1.2 + 1.8 * 1.8 + 4.8 * 4.8) / 5));
}

TEST(NormalizerFitTest, ConstantColumnsAreCentredOnly) {
  SeriesTable table = odd_columns();
  for (const char* kind : {"standard", "minmax"}) {
    const Normalizer fitted = fit_normalizer(kind, table, find_missing(table), {{{0, 4}}});
    EXPECT_THAT(fitted.constant, ElementsAre("b", "c", "d", "e"));
    EXPECT_THAT(std::vector(fitted.scale.begin() + 1, fitted.scale.end()), ElementsAre(1, 1, 1, 1));
    EXPECT_EQ(fitted.shift[2], 7.5);
  }
  const Normalizer fitted = fit_normalizer("standard", table, find_missing(table), {{{0, 4}}});
  normalize_in_place(table, fitted);
  EXPECT_EQ(table.values[0][2].item<float>(), 0);
  EXPECT_EQ(table.values[0][3].item<float>(), 0);
}

TEST(NormalizerFitTest, MinmaxAndNone) {
  const SeriesTable table = odd_columns();
  const Normalizer minmax =
      fit_normalizer("minmax", table, find_missing(table), {{{0, 2}, {4, 5}}});
  EXPECT_EQ(minmax.shift[0], 1);
  EXPECT_EQ(minmax.scale[0], 8);
  const Normalizer none = fit_normalizer("none", table, find_missing(table), {{{0, 5}}});
  EXPECT_EQ(none.shift[0], 0);
  EXPECT_EQ(none.scale[4], 1);
  EXPECT_THROW(fit_normalizer("robust", table, {}, {{{0, 5}}}), DataError);
}

TEST(NormalizerFitTest, MissingValuesDoNotCount) {
  SeriesTable table = make_table({{{1, kNaN}, {kNaN, kNaN}, {3, 5}}});
  const MissingMask mask = find_missing(table);
  table.values.fill_(100);  // as if filled; only the first and third row of `a` were measured
  table.values[0][0] = 1;
  table.values[2][0] = 3;
  EXPECT_EQ(fit_normalizer("standard", table, mask, {{{0, 3}}}).shift[0], 2);
  EXPECT_THAT(message_of<DataError>([&] {
                fit_normalizer("standard", table, mask, {{{0, 2}}});
              }),
              ::testing::HasSubstr("'b' has no value in the training part"));
}

TEST(NormalizerFitTest, NormalisingKeepsDigitsOfALargeShift) {
  SeriesTable table = make_table({{{1'000'000.0625f}}});
  Normalizer given;
  given.columns = {"a"};
  given.shift = {1e6};
  given.scale = {0.5};
  normalize_in_place(table, given);
  EXPECT_EQ(table.values.item<float>(), 0.125f);
}

TEST(NormalizerFitTest, NoneLooksAtNoValue) {
  const SeriesTable table = make_table({{{1, kNaN}, {1, kNaN}, {1, 2}}});
  const Normalizer none = fit_normalizer("none", table, find_missing(table), {{{0, 2}}});
  EXPECT_THAT(none.constant, ::testing::IsEmpty());
  EXPECT_THAT(none.scale, ElementsAre(1, 1));
}

}  // namespace
}  // namespace longship::data
