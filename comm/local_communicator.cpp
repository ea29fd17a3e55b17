#include "comm/local_communicator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "comm/error.h"
#include "comm/finished_work.h"
#include "comm/host_name.h"
#include "comm/stream_mark.h"
#include "comm/tensor_checks.h"

namespace longship::comm {
namespace {

// One rank alone.
class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string backend() const override { return "local"; }
  bool capturable() const override { return true; }

  std::unique_ptr<Work> all_reduce_async(at::Tensor tensor, ReduceOp op) override {
    check_reduced("all_reduce", tensor, op);
    return std::make_unique<FinishedWork>();
  }
  void broadcast(at::Tensor tensor, int root) override {
    check_moved("broadcast", tensor);
    check_root("broadcast", root, 1);
  }
  void all_gather(const at::Tensor& input, at::Tensor output) override {
    check_gathered(input, output, 1);
    output.view(-1).copy_(input.view(-1));
  }
  std::unique_ptr<Work> reduce_scatter_async(const at::Tensor& input, at::Tensor output,
                                             ReduceOp op) override {
    check_scattered(input, output, op, 1);
    output.view(-1).copy_(input.view(-1));
    return std::make_unique<FinishedWork>();
  }
  void barrier() override {}
};

// What one rank brings to a meeting. `name` holds everything that must be equal on all ranks.
struct Contribution {
  std::string name;
  at::Tensor input;
  at::Tensor output;
  StreamMark there;  // input may be read after it
};

// One collective: the rank that arrives last does the work for all.
struct Meeting {
  std::vector<std::optional<Contribution>> ranks;
  int arrived = 0;
  bool done = false;
  std::exception_ptr error;
  StreamMark finished;
};

using Reduction = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

Reduction reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return [](const at::Tensor& a, const at::Tensor& b) { return a + b; };
    case ReduceOp::kMax:
      return [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); };
    case ReduceOp::kMin:
      return [](const at::Tensor& a, const at::Tensor& b) { return at::minimum(a, b); };
  }
  throw std::invalid_argument("unknown reduction");
}

at::Tensor reduce(const Meeting& meeting, ReduceOp op) {
  const Reduction combine = reduction(op);
  at::Tensor sum = meeting.ranks[0]->input.view(-1).clone();
  for (size_t r = 1; r < meeting.ranks.size(); ++r) {
    sum = combine(sum, meeting.ranks[r]->input.view(-1));
  }
  return sum;
}

// Runs once everyone has arrived.
using Perform = void (*)(Meeting& meeting, ReduceOp op, int root);

void perform_all_reduce(Meeting& meeting, ReduceOp op, int /*root*/) {
  const at::Tensor sum = reduce(meeting, op);
  for (auto& rank : meeting.ranks) rank->output.view(-1).copy_(sum);
}

void perform_broadcast(Meeting& meeting, ReduceOp /*op*/, int root) {
  const at::Tensor& source = meeting.ranks[static_cast<size_t>(root)]->input;
  for (auto& rank : meeting.ranks) {
    if (!rank->output.is_same(source)) rank->output.copy_(source);
  }
}

void perform_all_gather(Meeting& meeting, ReduceOp /*op*/, int /*root*/) {
  const int64_t part = meeting.ranks[0]->input.numel();
  for (auto& rank : meeting.ranks) {
    int64_t offset = 0;
    for (const auto& source : meeting.ranks) {
      rank->output.view(-1).narrow(0, offset, part).copy_(source->input.view(-1));
      offset += part;
    }
  }
}

void perform_reduce_scatter(Meeting& meeting, ReduceOp op, int /*root*/) {
  const at::Tensor sum = reduce(meeting, op);
  const int64_t part = meeting.ranks[0]->output.numel();
  int64_t offset = 0;
  for (auto& rank : meeting.ranks) {
    rank->output.view(-1).copy_(sum.narrow(0, offset, part));
    offset += part;
  }
}

void perform_barrier(Meeting& /*meeting*/, ReduceOp /*op*/, int /*root*/) {}

class Group {
 public:
  Group(int size, std::chrono::milliseconds timeout) : size_(size), timeout_(timeout) {}

  int size() const { return size_; }

