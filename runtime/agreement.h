#pragma once

#include <exception>
#include <functional>
#include <string>

#include "comm/communicator.h"
#include "runtime/error.h"

namespace longship::runtime {

// An error that all ranks know of and end with. Rank 0 alone reports it.
class AgreedError : public Error {
 public:
  using Error::Error;
};

// Collective on `host`. Returns when no rank brought an error; otherwise throws the same
// AgreedError on every rank: with the exit code of the lowest failing rank, and in one line the
// distinct messages of the lowest ranks, once each, with the ranks they came from (`host_name`
// tells where a rank runs). An AgreedError is passed on as it is: every rank holds it already.
void agree(comm::Communicator& host, const std::string& host_name, const std::exception_ptr& error);

// Runs `work` on every rank and agrees on its outcome, so that either all ranks go on or all end.
// `work` must not leave collectives half done when it throws.
void collectively(comm::Communicator& host, const std::string& host_name,
                  const std::function<void()>& work);

}  // namespace longship::runtime
