#pragma once

#include <stdexcept>
#include <string>

namespace longship::comm {

// A communicator could not be made, or a collective did not end.
class CommError : public std::runtime_error {
 public:
  enum class Kind {
    kSetup,  // MPI, NCCL or a device could not be set up (exit code 5)
    kPeer,   // a peer or the network failed while collectives were running (exit code 86)
  };

  CommError(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace longship::comm
