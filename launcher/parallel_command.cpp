#include "launcher/parallel_command.h"

#include <cstdio>
#include <exception>
#include <string>

#include "comm/error.h"
#include "runtime/agreement.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

void print_error(const std::string& text) {
  // One write, so that the lines of several ranks do not mix.
  const std::string line = "longship: error: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

// The error of one rank that the others do not know of: the job cannot go on.
int end_job(Session& session, const std::exception& error) {
  const auto code = static_cast<int>(runtime::exit_code_of(error));
  if (session.mpi == nullptr) {
    print_error(error.what());
    return code;
  }
  print_error(std::string(error.what()) + " [rank " + std::to_string(session.mpi->rank()) + " of " +
              std::to_string(session.mpi->size()) + " (" + session.host_name + ")]");
  if (session.mpi->size() == 1) {
    return code;
  }
  session.mpi->abort(code);
}

}  // namespace

int run_parallel(std::chrono::seconds timeout, const std::function<int(Session&)>& body) {
  const std::unique_ptr<Session> session = start_session(timeout);
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

void connect_devices_together(Session& session, const std::string& backend,
                              std::chrono::seconds timeout) {
  runtime::collectively(*session.host, session.host_name, [&] {
    try {
      connect_devices(session, backend, timeout);
    } catch (const comm::CommError& error) {
      if (error.kind() == comm::CommError::Kind::kSetup) {
        throw runtime::Error(runtime::ExitCode::kSetup, error.what());
      }
      throw;
    }
  });
}

}  // namespace longship::launcher
