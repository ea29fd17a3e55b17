#include "runtime/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <vector>

#include "comm/error.h"
#include "comm/text_collectives.h"

namespace longship::runtime {
namespace {

struct Failure {
  int64_t code = 0;
  std::string message;
};

Failure describe(const std::exception_ptr& error) {
  if (!error) {
    return {};
  }
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return {static_cast<int64_t>(exit_code_of(e)), message_of(e)};
  } catch (...) {
    return {static_cast<int64_t>(ExitCode::kInternal), "an exception of unknown type"};
  }
}

// "ranks 1, 2 and 4 of 8 (node-a, node-b)"
std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts,
                       int size) {
  std::string numbers;
  std::vector<std::string> places;
  for (size_t i = 0; i < ranks.size(); ++i) {
    numbers += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    const std::string& place = hosts[static_cast<size_t>(ranks[i])];
    if (places.empty() || places.back() != place) {
      places.push_back(place);
    }
  }
  std::string text =
      (ranks.size() == 1 ? "rank " : "ranks ") + numbers + " of " + std::to_string(size) + " (";
  for (size_t i = 0; i < places.size(); ++i) {
    text += (i == 0 ? "" : ", ") + places[i];
  }
  return text + ")";
}

}  // namespace

void agree(comm::Communicator& host, const std::string& host_name,
           const std::exception_ptr& error) {
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (const AgreedError&) {
      throw;
    } catch (const comm::CommError&) {
      throw;         // a collective failed; another one would not end either
    } catch (...) {  // NOLINT(bugprone-empty-catch): described below
    }
  }
  const Failure mine = describe(error);
  const at::Tensor code = at::full({1}, mine.code, at::kLong);
  at::Tensor codes = at::empty({host.size()}, at::kLong);
  host.all_gather(code, codes);
  if (codes.max().item<int64_t>() == 0) {
    return;
  }
  const std::vector<std::string> messages = comm::all_gather_text(host, mine.message);
  const std::vector<std::string> hosts = comm::all_gather_text(host, host_name);

  int64_t first_code = 0;
  std::vector<std::string> order;  // distinct messages, by their lowest rank
  std::map<std::string, std::vector<int>> ranks_of;
  for (int rank = 0; rank < host.size(); ++rank) {
    const int64_t rank_code = codes[rank].item<int64_t>();
    if (rank_code == 0) {
      continue;
    }
    first_code = first_code == 0 ? rank_code : first_code;
    const std::string& message = messages[static_cast<size_t>(rank)];
    if (ranks_of[message].empty()) {
      order.push_back(message);
    }
    ranks_of[message].push_back(rank);
  }
  constexpr size_t kShown =
      3;  // one line tells it, also when each of 1000 ranks names its own file
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kShown); ++i) {
    const std::string& message = order[i];
    const std::vector<int>& ranks = ranks_of[message];
    text += i == 0 ? "" : "; ";
    text += message;
    if (host.size() > 1) {
      text += static_cast<int>(ranks.size()) == host.size()
                  ? " [all " + std::to_string(host.size()) + " ranks]"
                  : " [" + name_ranks(ranks, hosts, host.size()) + "]";
    }
  }
  if (order.size() > kShown) {
    text += "; and " + std::to_string(order.size() - kShown) + " more such errors on other ranks";
  }
  throw AgreedError(static_cast<ExitCode>(first_code), text);
}

void collectively(comm::Communicator& host, const std::string& host_name,
                  const std::function<void()>& work) {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  agree(host, host_name, error);
}

}  // namespace longship::runtime
