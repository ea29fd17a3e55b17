"""1, 2, 3, 4 and 7 ranks train the same model as one PyTorch process does."""

import json
import sys
import unittest

import numpy as np
import torch

import harness
import pytorch_peer

sys.path.append(str(harness.SOURCE / "tests/data"))
from sample_order_reference import window_at  # noqa: E402

RANKS = (1, 2, 3, 4, 7)  # G = 8: with 3 and 7 ranks some take one micro-batch more than others
BATCH, MICRO_BATCH = 64, 8
SEED = 7

ADAMW = {
    "train": {"steps": 50, "clip_norm": 0.1},
    "schedule": {"name": "cosine", "warmup_steps": 10},
}
# Three whole epochs of 1070 windows: 51 steps, the last with 10 samples of 64.
SGD = {
    "train": {"epochs": 3, "clip_norm": 0.1},
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "schedule": {"name": "cosine", "warmup_steps": 10},
}


class Parity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workspace = harness.workspace(series=2, rows=800, columns=4)
        cls.folder = cls.workspace.__enter__()
        cls.addClassCleanup(cls.workspace.__exit__, None, None, None)
        config = harness.small_config(cls.folder)
        data = config["data"]
        cls.windows = harness.Windows(
            data["path"], data["inputs"], data["targets"], data["window"], data["horizon"]
        )
        torch.set_num_threads(1)

    def train(self, name, ranks, changes):
        config = harness.small_config(self.folder, **changes)
        if "epochs" in config["train"]:
            del config["train"]["steps"]
        config["run"]["name"] = f"{name}-{ranks}"
        config["log"]["sample_order"] = True
        config["checkpoint"]["at_start"] = True
        path = harness.write_config(self.folder / f"{name}-{ranks}.yaml", config)
        harness.train(path, ranks=ranks)
        return config, self.folder / "runs" / config["run"]["name"]

    def assert_close(self, actual, expected, relative, what):
        self.assertEqual(len(actual), len(expected), what)
        error = np.abs(np.array(actual) / np.array(expected) - 1)
        self.assertLess(error.max(), relative, f"{what}: worst at step {error.argmax() + 1}")

    def check_against_pytorch(self, name, changes, parameter_tolerance):
        micro_batches = None
        for ranks in RANKS:
            config, run = self.train(name, ranks, changes)
            what = f"{name} on {ranks} ranks"
            taken = harness.micro_batches(run)
            if micro_batches is None:
                micro_batches = taken
                self.check_order(run, taken)
                steps = max(step for step, _ in taken)
                batches = [
                    sum((taken[step, m] for m in range(BATCH // MICRO_BATCH)), [])
                    for step in range(1, steps + 1)
                ]
                losses, norms, parameters = pytorch_peer.train(
                    config, self.windows, batches, harness.weights(harness.checkpoint(run, 0))
                )
                # Clipping would prove nothing if it never struck.
                clip_norm = config["train"]["clip_norm"]
                self.assertGreater(sum(norm > clip_norm for norm in norms), len(norms) // 2)
            self.assertEqual(taken, micro_batches, what)
            records = harness.records(run)
            self.assertEqual([r["step"] for r in records], list(range(1, len(losses) + 1)), what)
            self.assert_close([r["loss"] for r in records], losses, 1e-5, what + ": loss")
            self.assert_close([r["grad_norm"] for r in records], norms, 1e-4, what + ": norm")
            worst = harness.largest_difference(
                harness.weights(harness.checkpoint(run)), parameters
            )
            print(f"{what}: parameters differ by at most {worst:.2g}", flush=True)
            self.assertLess(worst, parameter_tolerance, what)

    def check_order(self, run, taken):
        """Every epoch holds each window once, also where a step straddles two, and all is as the
        description of the order says."""
        windows = len(self.windows.starts["train"])
        stream = sum((taken[key] for key in sorted(taken)), [])
        self.assertNotEqual(windows % BATCH, 0)
        for begin in range(0, len(stream) - windows + 1, windows):
            epoch = stream[begin : begin + windows]
            self.assertEqual(sorted(epoch), list(range(windows)), f"epoch from {begin}")
        facts = json.loads((run / "run.json").read_text())["data"]
        self.assertEqual(facts["train_windows"], windows)
        key = SEED, int(facts["fingerprint"], 16), windows
        self.assertEqual(stream, [window_at(*key, position) for position in range(len(stream))])

    def test_adamw(self):
        self.check_against_pytorch("adamw", ADAMW, 2e-5)

    def test_sgd_with_a_padded_last_step(self):
        self.check_against_pytorch("sgd", SGD, 1e-6)
        taken = harness.micro_batches(self.folder / "runs" / "sgd-7")
        samples = sum(len(windows) for windows in taken.values())
        self.assertEqual(samples, 3 * len(self.windows.starts["train"]))
        self.assertEqual([len(taken[51, m]) for m in range(8)], [8, 2, 0, 0, 0, 0, 0, 0])

    def test_dropout_is_the_same_on_all_ranks(self):
        changes = harness.deep_update(ADAMW, {"model": {"dropout": 0.2}})
        results = []
        for ranks in (1, 3, 7):
            _, run = self.train("dropout", ranks, changes)
            losses = [r["loss"] for r in harness.records(run)]
            results.append((ranks, losses, harness.weights(harness.checkpoint(run))))
        _, losses, parameters = results[0]
        for ranks, other_losses, other_parameters in results[1:]:
            what = f"dropout on {ranks} ranks"
            self.assert_close(other_losses, losses, 1e-5, what)
            self.assertLess(harness.largest_difference(other_parameters, parameters), 2e-5, what)
        # A dropout that never dropped would agree as well.
        _, without = self.train("nodropout", 1, ADAMW)
        plain = [r["loss"] for r in harness.records(without)]
        self.assertGreater(np.abs(np.array(plain) / np.array(losses) - 1).max(), 1e-2)

    def test_every_wire_with_and_without_a_sharded_optimizer(self):
        bounds = {"fp32": 1e-5, "fp16": 1e-2, "bf16": 3e-2}
        _, exact = self.train("alone", 1, ADAMW)
        losses = [r["loss"] for r in harness.records(exact)]
        for wire, bound in bounds.items():
            for shard in (False, True):
                changes = {"comm": {"wire": wire}, "optimizer": {"shard": shard}}
                changes = harness.deep_update(ADAMW, changes)
                for ranks in (2, 4):
                    what = f"{wire}, shard {shard}"
                    _, run = self.train(f"{wire}-{shard}", ranks, changes)
                    found = [r["loss"] for r in harness.records(run)]
                    self.assert_close(found, losses, bound, f"{what} on {ranks} ranks")
                    difference = harness.largest_difference(
                        harness.weights(harness.checkpoint(run)),
                        harness.weights(harness.checkpoint(exact)),
                    )
                    print(f"{what}, {ranks} ranks: parameters differ by {difference:.2g}", flush=True)
                    if wire == "fp32":
                        self.assertLess(difference, 2e-5, what)

    def test_half_precision_on_the_wire(self):
        _, exact = self.train("wire32", 1, ADAMW)
        losses = [r["loss"] for r in harness.records(exact)]
        changes = harness.deep_update(ADAMW, {"comm": {"wire": "fp16"}})
        for ranks in (3, 7):
            _, run = self.train("wire16", ranks, changes)
            self.assert_close(
                [r["loss"] for r in harness.records(run)], losses, 1e-2, f"fp16 on {ranks} ranks"
            )
            self.assertGreater(
                harness.largest_difference(
                    harness.weights(harness.checkpoint(run)),
                    harness.weights(harness.checkpoint(exact)),
                ),
                0,
                "FP16 on the wire must round something",
            )


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
