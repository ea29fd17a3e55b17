"""What goes wrong is told once, with the thing's name and the right exit code, by every rank alike."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import h5py

import harness

RECORDS = ("config.yaml", "run.json", "metrics.jsonl")

# Runs a rank and writes its exit code to a file. mpirun ends all ranks soon after the first code
# that is not 0, so a rank's code is only handed on when all ranks have written theirs.
RECORDER = """
folder=$1 ranks=$2; shift 2
"$@"
code=$?
echo $code > "$folder/code-$OMPI_COMM_WORLD_RANK.part"
mv "$folder/code-$OMPI_COMM_WORLD_RANK.part" "$folder/code-$OMPI_COMM_WORLD_RANK"
for _ in $(seq 100); do
  [ "$(ls "$folder"/code-? | wc -l)" -ge "$ranks" ] && break
  sleep 0.1
done
exit $code
"""


def ignored_signals(process):
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    mask = int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


@contextlib.contextmanager
def mounted_tmpfs(path, options):
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=False)
    if done.returncode:
        raise unittest.SkipTest("this user may not mount a tmpfs")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


class AfterTheResult(unittest.TestCase):
    def test_a_request_to_stop_changes_nothing(self):
        reader, writer = os.pipe()
        # A full pipe holds the process at its last write, when its exit code is settled.
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"." * 4096)
        os.set_blocking(writer, True)
        process = subprocess.Popen([harness.BINARY, "--version"], stdout=writer)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(writer)
        stopping = {signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP}
        deadline = time.monotonic() + 30
        while not stopping <= ignored_signals(process.pid):
            self.assertLess(time.monotonic(), deadline, "the signals are not ignored")
            time.sleep(0.01)
        for number in stopping:
            process.send_signal(number)
        with open(reader, "rb") as output:
            text = output.read()
        self.assertEqual(process.wait(30), 0)
        self.assertRegex(text, rb"longship \d+\.\d+\.\d+\n$")


class Errors(unittest.TestCase):
    def setUp(self):
        workspace = harness.workspace(series=1, rows=200, columns=4)
        self.folder = workspace.__enter__()
        self.addCleanup(workspace.__exit__, None, None, None)
        self.number = 0

    def configure(self, **changes):
        self.number += 1
        config = harness.small_config(self.folder, train={"steps": 12})
        config = harness.deep_update(config, {"run": {"name": f"run-{self.number}"}})
        return harness.deep_update(config, changes)

    def start(self, config, ranks, *words, environment=None):
        """Ends with the outcome and the exit codes of all ranks."""
        path = config
        if isinstance(config, dict):
            path = harness.write_config(self.folder / "run.yaml", config)
        program = [harness.BINARY, "train", path, *words]
        if ranks == 1:
            outcome = harness.Job(program, environment).wait(60)
            return outcome, [outcome.code]
        codes = self.folder / f"codes-{self.number}-{ranks}"
        codes.mkdir()
        command = ["sh", "-c", RECORDER, "sh", codes, ranks, *program]
        outcome = harness.Job(harness.mpirun(ranks, command), environment).wait(60)
        return outcome, [int(p.read_text()) for p in sorted(codes.glob("code-?"))]

    def expect(self, config, code, *texts, ranks=(1, 3), words=(), environment=None):
        """One error line with all the texts, and the code from every rank, on 1 and 3 ranks."""
        for count in ranks:
            with self.subTest(ranks=count, texts=texts):
                outcome, codes = self.start(config, count, *words, environment=environment)
                self.assertEqual(codes, [code] * count, str(outcome))
                self.assertEqual(outcome.code, code, str(outcome))
                self.assertEqual(len(outcome.errors), 1, str(outcome))
                for text in texts:
                    self.assertIn(text, outcome.errors[0])
                self.assertNotIn("MPI_ABORT", outcome.stderr)
                # The one error is one line: nothing of it is left without the mark.
                self.assertEqual(outcome.stderr.rstrip().splitlines()[-1], outcome.errors[0])

    def assert_nothing_written(self, config):
        """A run that could not start leaves no checkpoint and no record of a step."""
        run = pathlib.Path(config["run"]["directory"]) / config["run"]["name"]
        self.assertEqual(list(run.glob("checkpoints/*")), [])
        self.assertEqual(list(run.glob("checkpoints/.*")), [])
        metrics = run / "metrics.jsonl"
        self.assertTrue(not metrics.exists() or metrics.read_text() == "")

    # ------------------------------------------------ the run file

    def test_wrong_key(self):
        config = self.configure(train={"batchsize": 64})
        self.expect(config, harness.INPUT, "run.yaml:", "batchsize", "batch_size")
        self.assert_nothing_written(config)

    def test_wrong_type(self):
        config = self.configure(train={"batch_size": "many"})
        self.expect(config, harness.INPUT, "run.yaml:", "train.batch_size", "many")
        self.assert_nothing_written(config)

    def test_batch_that_micro_batches_do_not_divide(self):
        config = self.configure(train={"batch_size": 64, "micro_batch_size": 12})
        self.expect(config, harness.INPUT, "train.micro_batch_size", "12", "64")
        self.assert_nothing_written(config)

    def test_missing_run_file(self):
        self.expect(self.folder / "no.yaml", harness.INPUT, "no.yaml")

    def test_usage(self):
        config = self.configure()
        self.expect(config, harness.USAGE, "--resume", words=("--resume", "nowhere"))
        self.expect(config, harness.USAGE, "bogus", words=("--bogus",), ranks=(1,))

    def test_fault_of_an_unknown_kind(self):
        environment = {"LONGSHIP_FAULT": "explode"}
        self.expect(self.configure(), harness.USAGE, "LONGSHIP_FAULT", environment=environment)

    # ------------------------------------------------ data

    def test_missing_file(self):
        config = self.configure(data={"path": str(self.folder / "absent.h5")})
        self.expect(config, harness.INPUT, "absent.h5")
        self.assert_nothing_written(config)

    def test_missing_dataset(self):
        with h5py.File(self.folder / "series.h5", "r+") as file:
            del file["values"]
        config = self.configure()
        self.expect(config, harness.INPUT, "series.h5", "values")
        self.assert_nothing_written(config)

    def test_missing_dataset_of_another_layout(self):
        with h5py.File(self.folder / "plain.h5", "w") as file:
            file["rows"] = [[1.0, 2.0], [3.0, 4.0]]
        config = self.configure(
            data={"path": str(self.folder / "plain.h5"), "dataset": "/nowhere/table"}
        )
        self.expect(config, harness.INPUT, "plain.h5", "/nowhere/table", ranks=(1,))

    def test_missing_column(self):
        config = self.configure(data={"inputs": ["x0", "pressure"]})
        self.expect(config, harness.INPUT, "pressure", "x1")
        self.assert_nothing_written(config)

    def test_column_that_float32_does_not_hold(self):
        rows = range(600)
        with h5py.File(self.folder / "plain.h5", "w") as file:
            file["rows"] = [[1e9 + row / 128, row % 24, 1e-50 * row] for row in rows]
            file["rows"].attrs["columns"] = ["level", "hour", "tiny"]
        path = str(self.folder / "plain.h5")
        for name in ("level", "tiny"):
            data = {"path": path, "inputs": ["hour", name], "targets": ["hour"]}
            config = self.configure(data=data)
            self.expect(config, harness.INPUT, path, "/rows", f"'{name}'", "rows 0 and 1", "offset")
            self.assert_nothing_written(config)

    def test_fewer_windows_than_ranks(self):
        # 140 training rows hold two windows of 139.
        config = self.configure(data={"window": 137})
        self.expect(config, harness.INPUT, "2", "windows", "3 ranks", ranks=(3,))
        self.assert_nothing_written(config)
        config = self.configure(data={"window": 150})
        self.expect(config, harness.INPUT, "no training window", "150", ranks=(1,))

    def test_more_ranks_than_micro_batches(self):
        config = self.configure(train={"micro_batch_size": 32})
        self.expect(config, harness.INPUT, "more ranks (3)", "micro-batches (2", ranks=(3,))
        self.assert_nothing_written(config)

    def test_truncated_file(self):
        path = self.folder / "series.h5"
        os.truncate(path, path.stat().st_size // 2)
        config = self.configure()
        self.expect(config, harness.INPUT, "series.h5", "truncated")
        self.assert_nothing_written(config)

    # ------------------------------------------------ the run directory

    def test_unwritable_run_directory(self):
        config = self.configure(run={"directory": str(self.folder / "locked")})
        with mounted_tmpfs(self.folder / "locked", "size=64k,ro"):
            self.expect(config, harness.INPUT, str(self.folder / "locked"), "Read-only")
            self.assertEqual(list((self.folder / "locked").iterdir()), [])

    def test_run_directory_below_a_file(self):
        (self.folder / "file").write_text("")
        config = self.configure(run={"directory": str(self.folder / "file")})
        self.expect(config, harness.INPUT, str(self.folder / "file"))

    def test_full_disk(self):
        for ranks in (1, 3):
            with mounted_tmpfs(self.folder / f"small-{ranks}", "size=1m") as disk:
                # Weights of 1 MiB and optimizer states of 2 MiB.
                config = self.configure(
                    run={"directory": str(disk)},
                    model={"hidden_size": 256, "num_layers": 1},
                    checkpoint={"every_steps": 2},
                    train={"batch_size": 12, "micro_batch_size": 4},
                )
                self.expect(config, harness.CHECKPOINT, "step 2", "No space left", ranks=(ranks,))
                run = disk / config["run"]["name"]
                self.assertEqual(list((run / "checkpoints").iterdir()), [])
                # What is there is whole.
                self.assertEqual([r["step"] for r in harness.records(run)], [1, 2])
                json.loads((run / "run.json").read_text())

    def test_disk_without_room_to_start(self):
        with mounted_tmpfs(self.folder / "tiny", "size=4k") as disk:
            config = self.configure(run={"directory": str(disk)})
            self.expect(config, harness.INPUT, str(disk), "No space left")
            run = disk / config["run"]["name"]
            for name in ("config.yaml", "run.json", "metrics.jsonl"):
                self.assertFalse((run / name).exists() and not (run / name).read_text(), name)

    # ------------------------------------------------ checkpoints

    def flip_a_byte(self, path):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)

    def test_flipped_byte_in_the_newest_checkpoint(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                config = self.configure(checkpoint={"every_steps": 4})
                self.start(config, ranks)
                run = self.folder / "runs" / config["run"]["name"]
                whole = (harness.checkpoint(run, 12) / "model.safetensors").read_bytes()
                self.flip_a_byte(harness.checkpoint(run, 12) / "model.safetensors")
                self.number += 100  # another folder for the codes
                outcome, codes = self.start(config, ranks)
                self.assertEqual(codes, [harness.DONE] * ranks, str(outcome))
                self.assertIn("step-000000012.bad", outcome.stderr)
                self.assertIn("model.safetensors", outcome.stderr)
                self.assertRegex(outcome.stderr, r"going on from \S*step-000000008")
                self.assertTrue((run / "checkpoints/step-000000012.bad").is_dir())
                again = (harness.checkpoint(run, 12) / "model.safetensors").read_bytes()
                self.assertEqual(again, whole)
                self.assertEqual([r["step"] for r in harness.records(run)], list(range(1, 13)))

    def test_flipped_byte_in_the_only_checkpoint(self):
        for name in ("model.safetensors", "manifest.json", "optimizer-*.safetensors"):
            config = self.configure()
            self.start(config, 1)
            run = self.folder / "runs" / config["run"]["name"]
            folder = harness.checkpoint(run).resolve()
            self.flip_a_byte(next(folder.glob(name)))
            self.number += 100
            # The first start sets it aside, the second one still does not begin anew.
            self.expect(config, harness.CHECKPOINT, "checkpoints", "--resume", ranks=(3, 1))
            self.assertFalse(folder.exists())
            self.assertTrue(folder.with_name(folder.name + ".bad").exists())

    # ------------------------------------------------ faults while training

    def test_a_refused_resume_keeps_the_records_of_the_run(self):
        config = self.configure()
        path = harness.write_config(self.folder / "kept.yaml", config)
        harness.train(path)
        run = self.folder / "runs" / config["run"]["name"]
        kept = {name: (run / name).read_bytes() for name in RECORDS}
        # Other data of the same shape, and a key that may change.
        harness.write_series(self.folder / "series.h5", seed=9)
        job = harness.longship("train", path, "--set", "optimizer.lr=0.7", "--set", "train.steps=90")
        outcome = job.wait()
        self.assertEqual(outcome.code, harness.INPUT, str(outcome))
        self.assertIn("the training data changed", outcome.stderr)
        for name, text in kept.items():
            self.assertEqual((run / name).read_bytes(), text, name)

    def test_exception_on_one_rank(self):
        fault = {"LONGSHIP_FAULT": "throw:rank=1,step=5"}
        config = self.configure()
        self.expect(
            config, harness.INTERNAL, "step 5", "rank 1 of 3", ranks=(3,), environment=fault
        )
        self.assert_no_checkpoint_of_a_failed_step(config)
        fault = {"LONGSHIP_FAULT": "throw:rank=0,step=5"}
        config = self.configure()
        self.expect(config, harness.INTERNAL, "step 5", ranks=(1,), environment=fault)
        self.assert_no_checkpoint_of_a_failed_step(config)

    def assert_no_checkpoint_of_a_failed_step(self, config):
        run = self.folder / "runs" / config["run"]["name"]
        self.assertEqual(list((run / "checkpoints").iterdir()), [])
        # The failed step and later ones have no loss.
        self.assertLess(max(r["step"] for r in harness.records(run) if r["loss"] is not None), 5)

    def test_a_rank_that_never_starts(self):
        config = self.configure(comm={"timeout_s": 3})
        path = harness.write_config(self.folder / "run.yaml", config)
        train = harness.mpirun(1, [harness.BINARY, "train", path])
        outcome = harness.Job([*train, ":", "-n", 1, "sleep", 60]).wait(45)
        self.assertEqual(outcome.code, harness.PEER, str(outcome))
        self.assertEqual(len(outcome.errors), 1, str(outcome))
        self.assertRegex(
            outcome.errors[0],
            r"MPI on host \S+ did not start within 3 s: another rank was not started .* \[rank 0\]",
        )

    def test_doctor_reports_a_rank_that_never_starts(self):
        doctor = harness.mpirun(1, [harness.BINARY, "doctor", "--json", "--timeout", 3])
        outcome = harness.Job([*doctor, ":", "-n", 1, "sleep", 60]).wait(45)
        self.assertEqual(outcome.code, harness.SETUP, str(outcome))
        report = json.loads(outcome.stdout)
        self.assertFalse(report["ok"])
        self.assertEqual(len(report["problems"]), 1, str(outcome))
        self.assertIn("did not start within 3 s", report["problems"][0])
        self.assertEqual(report["ranks"][0]["versions"]["longship"], "0.1.0")

    def test_frozen_rank(self):
        for frozen, speaker in ((1, 0), (0, 1)):
            config = self.configure(comm={"timeout_s": 3})
            path = harness.write_config(self.folder / "run.yaml", config)
            fault = {"LONGSHIP_FAULT": f"freeze:rank={frozen},step=5"}
            outcome = harness.longship("train", path, ranks=3, environment=fault).wait(45)
            self.assertEqual(outcome.code, harness.PEER, str(outcome))
            # All others lose patience at about the same time, and the lowest of them speaks.
            self.assertEqual(len(outcome.errors), 1, str(outcome))
            self.assertIn(f"[rank {speaker} of 3", outcome.errors[0])
            run = self.folder / "runs" / config["run"]["name"]
            self.assertEqual(list((run / "checkpoints").iterdir()), [])

    def test_a_checkpoint_of_a_run_with_another_order_is_refused(self):
        config = self.configure()
        harness.train(harness.write_config(self.folder / "first.yaml", config))
        first = self.folder / "runs" / config["run"]["name"]
        for key, value in (
            ("train.batch_size", 32),
            ("run.seed", 5),
            ("data.shuffle", "false"),
            ("data.normalize", "none"),
        ):
            self.expect(
                self.configure(train={"steps": 20}),
                harness.INPUT,
                key,
                "other settings that cannot change on resume",
                words=("--resume", first, "--set", f"{key}={value}"),
            )

    def test_settings_and_data_that_differ_between_ranks(self):
        config = self.configure()
        # Each rank's own file, as on hosts that do not share their disks.
        for rank in range(3):
            (self.folder / f"host-{rank}").mkdir()
            config["optimizer"]["lr"] = 0.001 if rank < 2 else 0.01
            harness.write_config(self.folder / f"host-{rank}" / "run.yaml", config)
        program = ["sh", "-c", 'cd "$1/host-$OMPI_COMM_WORLD_RANK" && exec "$2" train run.yaml']
        command = harness.mpirun(3, [*program, "sh", self.folder, harness.BINARY])
        outcome = harness.Job(command).wait(60)
        self.assertEqual(outcome.code, harness.INPUT, str(outcome))
        self.assertEqual(len(outcome.errors), 1, str(outcome))
        self.assertIn("rank 2", outcome.errors[0])
        self.assertIn("other settings than rank 0", outcome.errors[0])


if __name__ == "__main__":
    harness.require_binary()
    unittest.main(verbosity=2)
