#!/usr/bin/env python3
"""The peer of `longship bench loader`: h5py and DataLoader, shuffled windows of 50 rows of 100 columns.

Prints one JSON object: the best rate over a few numbers of workers.
"""

import json
import os
import pathlib
import tempfile
import time

import h5py
import numpy as np
import torch

ROWS, COLUMNS, WINDOW, BATCH = 100_000, 100, 50, 256


class Windows(torch.utils.data.Dataset):
    def __init__(self, path):
        self.path = path
        self.values = None

    def __len__(self):
        return ROWS - WINDOW

    def __getitem__(self, index):
        if self.values is None:  # one handle a worker
            self.values = h5py.File(self.path, "r")["values"]
        return torch.from_numpy(self.values[index : index + WINDOW + 1])


def rate(path, workers, device, seconds=4.0):
    loader = torch.utils.data.DataLoader(
        Windows(path),
        BATCH,
        shuffle=True,
        num_workers=workers,
        pin_memory=device == "cuda",
        drop_last=True,
    )
    batches = iter(loader)
    for _ in range(4):
        next(batches).to(device, non_blocking=True)
    begin = time.perf_counter()
    taken = 0
    for batch in batches:
        batch.to(device, non_blocking=True)
        taken += 1
        if time.perf_counter() - begin > seconds:
            break
    return taken * BATCH / (time.perf_counter() - begin)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory(prefix="longship-bench-") as folder:
        path = pathlib.Path(folder) / "series.h5"
        with h5py.File(path, "w") as file:
            values = np.random.default_rng(1).standard_normal((ROWS, COLUMNS), dtype=np.float32)
            file.create_dataset("values", data=values, chunks=(1024, COLUMNS))
        cores = os.cpu_count() or 1
        rates = {w: rate(path, w, device) for w in sorted({min(4, cores), min(12, cores)})}
    best = max(rates, key=rates.get)
    print(json.dumps({"windows_per_s": rates[best], "workers": best, "device": device}))


if __name__ == "__main__":
    main()
