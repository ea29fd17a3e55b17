#!/usr/bin/env python3
"""Longship beside PyTorch on this machine: both take turns in one run, and ratios of medians are printed.

  compare.py train   training steps on one GPU, one rank over NCCL, FP16 wire, clipping, schedule
  compare.py infer   forward passes of the seed LSTM at batches 32 to 512
  compare.py loader  h5py and DataLoader against Longship's loader (host and device)
  compare.py cpu     two ranks on CPUs against DistributedDataParallel with gloo
  compare.py counters Tensor Core use of a step by the GPU's hardware counters, where ncu can read them
  compare.py buckets comm.bucket_mib: auto against fixed sizes, on all GPUs of this host
  compare.py scaling 1, 2, 4 and 8 GPUs of one host over NCCL beside PyTorch under torchrun

A ratio above 1 means that Longship is faster. LONGSHIP_BINARY names the program.
"""

import argparse
import csv
import glob
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
HERE = pathlib.Path(__file__).resolve().parent
LONGSHIP = os.environ.get("LONGSHIP_BINARY", str(ROOT / "build/release/longship"))


def last_object(command, env=None):
    command = [str(word) for word in command]
    # Files, not pipes: ranks that outlive a killed launcher would hold a pipe open.
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        try:
            code = subprocess.call(command, stdout=printed, stderr=errors, env=env, timeout=120)
        except subprocess.TimeoutExpired:
            code = "no result after 120 s"
        printed.seek(0)
        errors.seek(0)
        if code:
            sys.exit(f"{' '.join(command)} ended with {code}:\n{errors.read()}")
        return json.loads(printed.read().strip().splitlines()[-1])


def longship_train(preset, accumulation, precision, *more):
    batch = {"seed-lstm": 256, "patch-transformer": 32}[preset]
    keys = {
        "train.batch_size": batch * accumulation,
        "train.micro_batch_size": batch,
        "precision.mode": precision,
        "comm.backend": "nccl",
    }
    command = [LONGSHIP, "bench", "train", "--preset", preset, "--json", *more]
    for key, value in keys.items():
        command += ["--set", f"{key}={value}"]
    return last_object(command)


def kernels_key(kernels):
    return ("--set", f"model.kernels={kernels}") if kernels else ()


def peer_train(recipe, preset, accumulation, precision):
    return last_object(
        [
            *(sys.executable, HERE / "pytorch_train.py", recipe, "--preset", preset),
            *("--accumulation", accumulation, "--precision", precision),
        ]
    )


def in_turn(rounds, *measures):
    """Medians of step_ms; every measure runs once a round."""
    times = [[] for _ in measures]
    for _ in range(rounds):
        for taken, measure in zip(times, measures, strict=True):
            taken.append(measure()["step_ms"])
    return [statistics.median(taken) for taken in times]


def train(arguments):
    cases = [
        ("seed-lstm", 1, "fp16", ("cudnn", "auto"), ("graph", "ddp")),
        ("seed-lstm", 4, "fp16", ("cudnn", "auto"), ("graph", "ddp")),
        ("patch-transformer", 1, "bf16", (None,), ("graph", "ddp", "compile", "reduce-overhead")),
    ]
    print(f"{'preset':18} {'acc.':>4} {'prec.':>5} {'kernels':>7} {'longship ms':>11}  peers: ms (ratio)")
    for preset, accumulation, precision, kernels, recipes in cases:
        case = (preset, accumulation, precision)
        times = in_turn(
            arguments.rounds,
            *(lambda k=k, case=case: longship_train(*case, *kernels_key(k)) for k in kernels),
            *(lambda r=r, case=case: peer_train(r, *case) for r in recipes),
        )
        for kernel, ours in zip(kernels, times, strict=False):
            peers = ", ".join(
                f"{recipe} {ms:.3f} ({ms / ours:.2f})"
                for recipe, ms in zip(recipes, times[len(kernels) :], strict=True)
            )
            if kernel == "auto":
                peers += f", with cudnn {times[0]:.3f} ({times[0] / ours:.2f})"
            print(f"{preset:18} {accumulation:4} {precision:>5} {kernel or '-':>7} {ours:11.3f}  {peers}",
                  flush=True)
    for kernel, residence in itertools.product(("cudnn", "auto"), ("device", "host")):
        (ours,) = in_turn(
            arguments.rounds,
            lambda k=kernel, r=residence: longship_train(
                "seed-lstm", 1, "fp16", *kernels_key(k), "--set", f"data.residence={r}"
            ),
        )
        print(f"seed-lstm, fp16, model.kernels={kernel}, data.residence={residence}: {ours:.3f} ms",
              flush=True)


