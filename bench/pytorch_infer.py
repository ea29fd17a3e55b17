#!/usr/bin/env python3
"""The peer of `longship bench infer`: eager PyTorch, TF32 allowed, autocast in half precision.

10 passes to warm up and 100 timed at each batch; prints one JSON object.
"""

import json
import statistics
import time

import torch

import peer_models


def measure(model, batch, precision):
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    past = torch.randn(batch, 50, 100, device="cuda")
    with torch.inference_mode(), torch.autocast("cuda", dtype, enabled=dtype is not None):
        for _ in range(10):
            model(past)
        times = []
        for _ in range(10):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(10):
                model(past)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) / 10)
    ms = 1e3 * statistics.median(times)
    return {"precision": precision, "batch": batch, "ms": ms, "samples_per_s": 1e3 * batch / ms}


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    model = peer_models.make_model("seed-lstm").cuda().eval()
    results = [
        measure(model, batch, precision)
        for precision in ("tf32", "fp16", "bf16")
        for batch in (32, 64, 128, 256, 512)
    ]
    print(json.dumps({"bench": "infer", "torch": torch.__version__, "results": results}))


if __name__ == "__main__":
    main()
