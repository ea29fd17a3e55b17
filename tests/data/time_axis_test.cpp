#include "data/time_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>

#include "data/error.h"
#include "hdf5_builder.h"

namespace longship::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kDay = int64_t{86'400} * 1'000'000'000;

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
  // The axis /time of floats with units.
  std::optional<std::vector<int64_t>> read_floats(const std::vector<double>& values,
                                                  const std::string& units,
                                                  hid_t type = H5T_IEEE_F64LE) {
    build([&](Hdf5Builder& file) {
      file.numbers("/time", {values.size()}, values, type);
      file.text_attribute("/time", "units", units);
    });
    return read("/time");
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

TEST_F(TimeAxisTest, FloatsCountUnitsFromADateOr1970) {
  EXPECT_THAT(*read_floats({0, 1.5}, "hours since 1970-01-01 00:00:00"),
              ElementsAre(0, 5'400'000'000'000));
  EXPECT_THAT(*read_floats({2, -1}, "Days since 1970-01-02"), ElementsAre(3 * kDay, 0));
  EXPECT_THAT(*read_floats({7}, "ns"), ElementsAre(7));
  EXPECT_THAT(*read_floats({-0.25}, "min"), ElementsAre(-15'000'000'000));
  // In nanoseconds it has more digits than a double.
  EXPECT_THAT(*read_floats({15'706.0 + 1.0 / 1024}, "days since 1970-01-01"),
              ElementsAre(15'706 * kDay + kDay / 1024));
}

TEST_F(TimeAxisTest, FloatsThatDoNotFitAreRefused) {
  const auto refused = [&](double value, const std::string& units) {
    return message_of<DataError>([&] { read_floats({0, value}, units); });
  };
  EXPECT_THAT(refused(1e12, "days since 1970-01-01"),
              AllOf(HasSubstr("/time: the time 1000000000000"), HasSubstr("days since")));
  EXPECT_THAT(refused(NAN, "s"), HasSubstr("does not fit"));
  // Each of both fits, their sum does not.
  EXPECT_THAT(refused(100'000, "days since 2013-01-01"), HasSubstr("does not fit"));
  EXPECT_THAT(refused(0, "months since 1970-01-01"), HasSubstr("are not read"));
  EXPECT_THAT(refused(0, "days since the flood"), HasSubstr("are not read"));
  EXPECT_THAT(refused(0, "metres"), HasSubstr("are not read"));
}

TEST_F(TimeAxisTest, EqualStepsStayEqualInFractionsOfAUnit) {
  const auto differences = [](const std::vector<int64_t>& stamps) {
    std::set<int64_t> all;
    for (size_t i = 1; i < stamps.size(); ++i) all.insert(stamps[i] - stamps[i - 1]);
    return all;
  };
  std::vector<double> hours;
  for (int i = 0; i < 500; ++i) hours.push_back(15'706 + i / 24.0);
  EXPECT_THAT(differences(*read_floats(hours, "days since 1970-01-01")), ElementsAre(kDay / 24));
  // Days of this size count in microseconds, hours in float32 in tenths of a second.
  for (double& hour : hours) hour += 84'294;
  EXPECT_THAT(differences(*read_floats(hours, "days since 1700-01-01")), ElementsAre(kDay / 24));
  std::vector<double> minutes;
  for (int i = 0; i < 500; ++i) minutes.push_back(1000 + i / 60.0);
  EXPECT_THAT(differences(*read_floats(minutes, "hours since 2013-01-01", H5T_IEEE_F32LE)),
              ElementsAre(60'000'000'000));
}

TEST_F(TimeAxisTest, NumbersThatMayBeDatesOrDoNotFitAreRefused) {
  build([](Hdf5Builder& file) {
    file.integers("/dates", {2'020'010'122, 2'020'010'123});
    file.integers("/seconds", {2'020'010'123, 2'020'010'124});
    file.integers("/far", {9'999'999'999});
  });
  EXPECT_THAT(refusal("/dates"), AllOf(HasSubstr("/dates has no units"), HasSubstr("2020010122"),
                                       HasSubstr("give it the attribute `units`")));
  EXPECT_EQ(read("/seconds")->front(), 2'020'010'123'000'000'000);
  EXPECT_THAT(refusal("/far"), HasSubstr("/far: the time 9999999999 does not fit"));
}

}  // namespace
}  // namespace longship::data
