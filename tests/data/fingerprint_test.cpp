#include "data/fingerprint.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <string>

#include "test_files.h"

namespace longship::data {
namespace {

SeriesTable small_table() {
  return make_table({{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}}});
}

DatasetSpec small_spec() {
  DatasetSpec spec;
  spec.inputs = {"a", "b"};
  spec.targets = {"a"};
  spec.window = 3;
  spec.horizon = 2;
  spec.stride = 1;
  spec.split = SplitFractions{0.5, 0.25, 0.25};
  return spec;
}

// Resume refuses data with another fingerprint, so that the bytes behind it must never change.
TEST(FingerprintTest, IsXxh3OfTheseBytes) {
  std::string bytes;
  const auto add = [&bytes](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto name = [&](const std::string& text) {
    add(uint64_t{text.size()});
    bytes += text;
  };
  add(uint64_t{2});
  name("a");
  name("b");
  add(uint64_t{1});
  name("a");
  for (const int64_t number : {3, 2, 1}) add(number);
  add(uint64_t{0});  // shares, not rows or dates
  for (const double share : {0.5, 0.25, 0.25}) add(share);
  add(uint64_t{3});
  for (const int64_t offset : {0, 3, 4}) add(offset);
  for (int value = 1; value <= 8; ++value) add(static_cast<float>(value));
  EXPECT_EQ(fingerprint_of(small_table(), small_spec()), XXH3_64bits(bytes.data(), bytes.size()));
}

TEST(FingerprintTest, FollowsEverythingThatTrainingReads) {
  const uint64_t fingerprint = fingerprint_of(small_table(), small_spec());
  const auto with = [](auto change) {
    SeriesTable table = small_table();
    DatasetSpec spec = small_spec();
    change(table, spec);
    return fingerprint_of(table, spec);
  };
  EXPECT_NE(with([](auto&, auto& s) { s.window = 4; }), fingerprint);
  EXPECT_NE(with([](auto&, auto& s) { s.horizon = 1; }), fingerprint);
  EXPECT_NE(with([](auto&, auto& s) { s.stride = 2; }), fingerprint);
  EXPECT_NE(with([](auto&, auto& s) { std::swap(s.window, s.horizon); }), fingerprint);
  EXPECT_NE(with([](auto&, auto& s) { s.inputs = {"b", "a"}; }), fingerprint);
  EXPECT_NE(with([](auto&, auto& s) { s.targets = {"b"}; }), fingerprint);
  EXPECT_NE(with([](auto&, auto& s) { s.split = SplitFractions{0.5, 0.3, 0.2}; }), fingerprint);
  EXPECT_NE(with([](auto& t, auto&) { t.values[3][0] += 1; }), fingerprint);
  EXPECT_NE(with([](auto& t, auto&) { t.offsets = {0, 2, 4}; }), fingerprint);
  // Not what only people read.
  EXPECT_EQ(with([](auto& t, auto& s) {
              t.series = {"x", "y"};
              t.time = {1, 2, 3, 4};
              s.paths = {"elsewhere.h5"};
              s.normalize = "none";
            }),
            fingerprint);
}

TEST(FingerprintTest, NamesCannotBeCutElsewhere) {
  const auto of = [](const std::vector<std::string>& inputs,
                     const std::vector<std::string>& targets) {
    DatasetSpec spec = small_spec();
    spec.inputs = inputs;
    spec.targets = targets;
    return fingerprint_of(small_table(), spec);
  };
  EXPECT_NE(of({"ab", "c"}, {"d"}), of({"a", "bc"}, {"d"}));
  EXPECT_NE(of({"a", "b"}, {"c"}), of({"a"}, {"b", "c"}));
}

TEST(FingerprintTest, RowsAndDatesOfEqualNumbersAreOtherSplits) {
  DatasetSpec rows = small_spec();
  rows.split = SplitRows{};
  DatasetSpec shares = small_spec();
  shares.split = SplitFractions{};
  DatasetSpec dates = small_spec();
  dates.split = SplitDates{};
  const uint64_t of_rows = fingerprint_of(small_table(), rows);
  const uint64_t of_shares = fingerprint_of(small_table(), shares);
  const uint64_t of_dates = fingerprint_of(small_table(), dates);
  EXPECT_NE(of_rows, of_shares);
  EXPECT_NE(of_rows, of_dates);
  EXPECT_NE(of_shares, of_dates);
}

}  // namespace
}  // namespace longship::data
