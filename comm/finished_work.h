#pragma once

#include "comm/communicator.h"

namespace longship::comm {

// The Work of an operation that had nothing to do: one rank, or no elements.
class FinishedWork final : public Work {
 public:
  bool done() override { return true; }
  void wait() override {}
};

}  // namespace longship::comm
