"""The models of Longship's benchmarks in PyTorch, at the sizes of its presets."""

import torch

PRESETS = ("seed-lstm", "patch-transformer")


class SeedLstm(torch.nn.Module):
    """inputs 100, window 50, hidden 256 x 3, one output (the seed article's)."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(100, 256, 3, batch_first=True)
        self.head = torch.nn.Linear(256, 1)

    def forward(self, past):
        return self.head(self.lstm(past)[0][:, -1])


class PatchTransformer(torch.nn.Module):
    """7 columns, 512 -> 96, patches of 16 every 8, width 128, 16 heads, 3 layers.

    As models/patch_transformer.cpp: dropout everywhere but on attention weights.
    """

    def __init__(self, width=128, heads=16, feed_forward=256, layers=3, patch=16, stride=8):
        super().__init__()
        self.patch, self.stride = patch, stride
        patches = (512 - patch) // stride + 2
        self.emb = torch.nn.Linear(patch, width)
        self.pos = torch.nn.Parameter(torch.empty(patches, width).uniform_(-0.02, 0.02))
        layer = torch.nn.TransformerEncoderLayer(
            width, heads, feed_forward, 0.2, "gelu", batch_first=True
        )
        self.enc = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        for made in self.enc.layers:
            made.self_attn.dropout = 0.0
        self.head = torch.nn.Linear(patches * width, 96)

    def forward(self, past):
        batch, window, columns = past.shape
        x = past.transpose(1, 2).reshape(batch * columns, window)
        x = torch.cat([x, x[:, -1:].expand(-1, self.stride)], 1)
        x = self.enc(self.emb(x.unfold(1, self.patch, self.stride)) + self.pos)
        return self.head(x.flatten(1)).view(batch, columns, -1).transpose(1, 2)


def make_model(preset):
    torch.manual_seed(1)
    return SeedLstm() if preset == "seed-lstm" else PatchTransformer()


def make_batch(preset, device, batch=None):
    """Past and target of one micro-batch."""
    if preset == "seed-lstm":
        batch = batch or 256
        shapes = (batch, 50, 100), (batch, 1)
    else:
        batch = batch or 32
        shapes = (batch, 512, 7), (batch, 96, 7)
    return tuple(torch.randn(shape, device=device) for shape in shapes)
