"""What the acceptance scripts share: series files, run files, and processes that never outlive a test.

LONGSHIP_BINARY names the program (default: build/release/longship of this source tree).
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import h5py
import numpy as np
import safetensors.torch
import torch

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("LONGSHIP_BINARY", SOURCE / "build/release/longship"))
HOUR_NS = 3_600_000_000_000

# Codes of the program that the scripts expect.
DONE, USAGE, INPUT, CHECKPOINT, SETUP, INTERNAL, STOPPED, PEER = 0, 2, 3, 4, 5, 70, 75, 86


# ---------------------------------------------------------------- data


def synthetic_values(series, rows, columns, seed):
    """(series, rows, columns) float32: daily waves, a slow drift and noise with memory."""
    random = np.random.default_rng(seed)
    hours = np.arange(rows)
    values = np.empty((series, rows, columns))
    for s in range(series):
        for c in range(columns):
            level, swing, phase = random.uniform([-10, 1, 0], [30, 5, 24])
            noise = np.zeros(rows)
            for i, shock in enumerate(random.normal(0, 0.3, rows)):
                noise[i] = 0.8 * noise[i - 1] + shock if i else shock
            wave = swing * np.sin(2 * np.pi * (hours + phase) / 24)
            values[s, :, c] = level + wave + 0.001 * hours + noise
    return values.astype(np.float32)


def write_series(path, series=2, rows=800, columns=4, seed=1):
    """A series file with the columns x0, x1, ... and hourly rows."""
    values = synthetic_values(series, rows, columns, seed)
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "longship-series"
        file.attrs["version"] = np.int64(1)
        file.attrs.create(
            "columns", [f"x{c}" for c in range(columns)], dtype=h5py.string_dtype()
        )
        file["values"] = values.reshape(series * rows, columns)
        file["offsets"] = np.arange(series + 1, dtype=np.int64) * rows
        file["time"] = np.tile(np.arange(rows, dtype=np.int64) * HOUR_NS, series)
        file.create_dataset(
            "series", data=[f"series_{s}" for s in range(series)], dtype=h5py.string_dtype()
        )
    return path


class Windows:
    """The windows of a series file, cut and normalised without any code of the program."""

    def __init__(self, path, inputs, targets, window, horizon, split=(0.7, 0.1, 0.2)):
        with h5py.File(path) as file:
            names = [n.decode() if isinstance(n, bytes) else n for n in file.attrs["columns"]]
            values = file["values"][:].astype(np.float64)
            offsets = file["offsets"][:]
        self.window, self.horizon = window, horizon
        self.inputs = [names.index(n) for n in inputs]
        self.targets = [names.index(n) for n in targets]
        self.starts = {"train": [], "validation": [], "test": []}
        train_rows = []
        for begin, end in zip(offsets[:-1], offsets[1:]):
            rows = int(end - begin)
            train_end = int(split[0] * rows)
            test_begin = rows - int(split[2] * rows)
            train_rows.append(values[begin : begin + train_end])
            bounds = {
                "train": (0, train_end),
                "validation": (max(train_end - window, 0), test_begin),
                "test": (max(test_begin - window, 0), rows),
            }
            for part, (first, last) in bounds.items():
                self.starts[part] += range(begin + first, begin + last - window - horizon + 1)
        fitted = np.concatenate(train_rows)
        self.mean, self.deviation = fitted.mean(0), fitted.std(0)
        self.values = ((values - self.mean) / self.deviation).astype(np.float32)

    def gather(self, part, numbers):
        """(batch, window, inputs) and (batch, horizon, targets), normalised float32."""
        starts = np.asarray(self.starts[part])[numbers]
        past = self.values[starts[:, None] + np.arange(self.window)]
        ahead = self.values[starts[:, None] + self.window + np.arange(self.horizon)]
        return past[:, :, self.inputs], ahead[:, :, self.targets]

    def history(self, part, numbers):
        """(batch, window, targets): the targets over the look-back rows."""
        starts = np.asarray(self.starts[part])[numbers]
        past = self.values[starts[:, None] + np.arange(self.window)]
        return past[:, :, self.targets]


# ---------------------------------------------------------------- run files


def deep_update(base, changes):
    merged = {key: dict(value) for key, value in base.items()}
    for section, values in changes.items():
        merged.setdefault(section, {}).update(values)
    return merged


def small_config(folder, **changes):
    """A run that takes seconds, as a dictionary of sections; `changes` are updates of sections."""
    base = {
        "run": {"name": "run", "directory": str(folder / "runs"), "seed": 7},
        "data": {
            "path": str(folder / "series.h5"),
            "inputs": ["x0", "x1", "x2", "x3"],
            "targets": ["x0"],
            "window": 24,
            "horizon": 2,
        },
        "model": {"name": "lstm", "hidden_size": 16, "num_layers": 2},
        "train": {"steps": 50, "batch_size": 64, "micro_batch_size": 8},
        "optimizer": {"name": "adamw", "lr": 3.0e-3, "weight_decay": 0.01},
        "precision": {"mode": "fp32"},
        "eval": {"every_epochs": 0},
        "comm": {"wire": "fp32", "timeout_s": 60},
        "checkpoint": {"every_minutes": 0, "keep": 100},
        "log": {"every_steps": 1},
    }
    return deep_update(base, changes)


def write_config(path, config):
    # JSON is YAML; one key a line, so that messages can name the line.
    path.write_text(json.dumps(config, indent=1))
    return path


# ---------------------------------------------------------------- processes


class Outcome:
    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    @property
    def errors(self):
        return [line for line in self.stderr.splitlines() if "longship: error:" in line]

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


class Job:
    """One command and all that it starts. Processes are found by a mark in their environment,
    because mpirun gives every rank a process group of its own."""

    def __init__(self, command, environment=None):
        self.mark = f"LONGSHIP_TEST_JOB={uuid.uuid4().hex}"
        name, value = self.mark.split("=")
        # Not a rank of another job, but with the machine's own settings of Open MPI.
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("OMPI_", "PMIX_")) or k.startswith(("OMPI_MCA_", "OMPI_ALLOW_"))
        }
        # Set for the tests' own fault injection only.
        env.pop("LONGSHIP_FAULT", None)
        env.update({name: value, "OMP_NUM_THREADS": "1"}, **(environment or {}))
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [str(word) for word in command],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.err,
            start_new_session=True,
            # mpirun passes on what reaches it, which a blocked signal never does.
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []),
        )

    def members(self):
        """{pid: environment} of the job's living processes."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if self.mark.encode() in words and state not in "ZX":
                    pairs = (word.decode(errors="replace").partition("=") for word in words)
                    found[int(entry.name)] = {key: value for key, _, value in pairs}
        return found

    def ranks(self):
        """{rank: pid} of the program's processes."""
        found = {}
        for pid, environment in self.members().items():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/exe") == str(BINARY.resolve()):
                    found[int(environment.get("OMPI_COMM_WORLD_RANK", -1))] = pid
        return found

    def kill(self):
        """SIGKILL to all, until none is left; returns what they had written."""
        deadline = time.monotonic() + 20
        while members := self.members():
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            assert time.monotonic() < deadline, f"processes that cannot be killed: {members.keys()}"
            time.sleep(0.02)
        self.process.wait(timeout=10)
        return self.text()

    def text(self):
        """What the job wrote to standard output and standard error, once it has ended."""
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return texts

    def wait(self, timeout=120):
        """The outcome; fails when it takes longer or when processes are left over."""
        try:
            code = self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            written = "\n".join(self.kill())
            raise AssertionError(
                f"hung for {timeout} s: {self.process.args}\n{written}"
            ) from None
        deadline = time.monotonic() + 5
        while (stray := self.members()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if stray:
            written = "\n".join(self.kill())
            raise AssertionError(f"left processes behind: {self.process.args}\n{written}")
        return Outcome(code, *self.text())

    def wait_for_step(self, metrics, step, timeout=90):
        """Until metrics.jsonl holds a record of that step, or the job has ended."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None and last_step(metrics) < step:
            if time.monotonic() > deadline:
                written = "\n".join(self.kill())
                raise AssertionError(f"step {step} did not come\n{written}")
            time.sleep(0.01)


def mpirun(ranks, command):
    return [
        "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-q",
        "--mca", "mpi_yield_when_idle", "1", "-n", ranks, *command,
    ]  # fmt: skip


def longship(*words, ranks=None, environment=None):
    """Starts the program; with `ranks` under mpirun."""
    command = [BINARY, *words]
    return Job(command if ranks is None else mpirun(ranks, command), environment)


def train(config, *words, ranks=None, environment=None, timeout=120, expect=DONE):
    outcome = longship("train", config, *words, ranks=ranks, environment=environment).wait(timeout)
    assert outcome.code == expect, f"expected exit code {expect}\n{outcome}"
    return outcome


# ---------------------------------------------------------------- what a run leaves


def records(run, split="train"):
    """metrics.jsonl as a list of dictionaries, in file order."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [r for r in map(json.loads, lines) if r["split"] == split]


def last_step(metrics):
    try:
        # The last line may be half-written.
        whole = metrics.read_text().split("\n")[:-1]
        return json.loads(whole[-1])["step"] if whole else 0
    except FileNotFoundError:
        return 0


def micro_batches(run):
    """{(step, micro_batch): windows} from the order logs; a micro-batch that two ranks took, or one
    rank twice, is an error."""
    found = {}
    for path in sorted((run / "logs").glob("order-rank-*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            key = record["step"], record["micro_batch"]
            assert key not in found, f"micro-batch {key} was taken twice"
            found[key] = record["windows"]
    return found


def checkpoint(run, step=None):
    return run / "checkpoints" / ("latest" if step is None else f"step-{step:09d}")


def weights(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


def extra(folder):
    """Tensors of other parts of the training, by name."""
    return safetensors.torch.load_file(folder / "state.safetensors")


def optimizer_state(folder):
    """{"PARAMETER/STATE": flat tensor}, put together from the pieces that the ranks wrote."""
    pieces = json.loads((folder / "manifest.json").read_text())["optimizer"]["pieces"]
    files = {
        name: safetensors.torch.load_file(folder / name) for name in {p["file"] for p in pieces}
    }
    parts = {}
    for piece in sorted(pieces, key=lambda p: p["begin"]):
        name = f"{piece['parameter']}/{piece['state']}"
        parts.setdefault(name, []).append(files[piece["file"]][piece["key"]])
    return {name: torch.cat(tensors) for name, tensors in parts.items()}


def largest_difference(a, b):
    assert a.keys() == b.keys()
    return max((a[name] - b[name]).abs().max().item() for name in a)


@contextlib.contextmanager
def workspace(**series):
    """A fresh folder with series.h5 in it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="longship-test-"))
    try:
        write_series(folder / "series.h5", **series)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_binary():
    if not BINARY.exists():
        sys.exit(f"{BINARY} is not there: build it, or set LONGSHIP_BINARY")
