#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "comm/communicator.h"

namespace longship::runtime {

// Runs `work` on every rank and agrees on its outcome as collectively() does, however long it
// takes: the ranks meet in a small collective every `interval`, so that a slow disk on one of them
// does not look like a dead peer to the others. `work` runs on another thread when there are
// several ranks, and must not use the communicator. Ranks with nothing to do give an empty
// function. `waiting`, if any, is called on rank 0 about every half minute with the ranks that are
// not ready.
void collectively_with_patience(comm::Communicator& host, const std::string& host_name,
                                const std::function<void()>& work,
                                const std::function<void(const std::string&)>& waiting = {},
                                std::chrono::milliseconds interval = std::chrono::seconds(1));

}  // namespace longship::runtime
