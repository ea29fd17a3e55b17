#pragma once

#include <chrono>
#include <functional>

#include "launcher/session.h"

namespace longship::launcher {

// Runs the body of a command that many ranks share, so that every rank ends with the same exit
// code: errors that all ranks agreed on are printed by rank 0, and the ranks end in order; an error
// that only this rank knows of, or a peer that failed, is printed here and ends the whole job
// (MPI_Abort with its code). Returns the exit code.
int run_parallel(std::chrono::seconds timeout, const std::function<int(Session&)>& body);

// bind_device() and connect_gradients(), each on all ranks or on none. Throws AgreedError (kSetup),
// or CommError (kPeer) where a rank is lost meanwhile.
void connect_devices(Session& session, const std::string& backend, std::chrono::seconds timeout);

}  // namespace longship::launcher
