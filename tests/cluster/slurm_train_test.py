#!/usr/bin/env python3
"""Trains with slurm/train.sbatch on a real two-node Slurm (slurm_cluster.sh).

usage: slurm_train_test.py LONGSHIP

The job's time limit ends its first life: Slurm's USR1 leads to a checkpoint, the job goes back into
the queue and resumes in its second life under the same job number. Also shows that tasks of srun
without PMI are refused and that srun --mpi=pmix works. Exits 77 where no cluster can be made.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CLUSTER = HERE / "slurm_cluster.sh"
PROGRAM = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

RUN_FILE = """
run: {name: cluster, directory: runs, seed: 3}
data:
  path: series.h5
  inputs: [x0, x1]
  targets: [x0]
  window: 32
  horizon: 1
  split: [0.8, 0.1, 0.1]
model: {name: lstm, hidden_size: 128, num_layers: 2}
train: {steps: STEPS, batch_size: 64, micro_batch_size: 16}
eval: {every_epochs: 0}
checkpoint: {every_minutes: 0}
log: {every_steps: 1}
"""


def cluster(*words, check=True, **settings):
    """Runs a command with the cluster's settings and returns its output."""
    done = subprocess.run([CLUSTER, "run", *words], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **settings)
    if check and done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}")
    return done


def job_facts(job):
    """scontrol's KEY=VALUE words of a job."""
    text = cluster("scontrol", "show", "job", "--oneliner", job).stdout
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def wait_until(job, reached, limit, log):
    """The job's facts once `reached` holds; an error with its log when it ends or takes too long."""
    deadline = time.monotonic() + limit
    while True:
        facts = job_facts(job)
        if reached(facts):
            return facts
        if facts["JobState"] in ENDED or time.monotonic() > deadline:
            raise AssertionError(f"job {job} did not come so far within {limit} s: {facts}\n"
                                 + (log.read_text() if log.exists() else "no log"))
        time.sleep(0.5)


def records(run):
    """The training records of metrics.jsonl, in the order of the file."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record.get("split") == "train"]


class SlurmTrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="longship cluster ")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        # Not below a name with blanks: munged's socket and Slurm's own files take none.
        state = tempfile.TemporaryDirectory(prefix="longship-cluster-")
        cls.addClassCleanup(state.cleanup)
        os.environ.update(LONGSHIP_CLUSTER=state.name, LONGSHIP=str(PROGRAM),
                          LONGSHIP_DEVICE="cpu", OMPI_ALLOW_RUN_AS_ROOT="1",
                          OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
        cls.addClassCleanup(subprocess.run, [CLUSTER, "down"], check=True)
        subprocess.run([CLUSTER, "up"], check=True)
        subprocess.run([PROGRAM, "data", "synth", "--output", cls.folder / "series.h5", "--series",
                        "2", "--columns", "2", "--rows", "20000"], check=True)

    def test_trains_stops_before_the_limit_and_resumes(self):
        # The first life has more steps than it can do before Slurm's signal, which comes 60 to 90 s
        # before the limit. While the job waits for its second life, the run file is given an end.
        run_file = self.folder / "run file.yaml"
        run_file.write_text(RUN_FILE.replace("STEPS", "10000000"))
        job = cluster("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=2",
                      "--gpus-per-node=0", "--cpus-per-task=1", "--time=3", "--output=job.log",
                      "--signal=B:USR1@60", ROOT / "slurm/train.sbatch", run_file.name,
                      cwd=self.folder).stdout.strip()
        log_file = self.folder / "job.log"
        wait_until(job, lambda facts: facts["Restarts"] == "1", 300, log_file)
        cluster("scontrol", "hold", job)
        cluster("scontrol", "update", f"JobId={job}", "TimeLimit=30")
        run = self.folder / "runs/cluster"
        stopped_at = int((run / "checkpoints/latest").resolve().name.removeprefix("step-"))
        self.assertGreater(stopped_at, 0)
        steps = stopped_at + 20
        run_file.write_text(RUN_FILE.replace("STEPS", str(steps)))
        cluster("scontrol", "release", job)
        facts = wait_until(job, lambda facts: facts["JobState"] in ENDED, 500, log_file)
        log = log_file.read_text()

        self.assertEqual(facts["JobState"], "COMPLETED", log)
        self.assertEqual(facts["ExitCode"], "0:0", log)
        self.assertEqual(facts["JobId"], job)
        self.assertEqual(facts["Restarts"], "1", log)
        self.assertIn(f"job {job} on node[1-2], life 1", log)
        self.assertIn("asked to stop; the training writes a checkpoint", log)
        self.assertIn("requeued; the job resumes when it starts again", log)
        self.assertIn(f"job {job} on node[1-2], life 2", log)

        # Of the second life.
        facts = json.loads((run / "run.json").read_text())
        self.assertEqual(sorted(set(facts["hosts"])), ["node1", "node2"])
        self.assertEqual(facts["ranks"], 4)
        self.assertEqual(facts["first_step"], stopped_at)
        # No step is missing or done twice, over both lives.
        self.assertEqual([record["step"] for record in records(run)], list(range(1, steps + 1)))
        listed = subprocess.run([PROGRAM, "checkpoint", "verify", run / "checkpoints/latest"],
                                text=True, capture_output=True)
        self.assertEqual(listed.returncode, 0, listed.stdout + listed.stderr)

    def test_srun_without_pmi_is_refused(self):
        done = cluster("srun", "--mpi=none", "-N2", "-n4", str(PROGRAM), "doctor", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count("The launcher says 4 tasks (SLURM_STEP_NUM_TASKS)"), 1,
                         done.stdout)
        self.assertIn("srun --mpi=pmix", done.stdout)

    def test_srun_with_pmix_makes_one_job(self):
        done = cluster("srun", "--mpi=pmix", "-N2", "--ntasks-per-node=2", str(PROGRAM), "doctor",
                       "--json", stdin=subprocess.DEVNULL)
        report = json.loads(done.stdout[done.stdout.index("{"):])
        self.assertTrue(report["ok"], report["problems"])
        self.assertEqual(sorted(rank["host"] for rank in report["ranks"]),
                         ["node1", "node1", "node2", "node2"])
        self.assertEqual(report["all_reduce"]["backend"], "mpi")


if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(__doc__)
    able = subprocess.run([CLUSTER, "check"])
    if able.returncode != 0:
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
