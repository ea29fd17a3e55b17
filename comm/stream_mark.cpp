#include "comm/stream_mark.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace longship::comm {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void StreamMark::record(c10::Device device) {
  if (device.is_cpu()) return;
  if (!event_) event_.emplace(device.type());
  event_->record(current_stream(device));
}

void StreamMark::block(c10::Device device) const {
  if (event_ && !device.is_cpu()) event_->block(current_stream(device));
}

bool StreamMark::reached() const {
  if (!event_) return true;
  // Another thread than the one that recorded may ask. Without the guard CUDA would make a context
  // on device 0 for that thread.
  const c10::DeviceGuard guard(event_->device());
  return event_->query();
}

void StreamMarks::record(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::Stream stream = current_stream(device);
  auto of_stream = std::find_if(marks_.begin(), marks_.end(),
                                [&](const auto& mark) { return mark.first == stream; });
  if (of_stream == marks_.end()) {
    of_stream = marks_.emplace(marks_.end(), stream, StreamMark());
  }
  of_stream->second.record(device);
}

void StreamMarks::block(c10::Device device) const {
  for (const auto& mark : marks_) mark.second.block(device);
}

}  // namespace longship::comm
