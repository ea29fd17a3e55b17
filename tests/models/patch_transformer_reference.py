"""The patch transformer of PyTorch's own modules, with weights and inputs of the C++ model.

usage: patch_transformer_reference.py GIVEN FOUND

GIVEN holds the weights under the C++ model's parameter names and "past" (batch, window, columns);
FOUND gets the forecast and the gradients of the sum of its squares.
"""

import sys

import torch

PATCH, STRIDE, WIDTH, HEADS, FEED_FORWARD, LAYERS, HORIZON = 6, 3, 16, 4, 24, 2, 5


class Reference(torch.nn.Module):
    def __init__(self, window):
        super().__init__()
        patches = (window - PATCH) // STRIDE + 2
        self.emb = torch.nn.Linear(PATCH, WIDTH)
        self.pos = torch.nn.Parameter(torch.zeros(patches, WIDTH))
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, FEED_FORWARD, 0.0, "gelu", batch_first=True
        )
        self.enc = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Linear(patches * WIDTH, HORIZON)

    def forward(self, past):
        batch, window, columns = past.shape
        x = past.transpose(1, 2).reshape(batch * columns, window)
        x = torch.cat([x, x[:, -1:].expand(-1, STRIDE)], 1)
        x = self.enc(self.emb(x.unfold(1, PATCH, STRIDE)) + self.pos)
        return self.head(x.flatten(1)).view(batch, columns, HORIZON).transpose(1, 2)


# weights_only refuses the type tag that LibTorch puts on a dictionary.
given = torch.load(sys.argv[1], weights_only=False)
past = given.pop("past")
model = Reference(past.shape[1])
model.load_state_dict(given, strict=True)
forecast = model(past)
forecast.square().sum().backward()
found = {"forecast": forecast.detach().contiguous()}
for name, parameter in model.named_parameters():
    found["grad/" + name] = parameter.grad
torch.save(found, sys.argv[2])
