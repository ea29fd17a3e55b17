"""On one GPU: NCCL with one rank, several ranks on that GPU over MPI, and trainings in half precision.

LONGSHIP_WEATHER names the imported weather data (demo/weather.h5); without it synthetic series are
trained and only their losses are checked. LONGSHIP_ETTH1 names ETTh1, imported; LONGSHIP_SEEDS asks
for what trains three seeds, which takes minutes. Not part of ctest: scripts/gpu_check.sh runs it.
"""

import itertools
import json
import math
import os
import pathlib
import unittest

import numpy as np
import torch

import harness

COUNTER = "tests/multirank/train/liblongship_count_cuda_waits.so"
KEYS = {
    "train": {"clip_norm": 0.5},
    "model": {"hidden_size": 32, "dropout": 0.1},
    "schedule": {"name": "cosine", "warmup_steps": 10},
}


class Gpu(unittest.TestCase):
    def setUp(self):
        workspace = harness.workspace(series=2, rows=800, columns=4)
        self.folder = workspace.__enter__()
        self.addCleanup(workspace.__exit__, None, None, None)

    def train(self, name, ranks, *changes):
        config = harness.small_config(self.folder, **KEYS)
        for change in changes:
            config = harness.deep_update(config, change)
        config["run"]["name"] = name
        path = harness.write_config(self.folder / f"{name}.yaml", config)
        harness.train(path, ranks=ranks)
        run = self.folder / "runs" / name
        facts = json.loads((run / "run.json").read_text())
        self.assertNotIn("CPU", facts["devices"], "the run did not use the GPU")
        return run, facts

    def losses(self, run):
        return np.array([r["loss"] for r in harness.records(run)])

    def test_ranks_that_share_the_gpu_train_as_one_does(self):
        nccl, facts = self.train("nccl", 1, {"comm": {"backend": "nccl"}})
        self.assertEqual(facts["resolved"]["backend"], "nccl")
        for ranks in (2, 3):
            mpi, facts = self.train(f"mpi-{ranks}", ranks, {"comm": {"backend": "mpi"}})
            self.assertEqual(facts["resolved"]["backend"], "mpi")
            worst = np.abs(self.losses(mpi) / self.losses(nccl) - 1).max()
            difference = harness.largest_difference(
                *(harness.weights(harness.checkpoint(run)) for run in (mpi, nccl))
            )
            print(f"{ranks} ranks over MPI and 1 over NCCL: losses differ by {worst:.2g}, "
                  f"parameters by {difference:.2g}", flush=True)
            self.assertLess(worst, 1e-5)
            self.assertLess(difference, 2e-5)

    def test_graph_and_eager_steps_train_alike(self):
        bounds = {"fp32": 1e-5, "fp16": 1e-2, "bf16": 3e-2}
        alone = None
        for ranks, backend in ((1, "nccl"), (2, "mpi")):
            for wire, shard in itertools.product(("fp32", "fp16", "bf16"), (False, True)):
                runs = []
                for graph in ("on", "off"):
                    name = f"{backend}-{wire}-{shard}-{graph}"
                    changes = {"comm": {"backend": backend, "wire": wire}, "train": {"graph": graph},
                               "optimizer": {"shard": shard}}
                    run, _ = self.train(name, ranks, changes)
                    log = (run / "logs/rank-00000.log").read_text()
                    self.assertEqual("graph=on: from step 4" in log, graph == "on", log)
                    runs.append(run)
                worst = np.abs(self.losses(runs[0]) / self.losses(runs[1]) - 1).max()
                print(f"{ranks} ranks over {backend}, wire {wire}, shard {shard}: graph and eager "
                      f"losses differ by {worst:.2g}", flush=True)
                self.assertLess(worst, 1e-6)
                alone = self.losses(runs[1]) if alone is None else alone
                distance = np.abs(self.losses(runs[0]) / alone - 1).max()
                print(f"    and from one rank's with FP32 on the wire by {distance:.2g}", flush=True)
                self.assertLess(distance, bounds[wire])

    def test_the_steady_loop_waits_for_nothing_but_the_step_before_last(self):
        library = pathlib.Path(os.environ.get("LONGSHIP_COUNT_CUDA_WAITS",
                                              harness.BINARY.parent / COUNTER))
        self.assertTrue(library.exists(), library)
        for residence in ("device", "host"):
            for accumulation in (1, 3):
                counts = []
                for steps in (200, 300):
                    report = self.folder / "waits.json"
                    changes = {
                        "train": {"steps": steps, "batch_size": 8 * accumulation,
                                  "micro_batch_size": 8},
                        "data": {"residence": residence},
                        "eval": {"every_epochs": 0},
                        "log": {"every_steps": 1000},
                        "comm": {"backend": "nccl", "wire": "fp16"},
                        "run": {"name": f"{residence}-{accumulation}-{steps}"},
                    }
                    config = harness.small_config(self.folder, **KEYS)
                    config = harness.deep_update(config, changes)
                    path = harness.write_config(self.folder / "waits.yaml", config)
                    harness.train(path, environment={"LD_PRELOAD": str(library),
                                                     "LONGSHIP_CUDA_WAITS": str(report)})
                    counts.append(json.loads(report.read_text()))
                more = {call: counts[1][call] - counts[0][call] for call in counts[0]}
                more = {call: count for call, count in more.items() if count}
                print(f"residence {residence}, {accumulation} micro-steps: 100 more steps make "
                      f"{more} more waiting calls", flush=True)
                # The prefetch thread's pinned memory may grow now and then; it is not the loop.
                self.assertLessEqual(more.pop("cudaHostAlloc", 0), 5)
                # The wait for step s - 2 polls its event, to keep a limit of time.
                self.assertEqual(more, {})

    def test_bench_train_without_a_communication_library(self):
        job = harness.longship("bench", "train", "--steps", "75", "--warmup", "25", "--json")
        outcome = job.wait()
        self.assertEqual(outcome.code, 0, str(outcome))
        result = json.loads(outcome.stdout)
        self.assertEqual((result["backend"], result["graph"]), ("local", "on"))
        self.assertGreater(result["peak_device_mib"], 0)

    def test_half_precision_trains_as_single_does(self):
        exact, _ = self.train("fp32", None)
        for mode in ("fp16", "bf16"):
            run, facts = self.train(mode, None, {"precision": {"mode": mode}})
            self.assertEqual(facts["resolved"]["precision"], mode)
            self.assertLess(np.abs(self.losses(run) / self.losses(exact) - 1).max(), 0.05)
            self.assertGreater(np.abs(self.losses(run) / self.losses(exact) - 1).max(), 1e-6)

    def test_fp8_trains_as_single_does_on_any_number_of_ranks(self):
        if torch.cuda.get_device_capability() < (9, 0):
            self.skipTest("FP8 needs compute capability 9.0")
        columns = ["x0", "x1", "x2", "x3"]
        model = {"name": "patch_transformer", "width": 32, "heads": 2, "feed_forward": 64,
                 "patch": 16, "stride": 8, "num_layers": 2, "dropout": 0.1}
        runs = {}
        for name, ranks, mode in (("single", 1, "fp32"), ("fp8-1", 1, "fp8"), ("fp8-2", 2, "fp8")):
            config = harness.small_config(self.folder, run={"name": name}, data={"targets": columns},
                                          precision={"mode": mode}, comm={"backend": "mpi"})
            config["model"] = model
            path = harness.write_config(self.folder / f"{name}.yaml", config)
            harness.train(path, ranks=ranks)
            runs[name] = self.folder / "runs" / name
            log = (runs[name] / "logs/rank-00000.log").read_text()
            self.assertIn("graph=on", log)
        losses = {name: self.losses(run) for name, run in runs.items()}
        by_type = np.abs(losses["fp8-1"] / losses["single"] - 1).max()
        by_ranks = np.abs(losses["fp8-2"] / losses["fp8-1"] - 1).max()
        print(f"fp8 and fp32: losses differ by {by_type:.2g}; fp8 on 2 ranks and 1: by {by_ranks:.2g}",
              flush=True)
        self.assertLess(by_type, 0.1)
        self.assertGreater(by_type, 1e-5)
        self.assertLess(by_ranks, 2e-2)
        # The scales' history is in the checkpoint, equal for any number of ranks but for rounding.
        extra = [harness.extra(harness.checkpoint(runs[name]))["fp8_history"].numpy()
                 for name in ("fp8-1", "fp8-2")]
        self.assertGreater(extra[0].max(), 0)
        np.testing.assert_allclose(extra[0], extra[1], rtol=0.1)
        # And more steps go on from it, on another number of ranks.
        harness.train(self.folder / "fp8-1.yaml", "--set", "train.steps=60", ranks=2)

    def test_overflow_on_the_gpu_is_skipped(self):
        config = harness.small_config(self.folder, precision={"mode": "fp16"})
        path = harness.write_config(self.folder / "run.yaml", config)
        harness.train(path, environment={"LONGSHIP_FAULT": "overflow:rank=0,step=7"})
        records = harness.records(self.folder / "runs/run")
        self.assertEqual([r["step"] for r in records if r["skipped"]], [7])
        self.assertEqual(records[7]["loss_scale"], records[6]["loss_scale"] / 2)
        self.assertEqual(records[-1]["applied"], records[-1]["step"] - 1)
        self.assertTrue(math.isfinite(records[-1]["loss"]))

    @unittest.skipUnless("LONGSHIP_WEATHER" in os.environ, "LONGSHIP_WEATHER is not set")
    def test_demo_beats_the_naive_forecasts_in_half_precision(self):
        weather = pathlib.Path(os.environ["LONGSHIP_WEATHER"]).resolve()
        for mode in ("fp16", "bf16"):
            words = ("--set", f"data.path={weather}", "--set", f"precision.mode={mode}")
            words += ("--set", f"run.directory={self.folder}", "--set", f"run.name={mode}")
            harness.train(harness.SOURCE / "configs/lstm_weather.yaml", *words)
            job = harness.longship("evaluate", self.folder / mode, "--json")
            outcome = job.wait()
            self.assertEqual(outcome.code, 0, str(outcome))
            report = json.loads(outcome.stdout)
            model = report["original"]["rmse"]
            naive = min(b["original"]["rmse"] for b in report["baselines"].values())
            print(f"demo in {mode}: RMSE {model:.6f} F, naive {naive:.3f} F", flush=True)
            self.assertLess(model, 0.95 * naive)

    def seeds(self, name, path, *words):
        """Errors on the test part for three seeds, by implementation of the LSTM."""
        errors = {}
        for kernels, seed in itertools.product(("cudnn", "own"), (1, 2, 3)):
            run = f"{name}-{kernels}-{seed}"
            keys = {"run.name": run, "run.directory": self.folder, "run.seed": seed,
                    "model.kernels": kernels, "precision.mode": "fp16"}
            sets = itertools.chain(*(("--set", f"{key}={value}") for key, value in keys.items()))
            harness.train(path, *words, *sets)
            log = (self.folder / run / "logs/rank-00000.log").read_text()
            self.assertEqual("by own kernels" in log, kernels == "own")
            job = harness.longship("evaluate", self.folder / run, "--json")
            outcome = job.wait()
            self.assertEqual(outcome.code, 0, str(outcome))
            error = json.loads(outcome.stdout)["normalized"]["mse"]
            errors.setdefault(kernels, []).append(error)
        return errors

    def expect_equal_within_seeds(self, name, errors):
        means = {kernels: np.mean(of) for kernels, of in errors.items()}
        spread = max(max(of) - min(of) for of in errors.values())
        text = ", ".join(f"{kernels} {np.round(of, 5)}" for kernels, of in errors.items())
        print(f"{name}, MSE of three seeds: {text}; means differ by "
              f"{abs(means['own'] - means['cudnn']):.5f}, seeds by {spread:.5f}", flush=True)
        self.assertLess(abs(means["own"] - means["cudnn"]), spread)

    @unittest.skipUnless("LONGSHIP_WEATHER" in os.environ, "LONGSHIP_WEATHER is not set")
    @unittest.skipUnless("LONGSHIP_SEEDS" in os.environ, "LONGSHIP_SEEDS is not set")
    def test_own_kernels_end_where_cudnns_do_on_weather(self):
        weather = pathlib.Path(os.environ["LONGSHIP_WEATHER"]).resolve()
        errors = self.seeds("weather", harness.SOURCE / "configs/lstm_weather.yaml",
                            "--set", f"data.path={weather}")
        self.expect_equal_within_seeds("weather", errors)

    @unittest.skipUnless("LONGSHIP_ETTH1" in os.environ, "LONGSHIP_ETTH1 is not set")
    @unittest.skipUnless("LONGSHIP_SEEDS" in os.environ, "LONGSHIP_SEEDS is not set")
    def test_own_kernels_end_where_cudnns_do_on_etth1(self):
        columns = ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
        config = harness.small_config(
            self.folder,
            data={"path": str(pathlib.Path(os.environ["LONGSHIP_ETTH1"]).resolve()),
                  "inputs": columns, "targets": columns, "window": 96, "horizon": 96,
                  "split": [[0, 8640], [8640, 11520], [11520, 14400]]},
            model={"hidden_size": 128, "num_layers": 2},
            train={"steps": 200, "batch_size": 128, "micro_batch_size": 128},
            optimizer={"lr": 1.0e-3}, comm={"wire": "fp16"}, eval={"every_epochs": 1},
            log={"every_steps": 100})
        path = harness.write_config(self.folder / "etth1.yaml", config)
        self.expect_equal_within_seeds("ETTh1", self.seeds("etth1", path))


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
