#pragma once

#include <cstdint>
#include <string>

namespace longship::runtime {

// Faults that tests ask for by the environment variable LONGSHIP_FAULT, to show how a run behaves
// when one rank goes wrong: "KIND:rank=R,step=S" with KIND
//   overflow  the loss of that step is infinite on that rank,
//   throw     that rank throws an exception in the middle of that step,
//   freeze    that rank stops doing anything at that step.
// Steps count from 1. Without the variable nothing ever matches.
class FaultInjection {
 public:
  // Throws UsageError for a text of another form.
  static FaultInjection from_environment(int rank);

  bool overflow(int64_t step) const { return matches("overflow", step); }
  // Throws std::runtime_error or sleeps for ever when this step is to fail so.
  void strike(int64_t step) const;

 private:
  bool matches(const char* kind, int64_t step) const { return kind_ == kind && step_ == step; }
  std::string kind_;
  int64_t step_ = -1;
};

}  // namespace longship::runtime
