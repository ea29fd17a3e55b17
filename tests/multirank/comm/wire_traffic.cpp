// Run by wire_bytes_monitoring.py: reduces gradients in the wire format given as the only argument
// (fp32, fp16 or bf16), 20 steps, so that Open MPI's monitoring counts what really travels.

#include <torch/torch.h>

#include <chrono>
#include <iostream>
#include <string>

#include "comm/gradient_reducer.h"
#include "comm/mpi_runtime.h"

using longship::comm::WireFormat;

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  longship::comm::ReducerOptions options;
  if (name == "fp16") {
    options.wire = WireFormat::kFp16;
  } else if (name == "bf16") {
    options.wire = WireFormat::kBf16;
  } else if (name != "fp32") {
    std::cerr << "usage: wire_traffic fp32|fp16|bf16\n";
    return 2;
  }
  longship::comm::MpiRuntime runtime(std::chrono::seconds(60));
  const auto communicator = runtime.make_communicator();
  const auto parameter = torch::zeros({1000, 250}).requires_grad_();
  longship::comm::GradientReducer reducer({parameter}, *communicator, options);
  for (int step = 0; step < 20; ++step) {
    reducer.zero();
    reducer.begin_micro_step(true);
    parameter.sum().backward();
    reducer.finalize();
  }
  return 0;
}
