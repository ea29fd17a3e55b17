#include <iostream>

#include "launcher/bench.h"
#include "launcher/command.h"
#include "runtime/error.h"

namespace longship::launcher {
namespace {

constexpr const char* kHelp =
    "Usage: longship bench KIND [...]\n\n"
    "  train [CONFIG]   optimizer steps: samples/s, FLOP/s, time in Tensor Core kernels, memory\n"
    "  infer [CONFIG]   forward passes at batches 32 to 512\n"
    "  allreduce        sums over ranks by size, in each wire format\n"
    "  loader [CONFIG]  windows/s that the loader gives\n\n"
    "Each takes --json; longship bench KIND --help tells more. To measure several ranks:\n"
    "  longship launch -n 2 -- bench allreduce\n";

int run(const std::vector<std::string>& words) {
  if (words.empty()) {
    throw runtime::UsageError("longship bench needs a kind: train, infer, allreduce or loader");
  }
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words.front() == "train") return bench_train(rest);
  if (words.front() == "infer") return bench_infer(rest);
  if (words.front() == "allreduce") return bench_allreduce(rest);
  if (words.front() == "loader") return bench_loader(rest);
  if (words.front() == "--help" || words.front() == "-h") {
    std::cout << kHelp;
    return 0;
  }
  throw runtime::UsageError("longship bench has no kind '" + words.front() +
                            "'; it has train, infer, allreduce and loader");
}

}  // namespace

Command bench_command() {
  return {"bench", "measure training, inference, communication and loading", run};
}

}  // namespace longship::launcher
