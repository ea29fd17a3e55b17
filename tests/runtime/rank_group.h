#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "comm/local_communicator.h"

namespace longship::tests {

// Plays each of `size` ranks in a thread of its own. When all are done, passes on what the lowest
// failing rank threw. Unlike on_ranks(), the exception keeps its type.
inline void play_ranks(int size, const std::function<void(int rank)>& play) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&play, &errors, rank] {
      try {
        play(rank);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

using Group = std::vector<std::unique_ptr<comm::Communicator>>;

inline comm::Communicator& member(const Group& group, int rank) {
  return *group[static_cast<size_t>(rank)];
}

}  // namespace longship::tests