  std::shared_ptr<Meeting> join(uint64_t number, int rank, Contribution contribution,
                                Perform perform, ReduceOp op, int root) {
    std::shared_ptr<Meeting> meeting;
    {
      const std::lock_guard lock(mutex_);
      meeting = find_or_open(number);
      meeting->ranks[static_cast<size_t>(rank)] = std::move(contribution);
      if (++meeting->arrived < size_) return meeting;
      open_.erase(number);
    }
    try {
      check_equal(*meeting);
      const at::Device device = meeting->ranks[static_cast<size_t>(rank)]->output.device();
      for (const auto& other : meeting->ranks) other->there.block(device);
      perform(*meeting, op, root);
      meeting->finished.record(device);
    } catch (...) {
      meeting->error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    meeting->done = true;
    changed_.notify_all();
    return meeting;
  }

  bool done(const Meeting& meeting) {
    const std::lock_guard lock(mutex_);
    return meeting.done;
  }

  void wait(const Meeting& meeting, uint64_t number, int rank) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout_, [&] { return meeting.done; })) {
      throw CommError(CommError::Kind::kPeer, late(meeting, number, rank));
    }
    if (meeting.error) std::rethrow_exception(meeting.error);
    const Contribution& own = *meeting.ranks[static_cast<size_t>(rank)];
    meeting.finished.block(own.output.device());
  }

 private:
  std::shared_ptr<Meeting> find_or_open(uint64_t number) {
    auto& meeting = open_[number];
    if (!meeting) {
      meeting = std::make_shared<Meeting>();
      meeting->ranks.resize(static_cast<size_t>(size_));
    }
    return meeting;
  }

  void check_equal(const Meeting& meeting) const {
    for (size_t r = 1; r < meeting.ranks.size(); ++r) {
      if (meeting.ranks[r]->name == meeting.ranks[0]->name) continue;
      throw std::logic_error("rank " + std::to_string(r) + " called " + meeting.ranks[r]->name +
                             " where rank 0 called " + meeting.ranks[0]->name);
    }
  }

  std::string late(const Meeting& meeting, uint64_t number, int rank) const {
    std::ostringstream text;
    text << meeting.ranks[static_cast<size_t>(rank)]->name << " #" << number << " on rank " << rank
         << " of host " << host_name() << " did not end within "
         << std::chrono::duration<double>(timeout_).count() << " s: not there yet: rank";
    for (size_t r = 0; r < meeting.ranks.size(); ++r) {
      if (!meeting.ranks[r]) text << ' ' << r;
    }
    return text.str();
  }

  const int size_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::shared_ptr<Meeting>> open_;
};

class GroupWork final : public Work {
 public:
  GroupWork(std::shared_ptr<Group> group, std::shared_ptr<Meeting> meeting, uint64_t number,
            int rank)
      : group_(std::move(group)), meeting_(std::move(meeting)), number_(number), rank_(rank) {}
  ~GroupWork() override {
    if (waited_) return;
    try {
      wait();
    } catch (const std::exception&) {  // a destructor cannot report it
    }
  }
  GroupWork(const GroupWork&) = delete;
  GroupWork& operator=(const GroupWork&) = delete;

  bool done() override { return group_->done(*meeting_); }
  void wait() override {
    waited_ = true;
    group_->wait(*meeting_, number_, rank_);
  }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<Meeting> meeting_;
  uint64_t number_;
  int rank_;
  bool waited_ = false;
};

std::string signature(const std::string& collective, const at::Tensor& tensor,
                      const std::string& detail) {
  std::ostringstream text;
  text << collective << '(' << tensor.numel() << " x " << c10::toString(tensor.scalar_type());
  if (!detail.empty()) text << ", " << detail;
  text << ')';
  return text.str();
}

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string backend() const override { return "local"; }
  bool capturable() const override { return false; }

  std::unique_ptr<Work> all_reduce_async(at::Tensor tensor, ReduceOp op) override {
    check_reduced("all_reduce", tensor, op);
    return start(signature("all_reduce", tensor, name_of(op)), tensor, tensor, perform_all_reduce,
                 op, 0);
  }
  void broadcast(at::Tensor tensor, int root) override {
    check_moved("broadcast", tensor);
    check_root("broadcast", root, size());
    start(signature("broadcast", tensor, "root " + std::to_string(root)), tensor, tensor,
          perform_broadcast, ReduceOp::kSum, root)
        ->wait();
  }
  void all_gather(const at::Tensor& input, at::Tensor output) override {
    check_gathered(input, output, size());
    start(signature("all_gather", input, ""), input, output, perform_all_gather, ReduceOp::kSum, 0)
        ->wait();
  }
  std::unique_ptr<Work> reduce_scatter_async(const at::Tensor& input, at::Tensor output,
                                             ReduceOp op) override {
    check_scattered(input, output, op, size());
    return start(signature("reduce_scatter", input, name_of(op)), input, output,
                 perform_reduce_scatter, op, 0);
  }
  void barrier() override {
    const at::Tensor nothing = at::empty({0});
    start("barrier", nothing, nothing, perform_barrier, ReduceOp::kSum, 0)->wait();
  }

 private:
  std::unique_ptr<Work> start(std::string name, const at::Tensor& input, const at::Tensor& output,
                              Perform perform, ReduceOp op, int root) {
    Contribution contribution{std::move(name), input, output, {}};
    contribution.there.record(input.device());
    const uint64_t number = next_++;
    auto meeting = group_->join(number, rank_, std::move(contribution), perform, op, root);
    return std::make_unique<GroupWork>(group_, std::move(meeting), number, rank_);
  }

  std::shared_ptr<Group> group_;
  const int rank_;
  uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator() {
  return std::make_unique<SelfCommunicator>();
}

std::vector<std::unique_ptr<Communicator>> make_local_group(int size,
                                                            std::chrono::milliseconds timeout) {
  if (size < 1) throw std::invalid_argument("a group needs at least one rank");
  auto group = std::make_shared<Group>(size, timeout);
  std::vector<std::unique_ptr<Communicator>> ranks;
  ranks.reserve(static_cast<size_t>(size));
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<GroupCommunicator>(group, r));
  return ranks;
}

}  // namespace longship::comm
