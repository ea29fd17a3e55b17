#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>
#include <utility>
#include <vector>

namespace longship::comm {

// The stream that operations on this device are put on now by this thread.
c10::Stream current_stream(c10::Device device);

// A point in a stream's order, through LibTorch's device-independent events. On the CPU, where work
// is done when the call returns, every member does nothing and reached() is true.
class StreamMark {
 public:
  // Marks the present end of the device's current stream.
  void record(c10::Device device);
  // Makes the device's current stream wait for the mark; does not block the host.
  void block(c10::Device device) const;
  // Whether the stream has passed the mark; true when nothing was recorded. Never blocks.
  bool reached() const;

 private:
  std::optional<c10::Event> event_;
};

// Points in the orders of several streams, of each stream the last that was marked.
class StreamMarks {
 public:
  void clear() { marks_.clear(); }
  // As StreamMark.
  void record(c10::Device device);
  void block(c10::Device device) const;

 private:
  std::vector<std::pair<c10::Stream, StreamMark>> marks_;
};

}  // namespace longship::comm
