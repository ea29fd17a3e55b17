#!/usr/bin/env python3
"""Samples per second of the seed article's LSTM: `longship train` beside eager PyTorch DDP.

Inputs 100, window 50, hidden 256, 3 layers, micro-batch 256; batches of 256 and, by accumulation, of
1024. Both clip, both reduce gradients in FP16 over NCCL with one rank, both take turns on the same
GPU. Longship reads an HDF5 file and gathers its batches; the peer's batches lie on the GPU already.

Prints a table of the medians over all rounds. LONGSHIP_BINARY names the program.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
INPUTS, WINDOW, MICRO_BATCH = 100, 50, 256


def write_series(path, rows):
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "longship-series"
        file.attrs["version"] = np.int64(1)
        names = [f"x{c}" for c in range(INPUTS)]
        file.attrs.create("columns", names, dtype=h5py.string_dtype())
        file["values"] = random.standard_normal((rows, INPUTS), dtype=np.float32)
        file["offsets"] = np.array([0, rows], dtype=np.int64)
        file.create_dataset("series", data=["noise"], dtype=h5py.string_dtype())


def run_file(folder, name, accumulation, arguments):
    return {
        "run": {"name": name, "directory": str(folder / "runs"), "seed": 1},
        "data": {
            "path": str(folder / "seed.h5"),
            "inputs": [f"x{c}" for c in range(INPUTS)],
            "targets": ["x0"],
            "window": WINDOW,
            "horizon": 1,
        },
        "model": {"name": "lstm", "hidden_size": 256, "num_layers": 3},
        "train": {
            "steps": arguments.steps,
            "batch_size": MICRO_BATCH * accumulation,
            "micro_batch_size": MICRO_BATCH,
            "clip_norm": 1.0,
        },
        "precision": {"mode": arguments.precision},
        "eval": {"every_epochs": 0},
        "comm": {"backend": arguments.backend, "wire": "fp16"},
        "checkpoint": {"every_minutes": 0},
        "log": {"every_steps": arguments.log_every},
    }


def longship(folder, number, accumulation, arguments):
    """Median samples per second of the records after the warm-up."""
    binary = os.environ.get("LONGSHIP_BINARY", ROOT / "build/release/longship")
    name = f"accumulation-{accumulation}-{number}"
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(run_file(folder, name, accumulation, arguments)))
    done = subprocess.run(
        [binary, "train", path], stderr=subprocess.PIPE, text=True, timeout=180, check=False
    )
    if done.returncode:
        sys.exit(f"longship train ended with {done.returncode}:\n{done.stderr}")
    lines = (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
    records = [r for r in map(json.loads, lines) if r["step"] > arguments.warmup]
    # The end of the run has other work to do: its last interval says nothing about the steps.
    return statistics.median(r["samples_per_s"] for r in records[:-1])


def peer(accumulation, arguments):
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "bench/pytorch_ddp.py",
            *("--accumulation", str(accumulation), "--precision", arguments.precision),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if done.returncode:
        sys.exit(f"bench/pytorch_ddp.py ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["samples_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", choices=["fp16", "bf16"], default="fp16")
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--log-every", type=int, default=25)
    arguments = parser.parse_args()

    print(f"seed LSTM, {arguments.precision}, micro-batch {MICRO_BATCH}, samples/s:")
    print(f"{'batch':>6} {'longship':>10} {'PyTorch DDP':>12} {'ratio':>6}")
    with tempfile.TemporaryDirectory(prefix="longship-bench-") as name:
        folder = pathlib.Path(name)
        write_series(folder / "seed.h5", arguments.rows)
        for accumulation in (1, 4):
            ours, theirs = [], []
            for number in range(arguments.rounds):
                ours.append(longship(folder, number, accumulation, arguments))
                theirs.append(peer(accumulation, arguments))
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"{MICRO_BATCH * accumulation:6} {a:10.0f} {b:12.0f} {a / b:6.2f}", flush=True)


if __name__ == "__main__":
    main()
