"""Schedules, optimizers and losses of torch, for the tests that compare ours with them.

usage: torch_reference.py GIVEN FOUND

GIVEN: "weight", "bias", "gradients/weight" and "gradients/bias" (one a step), "lr" (one a step),
"forecast" and "target". FOUND: "OPTIMIZER/weight" and "/bias" after every step, "loss/NAME" (one a
sample), "schedule/NAME" (one a step). The numbers in here are those of the tests.
"""

import sys

import torch

# weights_only refuses the type tag that LibTorch puts on a dictionary.
given = torch.load(sys.argv[1], weights_only=False)
found = {}


def run_optimizer(name, make):
    parameters = {key: given[key].clone().requires_grad_() for key in ("weight", "bias")}
    optimizer = make(parameters)
    history = {key: [] for key in parameters}
    for step, lr in enumerate(given["lr"].tolist()):
        for group in optimizer.param_groups:
            group["lr"] = lr
        for key, parameter in parameters.items():
            parameter.grad = given["gradients/" + key][step].clone()
        optimizer.step()
        for key, parameter in parameters.items():
            history[key].append(parameter.detach().clone())
    for key, values in history.items():
        found[f"{name}/{key}"] = torch.stack(values)


def weights_decay(parameters, decay):
    return [{"params": [parameters["weight"]], "weight_decay": decay},
            {"params": [parameters["bias"]], "weight_decay": 0.0}]


adamw = {"betas": (0.8, 0.95), "eps": 1e-6}
run_optimizer("adamw", lambda p: torch.optim.AdamW(p.values(), weight_decay=0.1, **adamw))
run_optimizer("adamw_weights", lambda p: torch.optim.AdamW(weights_decay(p, 0.1), **adamw))
run_optimizer("sgd", lambda p: torch.optim.SGD(p.values(), lr=1.0))
run_optimizer("sgd_momentum",
              lambda p: torch.optim.SGD(p.values(), lr=1.0, momentum=0.9, weight_decay=0.1))
run_optimizer("sgd_weights",
              lambda p: torch.optim.SGD(weights_decay(p, 0.1), lr=1.0, momentum=0.9))

forecast, target = given["forecast"], given["target"]
functions = torch.nn.functional
losses = {
    "mse": functions.mse_loss(forecast, target, reduction="none"),
    "mae": functions.l1_loss(forecast, target, reduction="none"),
    "huber": functions.huber_loss(forecast, target, reduction="none", delta=0.7),
}
for name, elements in losses.items():
    found["loss/" + name] = elements.flatten(1).mean(1)

STEPS, LR, MIN_LR = 20, 0.4, 0.04
schedulers = torch.optim.lr_scheduler
schedules = {
    "cosine": lambda o: schedulers.CosineAnnealingLR(o, T_max=STEPS - 1, eta_min=MIN_LR),
    "linear": lambda o: schedulers.LinearLR(o, 1.0, MIN_LR / LR, total_iters=STEPS - 1),
    "step": lambda o: schedulers.StepLR(o, step_size=7, gamma=0.3),
    "constant": lambda o: schedulers.ConstantLR(o, factor=1.0),
}
for name, make in schedules.items():
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=LR)
    schedule = make(optimizer)
    rates = []
    for _ in range(STEPS):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    found["schedule/" + name] = torch.tensor(rates, dtype=torch.float64)

torch.save(found, sys.argv[2])
