#include "comm/text_collectives.h"

#include <gtest/gtest.h>

#include <string>

#include "comm/local_communicator.h"
#include "rank_threads.h"

namespace longship::comm {
namespace {

TEST(TextCollectives, KeepsBytesOfAnyValue) {
  const auto group = make_local_group(3);
  play_ranks(group, [](Communicator& communicator) {
    std::string own;
    for (int byte = 0; byte < 256; ++byte) own += static_cast<char>(byte);
    own += std::to_string(communicator.rank());
    const auto texts = all_gather_text(communicator, own);
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(texts[r].substr(0, 256), own.substr(0, 256));
      EXPECT_EQ(texts[r].substr(256), std::to_string(r));
    }
    const auto of_last = broadcast_text(communicator, own, 2);
    EXPECT_EQ(of_last.substr(256), "2");
  });
}

TEST(TextCollectives, OneRankHearsItself) {
  const auto alone = make_local_communicator();
  EXPECT_EQ(all_gather_text(*alone, "hull"), std::vector<std::string>{"hull"});
  EXPECT_EQ(broadcast_text(*alone, "mast", 0), "mast");
}

}  // namespace
}  // namespace longship::comm
