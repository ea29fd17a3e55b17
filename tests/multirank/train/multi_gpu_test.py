"""On a host with several GPUs: one rank a GPU over NCCL against one rank, eager and as a graph.

Not part of ctest: scripts/multi_gpu_check.sh runs it. Counts of ranks are 1, 2, 4, 8 up to the GPUs.
"""

import json
import os
import signal
import unittest

import numpy as np
import torch

import harness

COUNTS = [count for count in (2, 4, 8) if count <= torch.cuda.device_count()]
# A sum over ranks is rounded once more than that of one rank, in the wire's type.
BOUNDS = {"fp32": 1e-5, "fp16": 1e-3, "bf16": 1e-2}


@unittest.skipUnless(COUNTS, "there are not two GPUs")
class MultiGpu(unittest.TestCase):
    def setUp(self):
        workspace = harness.workspace(series=2, rows=800, columns=4)
        self.folder = workspace.__enter__()
        self.addCleanup(workspace.__exit__, None, None, None)

    def configure(self, name, *changes):
        keys = {
            "run": {"name": name},
            "train": {"clip_norm": 0.5, "batch_size": 64, "micro_batch_size": 8},
            "model": {"hidden_size": 32, "dropout": 0.1},
            "schedule": {"name": "cosine", "warmup_steps": 10},
            "comm": {"backend": "nccl"},
        }
        config = harness.small_config(self.folder, **keys)
        for change in changes:
            config = harness.deep_update(config, change)
        return harness.write_config(self.folder / f"{name}.yaml", config), self.folder / "runs" / name

    def train(self, name, ranks, *changes):
        path, run = self.configure(name, *changes)
        harness.train(path, ranks=ranks)
        facts = json.loads((run / "run.json").read_text())
        self.assertEqual(facts["resolved"]["backend"], "nccl")
        self.assertTrue(facts["devices"].startswith(f"{ranks} x "), facts["devices"])
        return run

    def losses(self, run):
        return np.array([r["loss"] for r in harness.records(run)])

    def test_any_number_of_ranks_trains_as_one_does(self):
        print(f"\n{'ranks':>5} {'wire':>5} {'graph':>5} {'shard':>5} {'micro':>5} {'losses differ':>13}")
        for micro in (8, 4):  # G = 8 and 16: one micro-step a rank on 8, and more
            size = {"train": {"micro_batch_size": micro}}
            alone = self.losses(self.train(f"alone-{micro}", 1, size, {"train": {"graph": "off"}}))
            for ranks in COUNTS:
                for wire, bound in BOUNDS.items():
                    for graph, shard in (("off", False), ("on", False), ("off", True), ("on", True)):
                        name = f"{ranks}-{wire}-{graph}-{shard}-{micro}"
                        changes = {"comm": {"wire": wire}, "train": {"graph": graph},
                                   "optimizer": {"shard": shard}}
                        worst = np.abs(self.losses(self.train(name, ranks, size, changes)) / alone - 1)
                        print(f"{ranks:5} {wire:>5} {graph:>5} {shard!s:>5} {micro:5} "
                              f"{worst.max():13.2g}", flush=True)
                        self.assertLess(worst.max(), bound)

    def test_two_runs_give_equal_bits(self):
        for graph, shard in (("off", False), ("on", False), ("on", True)):
            weights = []
            for number in (1, 2):
                run = self.train(f"bits-{graph}-{shard}-{number}", COUNTS[-1],
                                 {"comm": {"wire": "fp16"}}, {"train": {"graph": graph}},
                                 {"optimizer": {"shard": shard}})
                weights.append(harness.weights(harness.checkpoint(run)))
            self.assertEqual(harness.largest_difference(*weights), 0)

    def test_other_numbers_of_ranks_go_on(self):
        # Steps of many micro-steps without a graph: slow enough for a signal to come in between.
        changes = {"train": {"steps": 300, "micro_batch_size": 4, "graph": "off"},
                   "log": {"sample_order": True}}
        whole = self.train("whole", COUNTS[-1], changes)
        path, run = self.configure("changed", changes)
        for ranks, step in ((COUNTS[-1], 60), (COUNTS[-1] // 2, 150)):
            job = harness.longship("train", path, ranks=ranks)
            job.wait_for_step(run / "metrics.jsonl", step)
            os.kill(job.process.pid, signal.SIGUSR1)
            outcome = job.wait()
            self.assertEqual(outcome.code, harness.STOPPED, str(outcome))
        harness.train(path, ranks=COUNTS[-1])
        self.assertEqual(harness.micro_batches(run), harness.micro_batches(whole))
        worst = np.abs(self.losses(run) / self.losses(whole) - 1).max()
        print(f"\nresumed on other numbers of ranks: losses differ by {worst:.2g}", flush=True)
        self.assertLess(worst, 1e-4)

    def test_two_ranks_on_one_gpu_are_refused(self):
        path, _ = self.configure("shared")
        job = harness.longship("train", path, ranks=2, environment={"CUDA_VISIBLE_DEVICES": "0"})
        outcome = job.wait()
        self.assertEqual(outcome.code, 5, str(outcome))
        self.assertIn("GPU", outcome.stderr)

    def test_a_killed_rank_ends_the_job(self):
        path, run = self.configure("killed", {"train": {"steps": 100000}})
        job = harness.longship("train", path, ranks=2)
        job.wait_for_step(run / "metrics.jsonl", 50)
        os.kill(job.ranks()[1], signal.SIGKILL)
        outcome = job.wait(60)
        self.assertGreaterEqual(outcome.code, 86, str(outcome))

    def test_a_frozen_rank_ends_the_job(self):
        for graph in ("off", "on"):
            path, run = self.configure(f"frozen-{graph}", {"train": {"steps": 100000, "graph": graph},
                                                           "comm": {"timeout_s": 5}})
            job = harness.longship("train", path, ranks=2)
            job.wait_for_step(run / "metrics.jsonl", 50)
            os.kill(job.ranks()[1], signal.SIGSTOP)
            outcome = job.wait(60)
            self.assertEqual(outcome.code, harness.PEER, str(outcome))
            self.assertEqual(len(outcome.errors), 1, str(outcome))


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
