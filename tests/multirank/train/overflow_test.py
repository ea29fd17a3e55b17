"""An FP16 overflow on one rank: every rank skips that step, and training goes on."""

import math
import unittest

import harness

STEPS, OVERFLOW = 30, 7
INIT_SCALE = 1024.0  # so small that nothing overflows by itself


class Overflow(unittest.TestCase):
    def train(self, folder, ranks, fault):
        config = harness.small_config(
            folder,
            run={"name": f"ranks-{ranks}-{'fault' if fault else 'plain'}"},
            train={"steps": STEPS},
            precision={"mode": "fp16", "init_scale": INIT_SCALE},
            schedule={"name": "linear"},  # another learning rate at every applied step
        )
        path = harness.write_config(folder / f"{config['run']['name']}.yaml", config)
        environment = {"LONGSHIP_FAULT": fault} if fault else {}
        harness.train(path, ranks=ranks, environment=environment)
        run = folder / "runs" / config["run"]["name"]
        return harness.records(run), harness.checkpoint(run)

    def test_all_ranks_skip_the_step_of_one(self):
        with harness.workspace() as folder:
            records, final = self.train(folder, 3, f"overflow:rank=1,step={OVERFLOW}")
            alone, alone_final = self.train(folder, 1, f"overflow:rank=0,step={OVERFLOW}")
            plain, plain_final = self.train(folder, 3, None)

            self.assertEqual([r["step"] for r in records], list(range(1, STEPS + 1)))
            for record, undisturbed in zip(records, plain):
                step, after = record["step"], record["step"] > OVERFLOW
                self.assertEqual(record["skipped"], int(step == OVERFLOW), step)
                self.assertEqual(record["applied"], step - int(step >= OVERFLOW), step)
                self.assertEqual(
                    record["loss_scale"], INIT_SCALE / 2 if after else INIT_SCALE, step
                )
                self.assertEqual(undisturbed["skipped"], 0, step)
                self.assertEqual(undisturbed["loss_scale"], INIT_SCALE, step)
                # The schedule stands still for one step.
                self.assertEqual(record["lr"], plain[step - 1 - int(after)]["lr"], step)
                if step == OVERFLOW:
                    self.assertIsNone(record["loss"])
                else:
                    self.assertTrue(math.isfinite(record["loss"]), step)
                    self.assertTrue(math.isfinite(record["grad_norm"]), step)
            self.assertEqual(
                [r["loss"] for r in records[: OVERFLOW - 1]],
                [r["loss"] for r in plain[: OVERFLOW - 1]],
            )
            self.assertGreater(harness.largest_difference(
                harness.weights(final), harness.weights(plain_final)), 1e-5)

            # A rank that had applied the step would have other weights from then on: its part of the
            # loss, and its piece of the optimizer's state, would not be those of a run that skipped.
            for record, reference in zip(records, alone):
                if record["step"] != OVERFLOW:
                    self.assertLess(abs(record["loss"] / reference["loss"] - 1), 1e-3)
            self.assertLess(
                harness.largest_difference(harness.weights(final), harness.weights(alone_final)),
                1e-3,
            )
            state, reference = (harness.optimizer_state(f) for f in (final, alone_final))
            self.assertEqual(len(list(final.resolve().glob("optimizer-*.safetensors"))), 3)
            self.assertLess(harness.largest_difference(state, reference), 1e-3)


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
