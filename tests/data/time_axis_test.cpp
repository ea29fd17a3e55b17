#include "data/time_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "data/error.h"
#include "hdf5_builder.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kDay = int64_t{86'400} * 1'000'000'000;

TEST(DecodeTimeTest, CountsUnitsFromADateOr1970) {
  EXPECT_THAT(*decode_time({0, 1.5}, "hours since 1970-01-01 00:00:00", "standard", "t"),
              ElementsAre(0, 5'400'000'000'000));
  EXPECT_THAT(*decode_time({2, -1}, "Days since 1970-01-02", "", "t"), ElementsAre(3 * kDay, 0));
  EXPECT_THAT(*decode_time({7}, "ns", "", "t"), ElementsAre(7));
  EXPECT_THAT(*decode_time({-0.25}, "min", "gregorian", "t"), ElementsAre(-15'000'000'000));
}

TEST(DecodeTimeTest, KeepsTheDigitsOfAFraction) {
  // In nanoseconds it has more digits than a double.
  EXPECT_THAT(*decode_time({15'706.0 + 1.0 / 1024}, "days since 1970-01-01", "", "t"),
              ElementsAre(15'706 * kDay + kDay / 1024));
}

TEST(DecodeTimeTest, LeavesWhatIsNoTimeOfTheStandardCalendar) {
  EXPECT_FALSE(decode_time({0}, "months since 1970-01-01", "", "t"));
  EXPECT_FALSE(decode_time({0}, "days since 1970-01-01", "360_day", "t"));
  EXPECT_FALSE(decode_time({0}, "days since the flood", "", "t"));
  EXPECT_FALSE(decode_time({0}, "metres", "", "t"));
}

TEST(DecodeTimeTest, RefusesTimesThatDoNotFit) {
  const auto refusal = [](double value, const std::string& units) {
    return message_of<DataError>([&] { decode_time({0, value}, units, "", "f.nc: /time"); });
  };
  EXPECT_THAT(refusal(1e12, "days since 1970-01-01"),
              AllOf(HasSubstr("f.nc: /time: the time 1000000000000"), HasSubstr("days since")));
  EXPECT_THAT(refusal(NAN, "s"), HasSubstr("does not fit"));
  // Each of both fits, their sum does not.
  EXPECT_THAT(refusal(100'000, "days since 2013-01-01"), HasSubstr("does not fit"));
}

class TimeAxisTest : public Hdf5Test {
 protected:
  bool is_axis(const std::string& path) const {
    const Hdf5Handle file = open();
    return is_time_axis(Hdf5Dataset(file.get(), path_, path));
  }
  std::optional<std::vector<int64_t>> read(const std::string& path) {
    const Hdf5Handle file = open();
    note_.clear();
    return read_time_axis(Hdf5Dataset(file.get(), path_, path), note_);
  }
  std::string refusal(const std::string& path) {
    return message_of<DataError>([&] { read(path); });
  }
  std::string note_;
};

TEST_F(TimeAxisTest, IsToldByUnitsOrByName) {
  build([](Hdf5Builder& file) {
    file.numbers("/hour", {2}, {0, 1});
    file.text_attribute("/hour", "units", "Hours Since 2013-01-01");
    file.numbers("/speed", {2}, {0, 1});
    file.text_attribute("/speed", "units", "m/s");
    file.numbers("/Timestamp", {2}, {0, 1});
    file.strings("/valid_time", {"2013-01-01"});
    file.numbers("/time", {2, 1}, {0, 1});
    file.numbers("/timer", {2}, {0, 1});
  });
  for (const char* path : {"/hour", "/Timestamp", "/valid_time"})
    EXPECT_TRUE(is_axis(path)) << path;
  for (const char* path : {"/speed", "/time", "/timer"}) EXPECT_FALSE(is_axis(path)) << path;
}

TEST_F(TimeAxisTest, TextIsReadAsStampsOfOneStyle) {
  build([](Hdf5Builder& file) {
    file.strings("/time", {"1970-01-01T00:00:01Z", "1970-01-02T00:00:00+01:00"});
    file.strings("/slash", {"1/31/1970"});
    file.strings("/bad", {"1970-01-01", "yesterday"});
  });
  EXPECT_THAT(*read("/time"), ElementsAre(1'000'000'000, kDay - 3'600'000'000'000));
  EXPECT_THAT(refusal("/slash"), HasSubstr("data.h5: /slash holds slash dates"));
  EXPECT_THAT(refusal("/bad"), AllOf(HasSubstr("data.h5: /bad[1]"), HasSubstr("yesterday")));
}

TEST_F(TimeAxisTest, IntegersWithoutUnitsGoByTheirDigits) {
  build([](Hdf5Builder& file) {
    file.integers("/s", {1'000'000'000, 1'356'998'400});
    file.integers("/ms", {1'356'998'400'000, 1'356'998'400'001});
    file.integers("/us", {1'356'998'400'000'000});
    file.integers("/ns", {1'356'998'400'000'000'000, 1'356'998'400'000'000'001});
    file.integers("/rows", {0, 1, 2});
    file.integers("/mixed", {1'356'998'400, 1'356'998'400'000});
  });
  EXPECT_THAT(*read("/s"), ElementsAre(1'000'000'000'000'000'000, 1'356'998'400'000'000'000));
  EXPECT_EQ(note_, path_ + ": /s has no units; taken as seconds since 1970");
  EXPECT_THAT(*read("/ms"), ElementsAre(1'356'998'400'000'000'000, 1'356'998'400'001'000'000));
  EXPECT_THAT(note_, HasSubstr("taken as milliseconds"));
  EXPECT_THAT(*read("/us"), ElementsAre(1'356'998'400'000'000'000));
  EXPECT_THAT(note_, HasSubstr("taken as microseconds"));
  EXPECT_THAT(*read("/ns"), ElementsAre(1'356'998'400'000'000'000, 1'356'998'400'000'000'001));
  EXPECT_THAT(note_, HasSubstr("taken as nanoseconds"));
  EXPECT_FALSE(read("/rows"));
  EXPECT_FALSE(read("/mixed"));
  EXPECT_EQ(note_, "");
}

TEST_F(TimeAxisTest, IntegersWithUnitsKeepEveryDigit) {
  // A double of this size counts in steps of 256.
  build([](Hdf5Builder& file) {
    file.integers("/bare", {1'356'998'400'000'000'001});
    file.text_attribute("/bare", "units", "ns");
    file.integers("/since", {1'356'998'400'000'000'001});
    file.text_attribute("/since", "units", "nanoseconds since 1970-01-02");
    file.integers("/us", {9'007'199'254'740'993});
    file.text_attribute("/us", "units", "microseconds since 1970-01-01");
    file.integers("/far", {106'000});
    file.text_attribute("/far", "units", "days since 2013-01-01");
  });
  EXPECT_THAT(*read("/bare"), ElementsAre(1'356'998'400'000'000'001));
  EXPECT_THAT(*read("/since"), ElementsAre(1'356'998'400'000'000'001 + kDay));
  EXPECT_THAT(*read("/us"), ElementsAre(9'007'199'254'740'993'000));
  EXPECT_THAT(refusal("/far"),
              AllOf(HasSubstr("/far"), HasSubstr("106000 days since"), HasSubstr("does not fit")));
}

TEST_F(TimeAxisTest, UnitsThatAreNotReadAreNamed) {
  build([](Hdf5Builder& file) {
    file.numbers("/time", {1}, {0});
    file.text_attribute("/time", "units", "days since 2013-01-01");
    file.text_attribute("/time", "calendar", "noleap");
    file.numbers("/times", {1}, {0});
    file.text_attribute("/times", "units", "fortnights since 2013-01-01");
    file.numbers("/date", {1}, {0});
  });
  EXPECT_THAT(refusal("/time"), HasSubstr("/time: times in 'days since 2013-01-01' of the calendar "
                                          "noleap are not read"));
  EXPECT_THAT(refusal("/times"), HasSubstr("'fortnights since 2013-01-01' are not read"));
  EXPECT_FALSE(read("/date"));  // numbers with a fraction and no units say nothing
}

}  // namespace
}  // namespace longship::data
