#!/usr/bin/env python3
"""The peers of `longship bench train`: the same training steps by PyTorch, in the ways its users have.

  ddp                eager DistributedDataParallel, FP16 compression hook, GradScaler, fused AdamW
  graph              the whole step in a CUDA graph, captured by hand: flat gradients, cast to the
                     wire, all-reduce, unscale with a check for infinity, clip, loss scale, schedule,
                     fused AdamW that skips on overflow
  compile            torch.compile of forward and backward, eager rest
  reduce-overhead    torch.compile(mode="reduce-overhead"), eager rest
  gloo               eager DistributedDataParallel on CPUs, under torchrun

Under torchrun ddp and graph train on as many GPUs as there are ranks. Batches lie on the device
already. Rank 0 prints one JSON object.
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

import peer_models

CLIP_NORM = 1.0
WARMUP_STEPS = 10
SCHEDULED_STEPS = 20000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def learning_rate(step):
    return 1e-3 * min(1.0, (step + 1) / WARMUP_STEPS)


def device_of(recipe):
    if recipe == "gloo":
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


class Recipe:
    def __init__(self, arguments):
        self.device = device_of(arguments.recipe)
        self.model = peer_models.make_model(arguments.preset).to(self.device)
        self.accumulation = arguments.accumulation
        self.dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(arguments.precision)
        tf32 = arguments.precision != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self.scaling = arguments.precision == "fp16"
        def make_batch():
            return peer_models.make_batch(arguments.preset, self.device, arguments.batch)

        self.batches = [make_batch() for _ in range(8)]
        self.served = 0

    def batch(self):
        self.served += 1
        return self.batches[self.served % len(self.batches)]

    def autocast(self):
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def close(self):
        """Before the process group ends."""

    def loss(self, model, past, target):
        with self.autocast():
            forecast = model(past)
        return torch.nn.functional.mse_loss(forecast.float(), target) / self.accumulation


class Eager(Recipe):
    """DDP or torch.compile: everything but forward and backward as PyTorch's users write it."""

    def __init__(self, arguments):
        super().__init__(arguments)
        ddp = arguments.recipe in ("ddp", "gloo")
        if ddp:
            ids = None if self.device.type == "cpu" else [self.device.index]
            self.net = DistributedDataParallel(
                self.model, device_ids=ids, gradient_as_bucket_view=True
            )
            if arguments.wire == "fp16":
                self.net.register_comm_hook(None, default_hooks.fp16_compress_hook)
        else:
            mode = None if arguments.recipe == "compile" else arguments.recipe
            self.net = torch.compile(self.model, mode=mode)
        self.ddp = ddp
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-3, weight_decay=0.01, fused=True
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate(step) / 1e-3
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.scaling)

    def step(self):
        for micro_step in range(self.accumulation):
            if not self.ddp:
                torch.compiler.cudagraph_mark_step_begin()
            last = micro_step + 1 == self.accumulation
            with contextlib.nullcontext() if last or not self.ddp else self.net.no_sync():
                self.scaler.scale(self.loss(self.net, *self.batch())).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        self.optimizer.zero_grad()