def infer(arguments):
    ours, theirs = {}, {}
    for _ in range(arguments.rounds):
        for result in last_object([LONGSHIP, "bench", "infer", "--json"])["results"]:
            ours.setdefault((result["precision"], result["batch"]), []).append(result["ms"])
        peer = last_object([sys.executable, HERE / "pytorch_infer.py"])
        for result in peer["results"]:
            theirs.setdefault((result["precision"], result["batch"]), []).append(result["ms"])
    print(f"{'prec.':>5} {'batch':>5} {'longship/s':>11} {'PyTorch/s':>11} {'ratio':>6}")
    for (precision, batch), times in ours.items():
        peer = theirs.get((precision, batch))
        mine = statistics.median(times)
        text = f"{precision:>5} {batch:5} {1e3 * batch / mine:11.0f}"
        if peer:
            other = statistics.median(peer)
            text += f" {1e3 * batch / other:11.0f} {other / mine:6.2f}"
        print(text)


def loader(arguments):
    ours = {}
    for result in last_object([LONGSHIP, "bench", "loader", "--json"])["results"]:
        ours[result["gathered_by"]] = result["windows_per_s"]
    peer = last_object([sys.executable, HERE / "pytorch_loader.py"])["windows_per_s"]
    print(f"h5py + DataLoader {peer:12.0f} windows/s")
    for way, rate in ours.items():
        print(f"longship, {way:7} {rate:12.0f} windows/s, ratio {rate / peer:.1f}")


def cpu(arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LONGSHIP_DEVICE": "cpu"}

    def ours():
        keys = ["precision.mode=fp32", "comm.wire=fp32", "train.batch_size=64"]
        keys += ["train.micro_batch_size=32"]
        command = [LONGSHIP, "launch", "-n", "2", "--", "bench", "train", "--json"]
        command += ["--steps", "75", "--warmup", "25"]
        for key in keys:
            command += ["--set", key]
        return last_object(command, env=environment)

    def theirs():
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        command += [HERE / "pytorch_train.py", "gloo", "--precision", "fp32", "--wire", "fp32"]
        command += ["--batch", "32", "--warmup", "5", "--blocks", "3", "--block-steps", "15"]
        return last_object(command, env=environment)

    pairs = [(ours()["step_ms"], theirs()["step_ms"]) for _ in range(arguments.rounds)]
    mine, other = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratios = sorted(gloo / longship for longship, gloo in pairs)
    print(f"2 ranks on CPUs, seed LSTM, batch 2 x 32: longship {mine:.1f} ms, gloo {other:.1f} ms,")
    print(f"ratio {statistics.median(ratios):.3f} (median of {len(ratios)} pairs, "
          f"{ratios[0]:.3f} to {ratios[-1]:.3f})")


BATCHES = {"seed-lstm": 256, "patch-transformer": 32}  # of a rank


def longship_on(ranks, preset, precision, batch, *more):
    keys = {
        "train.batch_size": batch * ranks,
        "train.micro_batch_size": batch,
        "precision.mode": precision,
        "comm.backend": "nccl",
        "comm.timeout_s": 60,
    }
    command = [LONGSHIP, "launch", "-n", ranks, "--", "bench", "train", "--preset", preset, "--json"]
    command += ["--steps", "150", "--warmup", "50", *more]
    for key, value in keys.items():
        command += ["--set", f"{key}={value}"]
    return last_object(command)


def peer_on(ranks, recipe, preset, precision, batch):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks]
    command += [HERE / "pytorch_train.py", recipe, "--preset", preset, "--precision", precision]
    command += ["--batch", batch, "--blocks", "5", "--block-steps", "20"]
    return last_object(command)


