#include "runtime/checkpoint_patience.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <exception>
#include <future>

#include "runtime/agreement.h"

namespace longship::runtime {

namespace {

constexpr std::chrono::seconds kNoticeInterval{30};

// The ranks whose flag is set, as "rank 3" or "ranks 1, 3".
std::string name_busy(const at::Tensor& flags) {
  std::string numbers;
  int count = 0;
  for (int64_t rank = 0; rank < flags.numel(); ++rank) {
    if (flags.const_data_ptr<int32_t>()[rank] == 0) continue;
    numbers += (count++ == 0 ? "" : ", ") + std::to_string(rank);
  }
  return (count == 1 ? "rank " : "ranks ") + numbers;
}

}  // namespace

void collectively_with_patience(comm::Communicator& host, const std::string& host_name,
                                const std::function<void()>& work,
                                const std::function<void(const std::string&)>& waiting,
                                std::chrono::milliseconds interval) {
  if (host.size() == 1) {
    collectively(
        host, host_name, work ? work : [] {});
    return;
  }
  std::future<void> done;
  if (work) done = std::async(std::launch::async, work);

  const auto begin = std::chrono::steady_clock::now();
  auto next_notice = begin + kNoticeInterval;
  const at::Tensor busy = at::empty({1}, at::kInt);
  at::Tensor all_busy = at::empty({host.size()}, at::kInt);
  for (bool any_busy = true; any_busy;) {
    const bool ready = !done.valid() || done.wait_for(interval) == std::future_status::ready;
    busy.mutable_data_ptr<int32_t>()[0] = ready ? 0 : 1;
    host.all_gather(busy, all_busy);
    any_busy = false;
    for (int rank = 0; rank < host.size(); ++rank) {
      any_busy = any_busy || all_busy.const_data_ptr<int32_t>()[rank] != 0;
    }
    const auto now = std::chrono::steady_clock::now();
    if (any_busy && waiting && host.rank() == 0 && now >= next_notice) {
      next_notice = now + kNoticeInterval;
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin).count();
      waiting(name_busy(all_busy) + " not ready after " + std::to_string(seconds) + " s");
    }
  }
  std::exception_ptr error;
  try {
    if (done.valid()) done.get();
  } catch (...) {
    error = std::current_exception();
  }
  agree(host, host_name, error);
}

}  // namespace longship::runtime
