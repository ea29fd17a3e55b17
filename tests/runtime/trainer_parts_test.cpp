#include "runtime/trainer_parts.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/local_communicator.h"
#include "rank_group.h"
#include "runtime/model_setup.h"
#include "test_series.h"

namespace longship::runtime {
namespace {

using testing::ElementsAre;

std::shared_ptr<models::Forecaster> make(int64_t seed = 1) {
  const tests::TemporaryFolder nowhere;
  return make_model(tests::wave_config(nowhere, {"run.seed=" + std::to_string(seed)}));
}

std::vector<std::string> names(const models::Forecaster& model) {
  std::vector<std::string> all;
  for (const NamedParameter& parameter : named_parameters(model)) all.push_back(parameter.name);
  return all;
}

TEST(TrainerParts, NamesTheTrainableParametersInOrder) {
  const auto model = make();
  EXPECT_THAT(names(*model), ElementsAre("linear.weight", "linear.bias"));
  model->named_parameters()["linear.weight"].set_requires_grad(false);
  EXPECT_THAT(names(*model), ElementsAre("linear.bias"));
}

TEST(TrainerParts, TurnsTheSettingsIntoReducerOptions) {
  Config config;
  config.comm.wire = "fp32";
  EXPECT_EQ(reducer_options(config).wire, comm::WireFormat::kFp32);
  EXPECT_EQ(reducer_options(config).bucket_bytes, 25 << 20);
  EXPECT_EQ(reducer_options(config).first_bucket_bytes, 1 << 20);
  config.comm.wire = "fp16";
  config.comm.bucket_mib = 0.5;
  EXPECT_EQ(reducer_options(config).wire, comm::WireFormat::kFp16);
  EXPECT_EQ(reducer_options(config).bucket_bytes, 1 << 19);
  EXPECT_EQ(reducer_options(config).first_bucket_bytes, 1 << 19);
  config.comm.wire = "bf16";
  EXPECT_EQ(reducer_options(config).wire, comm::WireFormat::kBf16);
}

TEST(TrainerParts, TheReducerHoldsEveryParameter) {
  const auto model = make();
  const auto alone = comm::make_local_communicator();
  Config config;
  config.comm.wire = "fp32";
  const auto reducer = make_reducer(config, *model, *alone);
  int64_t elements = 0;
  for (const at::Tensor& bucket : reducer->buckets()) elements += bucket.numel();
  EXPECT_GE(elements, 2 * 12 + 2);
  for (const at::Tensor& parameter : model->parameters()) EXPECT_TRUE(parameter.grad().defined());
}

TEST(TrainerParts, ShardedRanksUpdateEveryElementOnce) {
  constexpr int kRanks = 3;
  Config config;
  config.comm.wire = "fp32";
  config.optimizer.shard = true;
  Config::Optimizer adamw;
  adamw.name = "adamw";
  const tests::Group group = comm::make_local_group(kRanks);
  std::vector<std::shared_ptr<models::Forecaster>> models;
  for (int rank = 0; rank < kRanks; ++rank) models.push_back(make());
  std::vector<std::vector<UpdatedPart>> parts(kRanks);
  tests::play_ranks(kRanks, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    const auto reducer = make_reducer(config, *models[r], tests::member(group, rank));
    parts[r] = updated_parts(*models[r], *reducer);
  });
  const std::vector<NamedParameter> whole = named_parameters(*models[0]);
  int64_t elements = 0;
  for (const NamedParameter& parameter : whole) elements += parameter.tensor.numel();
  for (const auto& of_rank : parts) {
    int64_t held = 0;
    for (const OptimizerEntry& entry : make_optimizer(adamw, of_rank)->state()) {
      held += entry.tensor.numel();
    }
    // Two tensors of state for a third of the elements, up to 63 more by rounding.
    EXPECT_LE(held, 2 * ((elements + 2) / 3 + 63));
  }
  for (size_t p = 0; p < whole.size(); ++p) {
    at::Tensor times = at::zeros({whole[p].tensor.numel()});
    for (const auto& of_rank : parts) {
      const UpdatedPart& part = of_rank[p];
      EXPECT_EQ(part.name, whole[p].name);
      EXPECT_EQ(part.part->shape, whole[p].tensor.sizes());
      EXPECT_EQ(part.gradient.numel(), part.values.numel());
      times.narrow(0, part.part->begin, part.values.numel()) += 1;
    }
    EXPECT_TRUE(at::equal(times, at::ones_like(times))) << whole[p].name;
  }
}

TEST(TrainerParts, TheChecksumTellsWeightsApart) {
  const int64_t one = parameter_checksum(*make(1));
  EXPECT_GE(one, 0);
  EXPECT_LT(one, int64_t{1} << 62);
  EXPECT_EQ(parameter_checksum(*make(1)), one);
  EXPECT_NE(parameter_checksum(*make(2)), one);
  const auto changed = make(1);
  {
    const at::NoGradGuard no_grad;
    changed->parameters().back()[1].add_(1e-6);
  }
  EXPECT_NE(parameter_checksum(*changed), one);
}

}  // namespace
}  // namespace longship::runtime
