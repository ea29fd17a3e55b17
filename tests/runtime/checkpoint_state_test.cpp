#include "runtime/checkpoint_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "checkpoint_support.h"

namespace longship::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CheckpointState, FindsNonFiniteWeightsAndOptimizerEntries) {
  TrainingState state = tests::make_state(10);
  EXPECT_TRUE(all_finite(state));  // though `extra` holds a NaN

  state.weights[0].tensor[3][2] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(all_finite(state));
  state = tests::make_state(10);
  state.optimizer[1].tensor[0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(all_finite(state));
}

TEST(CheckpointState, NamesTheSectionThatIsMissing) {
  for (const std::string& section : required_sections()) {
    TrainingState state = tests::make_state(1);
    state.scalars.erase(section);
    EXPECT_THAT([&] { check_scalars(state.scalars); },
                ThrowsMessage<CheckpointError>(HasSubstr("'" + section + "'")));
  }
  EXPECT_NO_THROW(check_scalars(tests::make_state(1).scalars));
  EXPECT_THROW(check_scalars(nlohmann::json()), CheckpointError);
}

// JSON would turn them into null without a word.
TEST(CheckpointState, NamesTheNumberThatIsNotFinite) {
  TrainingState state = tests::make_state(1);
  state.scalars["early_stop"]["best"] = std::numeric_limits<double>::infinity();
  EXPECT_THAT([&] { check_scalars(state.scalars); },
              ThrowsMessage<CheckpointError>(HasSubstr("/early_stop/best")));
}

TEST(CheckpointState, ForecastsNeedAPartOfTheSections) {
  for (const std::string& section : required_sections_for_weights()) {
    EXPECT_THAT(required_sections(), ::testing::Contains(section));
  }
}

}  // namespace
}  // namespace longship::runtime
