"""Counts the bytes that gradients put on the wire with Open MPI's own monitoring.

usage: wire_bytes_monitoring.py PROGRAM MPIRUN ARGUMENTS...
Runs PROGRAM in each wire format under MPIRUN ARGUMENTS and checks that half types send half of FP32.
"""

import pathlib
import subprocess
import sys
import tempfile


def bytes_sent(program: str, mpirun: list[str], wire: str) -> int:
    """All bytes that all ranks sent to each other, of users' messages and of collectives."""
    with tempfile.TemporaryDirectory(prefix="longship-monitoring-") as folder:
        monitoring = [
            "--mca", "pml_monitoring_enable", "1",
            "--mca", "pml_monitoring_enable_output", "3",
            "--mca", "pml_monitoring_filename", f"{folder}/sent",
        ]
        subprocess.run([*mpirun, *monitoring, program, wire], check=True, timeout=100)
        files = sorted(pathlib.Path(folder).glob("sent.*.prof"))
        if not files:
            raise SystemExit("Open MPI's monitoring wrote no files")
        total = 0
        for file in files:
            for line in file.read_text().splitlines():
                # Kind, from, to, bytes, messages; E and I are point to point messages, those of
                # collectives' own included; C and others repeat them by collective.
                fields = line.split()
                if fields and fields[0] in ("E", "I"):
                    total += int(fields[3])
        return total


def main() -> int:
    program, *mpirun = sys.argv[1:]
    sent = {wire: bytes_sent(program, mpirun, wire) for wire in ("fp32", "fp16", "bf16")}
    status = 0
    for wire in ("fp16", "bf16"):
        ratio = sent[wire] / sent["fp32"]
        print(f"{wire}: {sent[wire]} bytes, {ratio:.4f} of the {sent['fp32']} bytes of fp32")
        if not 0.49 < ratio < 0.51:
            print(f"FAILED: {wire} does not send half of fp32")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
