"""`longship launch` under signals: a checkpoint and code 75, then a start that goes on to the end."""

import json
import os
import signal
import time
import unittest

import harness

STEPS = 100_000  # no signal comes too late


class Signals(unittest.TestCase):
    def setUp(self):
        workspace = harness.workspace(series=2, rows=800, columns=4)
        self.folder = workspace.__enter__()
        self.addCleanup(workspace.__exit__, None, None, None)
        self.config = harness.small_config(
            self.folder, train={"steps": STEPS, "micro_batch_size": 32}
        )
        self.path = harness.write_config(self.folder / "run.yaml", self.config)
        self.run_directory = self.folder / "runs" / "run"
        self.metrics = self.run_directory / "metrics.jsonl"

    def launch(self, *words, environment=None):
        return harness.longship(
            "launch", "-n", 2, "--", "train", self.path, *words, environment=environment
        )

    def expect_stop(self, job):
        outcome = job.wait(60)
        self.assertEqual(outcome.code, harness.STOPPED, str(outcome))
        self.assertEqual(outcome.errors, [], str(outcome))
        folder = harness.checkpoint(self.run_directory).resolve()
        manifest = json.loads((folder / "manifest.json").read_text())
        step = manifest["step"]
        before, stopped, after = outcome.stderr.partition(f"stopped at step {step} of {STEPS}")
        self.assertTrue(stopped, str(outcome))
        self.assertIn(f"step {step} of {STEPS}, loss", before)
        self.assertNotIn("loss", after)
        # All that was trained is in the checkpoint.
        self.assertEqual(harness.last_step(self.metrics), step)
        self.assertLess(step, STEPS)
        return step

    def expect_finish(self, steps, *words):
        """Goes on to the given step."""
        words = ("--set", f"train.steps={steps}", *words)
        outcome = self.launch(*words).wait(90)
        self.assertEqual(outcome.code, harness.DONE, str(outcome))
        return outcome

    def test_signals_to_launch_stop_with_a_checkpoint(self):
        before = 0
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                job = self.launch()
                job.wait_for_step(self.metrics, before + 20)
                os.kill(job.process.pid, number)
                step = self.expect_stop(job)
                self.assertGreaterEqual(step, before + 20)
                before = step
        self.expect_finish(before + 20)
        self.assertEqual(
            [r["step"] for r in harness.records(self.run_directory)], list(range(1, before + 21))
        )

    def test_signal_to_one_rank_stops_all(self):
        job = self.launch()
        job.wait_for_step(self.metrics, 20)
        os.kill(job.ranks()[1], signal.SIGUSR1)
        step = self.expect_stop(job)
        self.expect_finish(step + 20)
        self.assertEqual(harness.last_step(self.metrics), step + 20)

    def test_second_interrupt_ends_at_once(self):
        # A frozen rank never comes to the agreed stop.
        job = self.launch(environment={"LONGSHIP_FAULT": "freeze:rank=1,step=30"})
        # Records come some steps late, and the last ones before the freeze never.
        job.wait_for_step(self.metrics, 26)
        time.sleep(2)
        os.kill(job.process.pid, signal.SIGINT)
        time.sleep(2)
        self.assertIsNone(job.process.poll(), "one interrupt must not end a run at once")
        os.kill(job.process.pid, signal.SIGINT)
        begin = time.monotonic()
        outcome = job.wait(20)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(outcome.code, 128 + signal.SIGINT, str(outcome))
        self.assertEqual(list((self.run_directory / "checkpoints").iterdir()), [])

    def test_finished_run_and_changed_keys(self):
        short = ("--set", "train.steps=40")
        self.expect_finish(40)
        outcome = self.expect_finish(40)
        self.assertIn("the run is finished (step 40 of 40)", outcome.stderr)

        outcome = self.launch(*short, "--resume", "none").wait()
        self.assertEqual(outcome.code, harness.INPUT, str(outcome))
        self.assertEqual(len(outcome.errors), 1, str(outcome))
        self.assertIn(str(self.run_directory), outcome.errors[0])

        outcome = self.launch(*short, "--set", "data.window=20").wait()
        self.assertEqual(outcome.code, harness.INPUT, str(outcome))
        self.assertEqual(len(outcome.errors), 1, str(outcome))
        self.assertIn("data.window (24 there, 20 now)", outcome.errors[0])
        self.assertEqual(harness.last_step(self.metrics), 40)

        # 4 epochs of 1070 windows are 67 batches of 64.
        outcome = self.expect_finish(0, "--set", "train.epochs=4")
        self.assertIn("(step 40 of 67)", outcome.stderr)
        self.assertEqual(harness.last_step(self.metrics), 67)


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