def scaling(arguments):
    """Weak scaling: every rank has its own micro-batch."""
    gpus = int(last_object([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]))
    counts = [count for count in (1, 2, 4, 8) if count <= gpus]
    print(f"{'preset':18} {'batch':>5} {'kernels':>7} {'GPUs':>4} {'ms':>7} {'samples/s':>10} {'eff.':>5} "
          f"{'exposed ms':>10} {'alone ms':>8} {'hidden':>6}  DDP eager ms (ratio), graph ms (ratio)")
    cases = [("seed-lstm", "fp16", 256, "cudnn", True), ("seed-lstm", "fp16", 256, "auto", False),
             ("seed-lstm", "fp16", 32, "auto", False), ("patch-transformer", "bf16", 32, None, True)]
    for preset, precision, batch, kernels, with_peers in cases:
        alone = None
        for ranks in counts:
            ours = last = None
            for _ in range(arguments.rounds):
                last = longship_on(ranks, preset, precision, batch, *kernels_key(kernels))
                ours = min(ours or last["step_ms"], last["step_ms"])
            alone = alone or ours
            text = f"{preset:18} {batch:5} {kernels or '-':>7} {ranks:4} {ours:7.3f} "
            text += f"{1e3 * batch * ranks / ours:10.0f} "
            text += f"{alone / ours:5.3f} {last['exposed_comm_ms']:10.3f}"
            text += f" {last.get('all_reduce_ms', 0):8.3f} {100 * last.get('hidden_share', 0):4.0f} %"
            if with_peers:
                for recipe in ("ddp", "graph"):
                    ms = peer_on(ranks, recipe, preset, precision, batch)["step_ms"]
                    text += f"  {ms:.3f} ({ms / ours:.2f})"
            print(text, flush=True)


def buckets(arguments):
    """comm.bucket_mib: auto against fixed sizes, on all GPUs."""
    gpus = int(last_object([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]))
    for preset, precision in (("seed-lstm", "fp16"), ("patch-transformer", "bf16")):
        times = {}
        for _ in range(arguments.rounds):
            for size in ("auto", 1, 2, 4, 8, 16, 32):
                key = f"comm.bucket_mib={size}"
                ms = longship_on(gpus, preset, precision, BATCHES[preset], "--set", key)["step_ms"]
                times[size] = min(times.get(size, ms), ms)
        best = min(ms for size, ms in times.items() if size != "auto")
        text = ", ".join(f"{size}: {ms:.3f}" for size, ms in times.items())
        print(f"{preset} on {gpus} GPUs, ms by bucket_mib: {text}; auto / best "
              f"{times['auto'] / best:.3f}", flush=True)


def find_ncu():
    places = [shutil.which("ncu"), *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"))]
    places.append(os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/ncu"))
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def counters(arguments):
    """Share of kernel time in which Tensor Cores worked at all, and how busy they were."""
    ncu = find_ncu()
    if ncu is None:
        print("counters not read: there is no ncu here; longship bench train --profile tells the "
              "share by the names of kernels")
        return
    active = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
    for preset, precision in (("seed-lstm", "fp16"), ("patch-transformer", "bf16"),
                              ("patch-transformer", "fp8")):
        command = [ncu, "--clock-control", "none", "--csv", "--print-units", "base"]
        command += ["--metrics", f"gpu__time_duration.sum,{active}"]
        # Some steps after the warm-up, eagerly, so that every kernel is a launch of its own.
        command += ["--launch-skip", "1500", "--launch-count", "300", LONGSHIP, "bench", "train"]
        command += ["--preset", preset, "--steps", "75", "--warmup", "25"]
        for key in (f"precision.mode={precision}", "train.graph=off", "comm.backend=auto"):
            command += ["--set", key]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300,
                              check=False)
        rows = list(csv.DictReader(
            line for line in done.stdout.splitlines() if line.startswith('"')))
        kernels = {}
        for row in rows:
            value = float(row["Metric Value"].replace(",", ""))
            kernels.setdefault(row["ID"], {})[row["Metric Name"]] = value
        whole = sum(kernel["gpu__time_duration.sum"] for kernel in kernels.values())
        if not whole:
            print(f"counters not read: {(done.stdout + done.stderr).strip()[-400:]}")
            return
        used = sum(k["gpu__time_duration.sum"] for k in kernels.values() if k[active] > 0)
        busy = sum(k["gpu__time_duration.sum"] * k[active] for k in kernels.values()) / whole
        print(f"{preset}, {precision}: {100 * used / whole:.0f} % of the time of {len(kernels)} kernels "
              f"in kernels that used Tensor Cores, which were busy {busy:.1f} % of all cycles (by "
              f"hardware counters)", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = {"train": train, "infer": infer, "loader": loader, "cpu": cpu, "scaling": scaling, "buckets": buckets,
             "counters": counters}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    kinds[arguments.kind](arguments)


if __name__ == "__main__":
    main()
