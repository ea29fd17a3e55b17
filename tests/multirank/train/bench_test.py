"""`longship bench train` over several ranks."""

import json
import unittest

import harness


class BenchTrain(unittest.TestCase):
    def test_tells_what_communication_costs_and_what_backward_hides(self):
        words = ("bench", "train", "--json", "--steps", "75", "--warmup", "25")
        keys = ("train.batch_size=8", "train.micro_batch_size=4", "precision.mode=fp32")
        keys += ("model.hidden_size=16", "model.num_layers=1")
        for key in keys:
            words += ("--set", key)
        for ranks in (1, 2):
            outcome = harness.longship(*words, ranks=ranks).wait()
            self.assertEqual(outcome.code, 0, str(outcome))
            result = json.loads(outcome.stdout)
            self.assertEqual(result["ranks"], ranks)
            self.assertGreater(result["step_ms"], 0)
            samples = 8 / (result["step_ms"] * 1e-3)
            self.assertAlmostEqual(result["samples_per_s"] / samples, 1, places=6)
            self.assertEqual("all_reduce_ms" in result, ranks > 1)
            if ranks > 1:
                self.assertGreater(result["all_reduce_ms"], 0)
                hidden = max(0, 1 - result["exposed_comm_ms"] / result["all_reduce_ms"])
                self.assertAlmostEqual(result["hidden_share"], hidden, places=6)

    def test_a_mistake_is_told_once(self):
        words = ("bench", "train", "--steps", "75", "--warmup", "25")
        for more, code in (
            (("--set", "train.micro_batch_size=7"), harness.INPUT),
            (("--set", "train.batch_size=1", "--set", "train.micro_batch_size=1"), harness.INPUT),
            (("--profile",), harness.USAGE),
        ):
            environment = {"LONGSHIP_DEVICE": "cpu"}
            outcome = harness.longship(*words, *more, ranks=2, environment=environment).wait()
            self.assertEqual(outcome.code, code, str(outcome))
            self.assertEqual(len(outcome.errors), 1, str(outcome))


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
