#!/usr/bin/env python3
"""Checks the dependency rule of the folders: who may include whom, and which foreign headers.

Prints one line for each breach and exits 1 when there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = {
    "comm": {"comm"},
    "data": {"data"},
    "models": {"models"},
    "slurm": {"slurm"},
    "runtime": {"runtime", "comm", "data", "models"},
    "launcher": {"launcher", "runtime", "comm", "data", "models", "slurm"},
}
FOREIGN = {
    "mpi.h": {"comm", "launcher"},
    "nccl.h": {"comm", "launcher"},
    "hdf5.h": {"data"},
    "cxxopts.hpp": {"launcher"},
}


def breaches(path: pathlib.Path, folder: str):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if not match:
            continue
        header = match.group(1)
        top = header.split("/")[0]
        if "/" in header and top in FOLDERS and top not in FOLDERS[folder]:
            yield f"{path.relative_to(ROOT)}:{number}: {folder}/ may not include {header}"
        if header in FOREIGN and folder not in FOREIGN[header]:
            yield f"{path.relative_to(ROOT)}:{number}: {folder}/ may not include {header}"


def main() -> int:
    found = [
        breach
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".h", ".cpp", ".cu", ".cuh"}
        for breach in breaches(path, folder)
    ]
    print("\n".join(found) if found else "includes: every folder keeps to its dependencies")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
