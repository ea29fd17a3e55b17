"""A single-process PyTorch training of the same model on the same windows: whole batches, plain
autograd, torch.optim, clip_grad_norm_."""

import math

import torch


class Forecaster(torch.nn.Module):
    """The program's LSTM model with the parameter names of its model.safetensors."""

    def __init__(self, inputs, hidden, layers, horizon, targets):
        super().__init__()
        self.lstm = torch.nn.LSTM(inputs, hidden, layers, batch_first=True)
        self.head = torch.nn.Linear(hidden, horizon * targets)
        self.shape = horizon, targets

    def forward(self, past):
        sequence, _ = self.lstm(past)
        return self.head(sequence[:, -1]).view(-1, *self.shape)


def learning_rate(config, step, total_steps):
    """Linear warm-up to the peak, then half a cosine down to 0 at the last step."""
    peak = config["optimizer"]["lr"]
    warmup = config["schedule"]["warmup_steps"]
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / (total_steps - warmup - 1)
    return peak * (1 + math.cos(math.pi * progress)) / 2


def train(config, windows, batches, initial):
    """Trains on `batches` (lists of window numbers); returns losses, gradient norms before clipping,
    and the final parameters by name."""
    data, model_keys, optimizer_keys = config["data"], config["model"], config["optimizer"]
    model = Forecaster(
        len(data["inputs"]),
        model_keys["hidden_size"],
        model_keys["num_layers"],
        data["horizon"],
        len(data["targets"]),
    )
    model.load_state_dict(initial, strict=True)
    common = {"lr": optimizer_keys["lr"], "weight_decay": optimizer_keys["weight_decay"]}
    if optimizer_keys["name"] == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), **common)
    else:
        optimizer = torch.optim.SGD(
            model.parameters(), momentum=optimizer_keys["momentum"], **common
        )
    losses, norms = [], []
    for step, batch in enumerate(batches):
        past, target = (torch.from_numpy(array) for array in windows.gather("train", batch))
        optimizer.param_groups[0]["lr"] = learning_rate(config, step, len(batches))
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(past), target)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config["train"]["clip_norm"])
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return losses, norms, {name: p.detach() for name, p in model.named_parameters()}
