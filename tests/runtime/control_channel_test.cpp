#include "runtime/control_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "rank_group.h"

namespace longship::runtime {
namespace {

using std::chrono::milliseconds;

struct Event {
  int64_t step = 0;
  bool stop = false;
  bool save = false;
  bool error = false;
  bool operator==(const Event&) const = default;
};

void PrintTo(const Event& event, std::ostream* stream) {
  *stream << "step " << event.step << (event.stop ? " stop" : "") << (event.save ? " save" : "")
          << (event.error ? " error" : "");
}

// Steps of at least a millisecond, so that an interval of 10 ms is 10 steps at most. `act` may cast
// votes before a step ends. Returns the decisions of each rank.
std::vector<std::vector<Event>> play(
    int ranks, int64_t steps, const std::function<void(int, int64_t, ControlChannel&)>& act) {
  const tests::Group group = comm::make_local_group(ranks);
  std::vector<std::vector<Event>> events(static_cast<size_t>(ranks));
  tests::play_ranks(ranks, [&](int rank) {
    ControlChannel channel(tests::member(group, rank), milliseconds(10));
    for (int64_t step = 1; step <= steps; ++step) {
      // Ranks are not equally fast.
      std::this_thread::sleep_for(milliseconds(1 + (rank + step) % 2));
      act(rank, step, channel);
      const Decision decision = channel.after_step();
      if (decision.stop || decision.save || decision.error) {
        events[static_cast<size_t>(rank)].push_back(
            {step, decision.stop, decision.save, decision.error});
      }
    }
    const Decision left = channel.drain();
    EXPECT_FALSE(left.stop || left.save || left.error);
  });
  return events;
}

TEST(ControlChannel, WithoutAVoteNothingIsDecided) {
  for (const auto& events : play(3, 60, [](int, int64_t, ControlChannel&) {})) {
    EXPECT_TRUE(events.empty());
  }
}

TEST(ControlChannel, TheVoteOfOneRankIsDecidedOnByAllAtTheSameStepAndOnce) {
  for (const int ranks : {1, 2, 4}) {
    const auto events = play(ranks, 60, [ranks](int rank, int64_t step, ControlChannel& channel) {
      if (rank == ranks - 1 && step == 15) channel.cast(Vote::kStop);
    });
    ASSERT_EQ(events[0].size(), 1u);
    EXPECT_TRUE(events[0][0].stop);
    EXPECT_FALSE(events[0][0].save || events[0][0].error);
    EXPECT_GT(events[0][0].step, 15);
    EXPECT_LE(events[0][0].step, 15 + 2 * 10);  // two intervals
    for (const auto& other : events) EXPECT_EQ(other, events[0]);
  }
}

TEST(ControlChannel, VotesOfSeveralRanksAreAllHeard) {
  const auto events = play(3, 60, [](int rank, int64_t step, ControlChannel& channel) {
    if (step == 5 && rank == 0) channel.cast(Vote::kSave);
    if (step == 5 && rank == 2) channel.cast(Vote::kError);
    if (step == 30 && rank == 1) channel.cast(Vote::kSave);
  });
  bool error = false;
  int saves = 0;
  for (const Event& event : events[0]) {
    error = error || event.error;
    saves += event.save ? 1 : 0;
    EXPECT_FALSE(event.stop);
  }
  EXPECT_TRUE(error);
  EXPECT_EQ(saves, 2);
  EXPECT_EQ(events[1], events[0]);
  EXPECT_EQ(events[2], events[0]);
}

TEST(ControlChannel, DrainDecidesAtOnceOnVotesPostedAndNotPosted) {
  const tests::Group group = comm::make_local_group(3);
  tests::play_ranks(3, [&](int rank) {
    ControlChannel channel(tests::member(group, rank), milliseconds(10000));
    if (rank == 0) channel.cast(Vote::kSave);
    channel.after_step();  // posts it
    if (rank == 2) channel.cast(Vote::kStop);
    const Decision decision = channel.drain();
    EXPECT_TRUE(decision.stop);
    EXPECT_TRUE(decision.save);
    EXPECT_FALSE(decision.error);
    const Decision again = channel.drain();
    EXPECT_FALSE(again.stop || again.save || again.error);
    // The channel goes on after it.
    for (int step = 0; step < 3; ++step) channel.after_step();
    if (rank == 1) channel.cast(Vote::kError);
    EXPECT_TRUE(channel.drain().error);
  });
}

}  // namespace
}  // namespace longship::runtime
