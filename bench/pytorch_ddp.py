#!/usr/bin/env python3
"""The peer: the seed article's LSTM trained by eager PyTorch, as its users would write it today.

DistributedDataParallel with one process, the FP16 compression hook, GradScaler and fused AdamW, on
batches that already lie on the GPU. Prints one JSON line for each accumulation:
  {"recipe", "accumulation", "step_ms", "samples_per_s"}, medians over blocks of steps.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


class SeedLstm(torch.nn.Module):
    def __init__(self, inputs, hidden, layers):
        super().__init__()
        self.lstm = torch.nn.LSTM(inputs, hidden, layers, batch_first=True)
        self.head = torch.nn.Linear(hidden, 1)

    def forward(self, past):
        return self.head(self.lstm(past)[0][:, -1])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_step(arguments, accumulation, dtype):
    """A function that takes one optimizer step of `accumulation` micro-batches."""
    device = torch.device("cuda")
    torch.manual_seed(1)
    model = SeedLstm(arguments.inputs, arguments.hidden, arguments.layers).to(device)
    parallel = DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=True)
    parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    batches = [
        (
            torch.randn(arguments.micro_batch, arguments.window, arguments.inputs, device=device),
            torch.randn(arguments.micro_batch, 1, device=device),
        )
        for _ in range(8)
    ]
    served = 0

    def step():
        nonlocal served
        for micro_step in range(accumulation):
            past, target = batches[served % len(batches)]
            served += 1
            last = micro_step + 1 == accumulation
            with contextlib.nullcontext() if last else parallel.no_sync():
                with torch.autocast("cuda", dtype):
                    forecast = parallel(past)
                loss = torch.nn.functional.mse_loss(forecast.float(), target) / accumulation
                scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return step


def median_ms(step, warmup, blocks, block_steps):
    for _ in range(warmup):
        step()
    times = []
    for _ in range(blocks):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(block_steps):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / block_steps)
    return 1e3 * statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100)
    parser.add_argument("--window", type=int, default=50)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--micro-batch", type=int, default=256)
    parser.add_argument("--accumulation", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--precision", choices=["fp16", "bf16"], default="fp16")
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--block-steps", type=int, default=30)
    arguments = parser.parse_args()

    torch.cuda.set_device(0)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda", 0))
    dtype = torch.float16 if arguments.precision == "fp16" else torch.bfloat16
    try:
        for accumulation in arguments.accumulation:
            step = make_step(arguments, accumulation, dtype)
            ms = median_ms(step, arguments.warmup, arguments.blocks, arguments.block_steps)
            result = {
                "recipe": f"PyTorch {torch.__version__} eager DDP, FP16 hook, {arguments.precision}",
                "accumulation": accumulation,
                "step_ms": round(ms, 3),
                "samples_per_s": round(1e3 * accumulation * arguments.micro_batch / ms),
            }
            print(json.dumps(result), flush=True)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
