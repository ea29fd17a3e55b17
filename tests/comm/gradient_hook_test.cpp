#include "comm/gradient_hook.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace longship::comm {
namespace {

TEST(GradientHook, IsCalledWhenTheGradientIsThereOnceABackward) {
  const at::Tensor parameter = torch::ones({3}).requires_grad_();
  int calls = 0;
  float seen = 0;
  set_gradient_hook(parameter, [&] {
    ++calls;
    seen = parameter.grad().sum().item<float>();
  });
  // Used twice: one gradient, once both parts are in it.
  (parameter.sum() + (2 * parameter).sum()).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, 9.0F);
  parameter.sum().backward();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(seen, 12.0F);
}

TEST(GradientHook, IsReplacedAndTakenAway) {
  const at::Tensor parameter = torch::ones({3}).requires_grad_();
  int first = 0;
  int second = 0;
  set_gradient_hook(parameter, [&] { ++first; });
  set_gradient_hook(parameter, [&] { ++second; });
  parameter.sum().backward();
  set_gradient_hook(parameter, nullptr);
  parameter.sum().backward();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST(GradientHook, OfAParameterThatBackwardDoesNotReachIsSilent) {
  const at::Tensor used = torch::ones({3}).requires_grad_();
  const at::Tensor unused = torch::ones({3}).requires_grad_();
  int calls = 0;
  set_gradient_hook(unused, [&] { ++calls; });
  used.sum().backward();
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace longship::comm
