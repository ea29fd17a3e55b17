#pragma once

#include <thread>

namespace longship::launcher {

// A pipe whose contents a thread passes on to a descriptor of this process. When nobody reads that
// descriptor any more (`longship launch ... | head`), what comes is dropped and the writers go on:
// mpirun itself would crash, and take a training with it that only its listener has left.
//
// The thread inherits the signal mask of the thread that makes the object.
class OutputPump {
 public:
  // target: stays open while the pump lives. Throws std::system_error.
  explicit OutputPump(int target);
  // Returns once every writer has closed the pipe and its contents have been passed on.
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  // The end to write to; closed on exec, so a child duplicates it onto its output.
  int write_end() const { return write_end_; }

 private:
  int write_end_;
  std::thread thread_;
};

}  // namespace longship::launcher
