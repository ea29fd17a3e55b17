#include "launcher/parallel_command.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include "comm/error.h"
#include "runtime/agreement.h"
#include "runtime/error.h"
#include "runtime/stop_signals.h"

namespace longship::launcher {
namespace {

void print_error(const std::string& text) {
  // One write, so that the lines of several ranks do not mix.
  const std::string line = "longship: error: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

// All ranks that wait for a lost one find out at about the same time. The lowest of them tells it,
// and its end is that of the others: mpirun sends them a TERM. Whether this rank has to tell it.
bool is_first_to_tell(int rank) {
  constexpr int kPlaces = 4;
  constexpr std::chrono::milliseconds kPlace(500);
  constexpr std::chrono::milliseconds kGlance(20);
  const auto turn = std::chrono::steady_clock::now() + std::min(rank, kPlaces) * kPlace;
  while (std::chrono::steady_clock::now() < turn) {
    if (runtime::StopSignals::received() == SIGTERM) return false;
    std::this_thread::sleep_for(kGlance);
  }
  return true;
}

// The session of this rank; nullptr after an error of a peer, which was told.
std::unique_ptr<Session> start_or_tell(std::chrono::seconds timeout) {
  try {
    return start_session(timeout);
  } catch (const comm::CommError& error) {
    if (error.kind() != comm::CommError::Kind::kPeer) throw;
    const int rank = rank_by_environment();
    if (is_first_to_tell(rank)) {
      print_error(std::string(error.what()) + " [rank " + std::to_string(rank) + "]");
    }
    return nullptr;
  }
}

// The error of one rank that the others do not know of: the job cannot go on.
int end_job(Session& session, const std::exception& error) {
  const auto code = static_cast<int>(runtime::exit_code_of(error));
  if (session.mpi == nullptr) {
    print_error(runtime::message_of(error));
    return code;
  }
  const bool lost = code == static_cast<int>(runtime::ExitCode::kPeer);
  if (!lost || is_first_to_tell(session.mpi->rank())) {
    print_error(runtime::message_of(error) + " [rank " + std::to_string(session.mpi->rank()) +
                " of " + std::to_string(session.mpi->size()) + " (" + session.host_name + ")]");
  }
  if (session.mpi->size() == 1) {
    return code;
  }
  session.mpi->abort(code);
}

}  // namespace

int run_parallel(std::chrono::seconds timeout, const std::function<int(Session&)>& body) {
  const std::unique_ptr<Session> session = start_or_tell(timeout);
  if (session == nullptr) return static_cast<int>(runtime::ExitCode::kPeer);
  try {
    return body(*session);
  } catch (const runtime::AgreedError& error) {
    if (session->host->rank() == 0) {
      print_error(error.what());
    }
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    return end_job(*session, error);
  }
}

void connect_devices(Session& session, const std::string& backend, std::chrono::seconds timeout) {
  const auto together = [&](const std::function<void()>& work) {
    runtime::collectively(*session.host, session.host_name, [&] {
      try {
        work();
      } catch (const comm::CommError& error) {
        if (error.kind() != comm::CommError::Kind::kSetup) throw;
        throw runtime::Error(runtime::ExitCode::kSetup, error.what());
      } catch (const c10::Error& error) {
        throw runtime::Error(runtime::ExitCode::kSetup, error.what_without_backtrace());
      }
    });
  };
  // Apart, so that a rank whose GPU fails is heard of before the others wait for it in NCCL.
  together([&] { bind_device(session, backend); });
  together([&] { connect_gradients(session, backend, timeout); });
}

}  // namespace longship::launcher
