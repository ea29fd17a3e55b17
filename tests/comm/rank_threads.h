#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/communicator.h"

namespace longship::comm {

// Plays every rank of a group in a thread of its own and returns when all are done.
inline void play_ranks(const std::vector<std::unique_ptr<Communicator>>& group,
                       const std::function<void(Communicator&)>& play) {
  std::vector<std::thread> threads;
  for (const auto& communicator : group) {
    threads.emplace_back([&play, &communicator] { play(*communicator); });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace longship::comm