class Graph(Recipe):
    """One graph a step; with accumulation one more for the micro-steps before the last."""

    def __init__(self, arguments):
        super().__init__(arguments)
        device = self.device
        parameters = list(self.model.parameters())
        sizes = [p.numel() for p in parameters]
        self.gradients = torch.zeros(sum(sizes), device=device)
        for parameter, part in zip(parameters, self.gradients.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        self.parameters = parameters
        self.wire = torch.zeros_like(self.gradients, dtype=torch.float16)
        self.casts = arguments.wire == "fp16"
        self.optimizer = torch.optim.AdamW(
            parameters,
            lr=torch.tensor(1e-3, device=device),
            weight_decay=0.01,
            fused=True,
            capturable=True,
        )
        self.scale = torch.full((), 65536.0 if self.scaling else 1.0, device=device)
        self.growth = torch.zeros((), dtype=torch.int32, device=device)
        self.found_inf = torch.zeros((), device=device)
        self.optimizer.found_inf = self.found_inf
        self.applied = torch.zeros((1,), dtype=torch.int64, device=device)
        self.rates = torch.tensor(
            [learning_rate(s) for s in range(SCHEDULED_STEPS)], device=device
        )
        self.loss_sum = torch.zeros((), device=device)
        self.past, self.target = (t.clone() for t in self.batches[0])

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.micro_step()
                self.finish()
        torch.cuda.current_stream().wait_stream(stream)
        pool = torch.cuda.graph_pool_handle()
        self.micro_graph = None
        if self.accumulation > 1:
            self.micro_graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.micro_graph, pool=pool):
                self.micro_step()
        self.last_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.last_graph, pool=pool):
            self.micro_step()
            self.finish()

    def micro_step(self):
        loss = self.loss(self.model, self.past, self.target)
        (loss * self.scale).backward()
        self.loss_sum += loss.detach()

    def finish(self):
        if self.casts:
            self.wire.copy_(self.gradients)
            dist.all_reduce(self.wire)
            self.gradients.copy_(self.wire)
        else:
            dist.all_reduce(self.gradients)
        self.found_inf.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(
            [self.gradients], self.found_inf, self.scale.reciprocal()
        )
        norm = torch.linalg.vector_norm(self.gradients)
        self.gradients *= (CLIP_NORM / (norm + 1e-6)).clamp(max=1.0)
        self.optimizer.param_groups[0]["lr"].copy_(self.rates[self.applied].squeeze(0))
        self.optimizer.step()
        self.applied += (1 - self.found_inf).to(torch.int64)
        if self.scaling:
            torch._amp_update_scale_(self.scale, self.growth, self.found_inf, 2.0, 0.5, 2000)
        self.gradients.zero_()
        self.loss_sum.zero_()

    def close(self):
        # A communicator of several ranks waits at its end for the graphs that hold its kernels.
        torch.cuda.synchronize()
        self.last_graph.reset()
        if self.micro_graph is not None:
            self.micro_graph.reset()

    def step(self):
        for micro_step in range(self.accumulation):
            past, target = self.batch()
            self.past.copy_(past)
            self.target.copy_(target)
            last = micro_step + 1 == self.accumulation
            (self.last_graph if last else self.micro_graph).replay()


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def median_ms(recipe, warmup, blocks, block_steps):
    for _ in range(warmup):
        recipe.step()
    times = []
    for _ in range(blocks):
        synchronize(recipe.device)
        begin = time.perf_counter()
        for _ in range(block_steps):
            recipe.step()
        synchronize(recipe.device)
        times.append((time.perf_counter() - begin) / block_steps)
    return 1e3 * statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    recipes = ("ddp", "graph", "compile", "reduce-overhead", "gloo")
    parser.add_argument("recipe", choices=recipes)
    parser.add_argument("--preset", choices=peer_models.PRESETS, default="seed-lstm")
    parser.add_argument("--batch", type=int, help="samples of a micro-batch")
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--precision", choices=["fp32", "tf32", "fp16", "bf16"], default="fp16")
    parser.add_argument("--wire", choices=["fp32", "fp16"], default="fp16")
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--block-steps", type=int, default=30)
    arguments = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    if arguments.recipe == "gloo":
        dist.init_process_group("gloo")
        recipe = Eager(arguments)
    else:
        torch.cuda.set_device(device_of(arguments.recipe))
        dist.init_process_group("nccl", device_id=device_of(arguments.recipe))
        recipe = Graph(arguments) if arguments.recipe == "graph" else Eager(arguments)
    try:
        ms = median_ms(recipe, arguments.warmup, arguments.blocks, arguments.block_steps)
        samples = recipe.batches[0][0].shape[0] * arguments.accumulation * dist.get_world_size()
        result = {
            "recipe": arguments.recipe,
            "preset": arguments.preset,
            "precision": arguments.precision,
            "accumulation": arguments.accumulation,
            "step_ms": ms,
            "samples_per_s": 1e3 * samples / ms,
            "torch": torch.__version__,
        }
        if dist.get_rank() == 0:
            print(json.dumps(result), flush=True)
        recipe.close()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
