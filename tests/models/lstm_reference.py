"""Runs torch.nn.LSTM and torch.nn.Linear with weights and inputs of the C++ models.

usage: lstm_reference.py GIVEN FOUND

GIVEN holds "lstm/<name>" and "linear/<name>" weights under the C++ models' parameter names and
"past" (batch, window, inputs); FOUND gets both models' outputs and the gradients of the LSTM's sum.
"""

import sys

import torch

# weights_only refuses the type tag that LibTorch puts on a dictionary.
given = torch.load(sys.argv[1], weights_only=False)
past = given["past"]
weights = {k.removeprefix("lstm/"): v for k, v in given.items() if k.startswith("lstm/")}
inputs, hidden = past.shape[2], weights["lstm.weight_hh_l0"].shape[1]
layers = sum(name.startswith("lstm.weight_hh_l") for name in weights)


class Reference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(inputs, hidden, layers, batch_first=True)
        self.head = torch.nn.Linear(hidden, weights["head.weight"].shape[0])

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


model = Reference()
model.load_state_dict(weights, strict=True)
output = model(past)
output.sum().backward()
found = {"lstm": output.detach()}
for name, parameter in model.named_parameters():
    found["grad/" + name] = parameter.grad

linear = torch.nn.Linear(past.shape[1] * inputs, given["linear/linear.weight"].shape[0])
linear.load_state_dict(
    {k.removeprefix("linear/linear."): v for k, v in given.items() if k.startswith("linear/")})
found["linear"] = linear(past.flatten(1)).detach()
torch.save(found, sys.argv[2])
