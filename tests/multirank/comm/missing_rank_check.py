"""A rank that does not come: usage missing_rank_check.py MPIRUN... PROGRAM."""

import re
import subprocess
import sys
import time


def main() -> int:
    began = time.monotonic()
    result = subprocess.run(sys.argv[1:], capture_output=True, text=True, timeout=90, check=False)
    seconds = time.monotonic() - began
    print(result.stdout, result.stderr, f"exit code {result.returncode} after {seconds:.1f} s")
    message = re.compile(
        r"kPeer: all_reduce #1 \(Float x 5, sum\) on rank 0 of host \S+ did not end within 2 s: "
        r"another rank stopped or the network failed"
    )
    if not message.search(result.stdout):
        print("FAILED: rank 0 did not name the collective, its number, rank, host and the limit")
        return 1
    if result.returncode != 86:
        print("FAILED: the job did not end with the code given to abort(), 86")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
