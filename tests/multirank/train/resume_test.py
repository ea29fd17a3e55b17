"""Runs that are killed at any moment, or change their number of ranks, end where they would have."""

import os
import random
import signal
import time
import unittest

import numpy as np

import harness

STEPS = 400
CHANGES = {
    # Two micro-batches a rank, so that the kill also falls between micro-steps.
    "train": {"steps": STEPS, "batch_size": 64, "micro_batch_size": 16, "clip_norm": 0.5},
    "schedule": {"name": "cosine", "warmup_steps": 10},
    "model": {"dropout": 0.1},
    # So often that some kills hit the writing of a checkpoint.
    "checkpoint": {"every_steps": 7, "keep": 2},
    "eval": {"every_steps": 50},
}


class Resume(unittest.TestCase):
    def setUp(self):
        self.workspace = harness.workspace(series=2, rows=800, columns=4)
        self.folder = self.workspace.__enter__()
        self.addCleanup(self.workspace.__exit__, None, None, None)
        seed = int(os.environ.get("LONGSHIP_TEST_SEED", random.randrange(1 << 30)))
        print(f"LONGSHIP_TEST_SEED={seed}", flush=True)
        self.random = random.Random(seed)

    def configure(self, name, *changes):
        config = harness.small_config(self.folder)
        for change in changes:
            config = harness.deep_update(config, change)
        config["run"]["name"] = name
        path = harness.write_config(self.folder / f"{name}.yaml", config)
        return path, self.folder / "runs" / name

    def check_records(self, run, steps):
        """Every step once, in order: nothing lost, nothing twice."""
        self.check_records_from(run, 1, steps)

    def check_kills(self, wire, kills, shard=False):
        changes = {"comm": {"wire": wire}, "optimizer": {"shard": shard}}
        path, whole = self.configure("whole", CHANGES, changes)
        harness.train(path, ranks=2)
        path, run = self.configure("killed", CHANGES, changes)
        # The first moment may be before the first checkpoint or even the first step; the last one
        # leaves some steps to do.
        moments = sorted(self.random.randrange(STEPS - 100) for _ in range(kills))
        for moment in moments:
            job = harness.longship("train", path, "--resume", "auto", ranks=2)
            job.wait_for_step(run / "metrics.jsonl", moment)
            time.sleep(self.random.uniform(0, 0.03))
            self.assertIsNone(job.process.poll(), "ended before it was killed")
            job.kill()
        outcome = harness.train(path, "--resume", "auto", ranks=2)
        self.assertIn("going on from", outcome.stderr)
        self.assertEqual(
            (harness.checkpoint(run) / "model.safetensors").read_bytes(),
            (harness.checkpoint(whole) / "model.safetensors").read_bytes(),
            f"killed at {moments}",
        )
        expected = harness.optimizer_state(harness.checkpoint(whole))
        actual = harness.optimizer_state(harness.checkpoint(run))
        self.assertEqual(harness.largest_difference(actual, expected), 0)
        self.check_records(run, STEPS)
        for split in ("train", "validation"):
            losses = [
                [(r["step"], r["loss"]) for r in harness.records(r_, split)] for r_ in (run, whole)
            ]
            self.assertEqual(*losses)
        left = [p.name for p in (run / "checkpoints").iterdir() if p.name.startswith(".")]
        self.assertEqual(left, [], "temporary folders of killed jobs")

    def test_killed_runs_end_with_the_same_bits(self):
        self.check_kills("fp32", kills=4)

    def test_killed_runs_end_with_the_same_bits_with_half_precision_on_the_wire(self):
        self.check_kills("fp16", kills=3)

    def test_killed_runs_with_a_sharded_optimizer_end_with_the_same_bits(self):
        self.check_kills("fp16", kills=2, shard=True)

    def test_a_sharded_optimizer_goes_on_unsharded_and_on_other_numbers_of_ranks(self):
        changes = {"train": {"steps": 120, "batch_size": 96, "micro_batch_size": 8}}
        path, whole = self.configure("whole", changes)
        harness.train(path, ranks=1)
        path, run = self.configure("shared", changes)
        for ranks, shard, step in ((3, "true", 40), (2, "false", 80), (4, "true", 120)):
            words = ("--set", f"train.steps={step}", "--set", f"optimizer.shard={shard}")
            harness.train(path, *words, ranks=ranks)
        losses = [np.array([r["loss"] for r in harness.records(r_)]) for r_ in (run, whole)]
        self.assertLess(np.abs(losses[0] / losses[1] - 1).max(), 1e-4)

    def test_the_same_line_with_a_path_goes_on_where_it_was(self):
        changes = {"train": {"steps": 60}, "checkpoint": {"every_steps": 10}}
        path, first = self.configure("first", changes)
        harness.train(path, ranks=2)
        path, run = self.configure("second", changes)
        words = ("--resume", first / "checkpoints/step-000000020", "--set", "train.steps=100000")
        steps = []
        for _ in range(2):
            job = harness.longship("train", path, *words, ranks=2)
            job.wait_for_step(run / "metrics.jsonl", (steps or [20])[-1] + 50)
            os.kill(job.process.pid, signal.SIGUSR1)
            outcome = job.wait()
            self.assertEqual(outcome.code, harness.STOPPED, str(outcome))
            steps.append(harness.last_step(run / "metrics.jsonl"))
        self.assertIn("goes on from its own newest checkpoint", outcome.stderr)
        self.check_records_from(run, 21, steps[-1])

    def test_a_run_that_goes_back_keeps_one_line_of_records_and_checkpoints(self):
        path, run = self.configure(
            "back", {"train": {"steps": 60}, "checkpoint": {"every_steps": 10}}
        )
        harness.train(path, ranks=2)
        words = ("--resume", run / "checkpoints/step-000000020", "--set", "train.steps=100000")
        words += ("--set", "checkpoint.every_steps=100000", "--set", "optimizer.lr=0.5")
        job = harness.longship("train", path, *words, ranks=2)
        deadline = time.monotonic() + 30
        while harness.last_step(run / "metrics.jsonl") == 60:  # of the line that it leaves
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        job.kill()
        # Killed before its first checkpoint: what the run had left is not come upon again.
        outcome = harness.train(path, ranks=2)
        self.assertIn("step-000000020 (step 20 of 60)", outcome.stderr)
        self.check_records(run, 60)

    def check_records_from(self, run, first, last):
        self.assertEqual([r["step"] for r in harness.records(run)], list(range(first, last + 1)))

    def test_other_numbers_of_ranks_go_on_with_the_same_batches(self):
        changes = {
            "train": {"steps": 300, "batch_size": 96, "micro_batch_size": 8, "clip_norm": 0.5},
            "log": {"sample_order": True},
        }
        path, whole = self.configure("whole", changes)
        harness.train(path, ranks=2)
        path, run = self.configure("changed", changes)
        stops = []
        for ranks, step in ((2, 60), (4, 150)):
            job = harness.longship("train", path, ranks=ranks)
            job.wait_for_step(run / "metrics.jsonl", step)
            os.kill(job.process.pid, signal.SIGUSR1)
            outcome = job.wait()
            self.assertEqual(outcome.code, harness.STOPPED, str(outcome))
            self.assertEqual(outcome.errors, [], str(outcome))
            stops.append(harness.last_step(run / "metrics.jsonl"))
        harness.train(path, ranks=3)
        self.assertTrue(60 <= stops[0] < stops[1] < 300, stops)
        self.check_records(run, 300)
        self.assertEqual(harness.micro_batches(run), harness.micro_batches(whole))
        self.assertEqual(len(harness.micro_batches(run)), 300 * 12)
        losses = [np.array([r["loss"] for r in harness.records(r_)]) for r_ in (run, whole)]
        self.assertLess(np.abs(losses[0] / losses[1] - 1).max(), 1e-4)


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
