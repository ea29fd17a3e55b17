"""model.safetensors in torch.nn.LSTM and Linear gives the forecasts that `evaluate` measured, at any
number of ranks and any batch size."""

import json
import unittest

import numpy as np
import torch

import harness
from pytorch_peer import Forecaster

SEASON = 24  # rows of a day
KEYS = {
    "data": {"inputs": ["x2", "x0", "x1"], "targets": ["x0", "x3"], "window": 30, "horizon": 3},
    "model": {"hidden_size": 24, "num_layers": 3, "dropout": 0.1},
    "train": {"steps": 60},
}


def scores(error):
    return {"mse": float(np.square(error).mean()), "mae": float(np.abs(error).mean())}


def both_units(error, deviation):
    """What evaluate reports of errors (windows, horizon, targets) in normalised units."""
    original = scores(error * deviation)
    original["rmse"] = original["mse"] ** 0.5
    return {"normalized": scores(error), "original": original}


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        workspace = harness.workspace(series=3, rows=505, columns=4)
        cls.folder = workspace.__enter__()
        cls.addClassCleanup(workspace.__exit__, None, None, None)
        cls.runs = {}
        for batch_size in (7, 256):
            config = harness.small_config(cls.folder, **KEYS)
            config["run"]["name"] = f"batch-{batch_size}"
            config["eval"]["batch_size"] = batch_size
            path = harness.write_config(cls.folder / f"batch-{batch_size}.yaml", config)
            harness.train(path, ranks=2)
            cls.runs[batch_size] = cls.folder / "runs" / config["run"]["name"]
        cls.expected = cls.measure(config, harness.checkpoint(cls.runs[7]))

    @classmethod
    def measure(cls, config, checkpoint):
        """The test part's metrics by PyTorch, with windows and scaling of our own."""
        data, keys = config["data"], config["model"]
        windows = harness.Windows(
            data["path"], data["inputs"], data["targets"], data["window"], data["horizon"]
        )
        model = Forecaster(3, keys["hidden_size"], keys["num_layers"], data["horizon"], 2)
        model.load_state_dict(harness.weights(checkpoint), strict=True)
        everything = np.arange(len(windows.starts["test"]))
        past, target = windows.gather("test", everything)
        with torch.no_grad():
            forecast = model.eval()(torch.from_numpy(past)).numpy()
        history = windows.history("test", everything)
        season_phase = np.arange(data["horizon"]) % SEASON + data["window"] - SEASON
        deviation = windows.deviation[windows.targets]
        target = target.astype(np.float64)
        error = forecast - target
        expected = both_units(error, deviation)
        expected["windows"] = len(everything)
        expected["per_target"] = {
            name: both_units(error[..., i : i + 1], deviation[i : i + 1])
            for i, name in enumerate(data["targets"])
        }
        expected["per_step"] = [
            both_units(error[:, h : h + 1], deviation) for h in range(data["horizon"])
        ]
        expected["baselines"] = {
            "naive": both_units(history[:, -1:] - target, deviation),
            "seasonal_naive": both_units(history[:, season_phase] - target, deviation),
        }
        return expected

    def compare(self, actual, expected, relative, where=""):
        if isinstance(expected, dict):
            for key, value in expected.items():
                self.assertIn(key, actual, where)
                self.compare(actual[key], value, relative, f"{where}/{key}")
        elif isinstance(expected, list):
            self.assertEqual(len(actual), len(expected), where)
            for i, value in enumerate(expected):
                self.compare(actual[i], value, relative, f"{where}/{i}")
        else:
            self.assertLessEqual(abs(actual - expected), relative * abs(expected), where)

    def test_evaluate_measures_what_pytorch_does(self):
        self.assertGreater(self.expected["windows"] % 7, 0)
        results = {}
        for ranks in (None, 1, 3):
            for batch_size, run in self.runs.items():
                job = harness.longship("evaluate", run, "--json", ranks=ranks)
                outcome = job.wait()
                self.assertEqual(outcome.code, 0, str(outcome))
                report = json.loads(outcome.stdout)
                self.assertEqual(report["split"], "test")
                self.assertEqual(report["baselines"]["seasonal_naive"]["season"], SEASON)
                self.compare(report, self.expected, 1e-5, f"ranks {ranks} batch {batch_size}")
                report.pop("checkpoint")
                results[ranks, batch_size] = report
        # Among themselves they differ by the order of a sum in double alone.
        first = results[None, 7]
        for case, report in results.items():
            self.compare(report["baselines"], first["baselines"], 1e-12, str(case))
            self.compare(report["original"], first["original"], 1e-6, str(case))

    def test_weights_of_both_runs_are_equal(self):
        """The batch size of evaluations has no effect on training."""
        self.assertEqual(
            harness.largest_difference(
                *(harness.weights(harness.checkpoint(run)) for run in self.runs.values())
            ),
            0,
        )


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
