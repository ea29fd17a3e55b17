#!/usr/bin/env python3
"""Runs clang-tidy over the sources of the release build and exits 1 when it finds anything.

tidy.py [--since COMMIT] [SOURCE...]

Without sources it takes all of them; with --since those that differ from COMMIT, or include a header
that does. A source without findings is left out of later runs until it, a header of this tree that it
includes, its compile command, .clang-tidy or clang-tidy itself changes; build/tidy holds the marks.
scripts/setup.sh --lint installs clang-tidy, the build must be configured.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("launcher", "runtime", "comm", "data", "models", "slurm")
BUILD = ROOT / "build/release"
MARKS = ROOT / "build/tidy"


@functools.cache
def clang_tidy() -> str:
    return re.search(r"^CLANG_TIDY := (.*)$", (ROOT / "build/environment.mk").read_text(), re.M)[1]


def git(*arguments: str) -> list[str]:
    run = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return run.stdout.splitlines()


@functools.cache
def included(file: str) -> frozenset[str]:
    """The files of this tree that `file` includes, itself among them."""
    found = {file}
    for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', (ROOT / file).read_text(), re.M):
        if (ROOT / header).is_file():
            found |= included(header)
    return frozenset(found)


def without_gcc(command: str) -> str:
    """The command without GCC's precompiled header and a few of its flags, which clang does not know."""
    command = re.sub(r" -include \S*cmake_pch\.hxx| -Winvalid-pch", "", command)
    return re.sub(r" -Wno-(stringop-overflow|restrict|maybe-uninitialized|dangling-reference)", "", command)


def commands() -> dict[str, dict]:
    """The entries of the release build's compile_commands.json, by source."""
    entries = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT):
            entry["command"] = without_gcc(entry["command"])
            entries[str(path.relative_to(ROOT))] = entry
    return entries


def key(source: str, command: str, version: str) -> str:
    digest = hashlib.sha256()
    for text in (version, command, (ROOT / ".clang-tidy").read_text()):
        digest.update(text.encode() + b"\0")
    for file in sorted(included(source)):
        digest.update(file.encode() + b"\0" + (ROOT / file).read_bytes() + b"\0")
    return digest.hexdigest()


def mark(source: str) -> pathlib.Path:
    return MARKS / (source.replace("/", "_") + ".sha256")


def check(source: str, database: str, key_now: str) -> bool:
    """Runs clang-tidy over one source, prints what it finds and says whether that was nothing."""
    run = subprocess.run([clang_tidy(), "-p", database, "--quiet", source], cwd=ROOT, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode == 0:
        mark(source).write_text(key_now)
        return True
    print(f"{source}:\n{run.stdout or run.stderr}", flush=True)
    return False


def chosen_sources(arguments: argparse.Namespace) -> list[str]:
    sources = arguments.sources or git("ls-files", *(f"{folder}/*.cpp" for folder in FOLDERS))
    if arguments.since:
        changed = set(git("diff", "--name-only", arguments.since))
        sources = [source for source in sources if included(source) & changed]
    return sources


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs clang-tidy over the sources.")
    parser.add_argument("--since", metavar="COMMIT", help="only what has changed since")
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="instead of all")
    arguments = parser.parse_args()

    known = commands()
    version = subprocess.run([clang_tidy(), "--version"], check=True, capture_output=True,
                             text=True).stdout
    sources = chosen_sources(arguments)
    keys = {source: key(source, known[source]["command"], version) for source in sources}
    MARKS.mkdir(parents=True, exist_ok=True)
    left = [source for source in sources
            if not mark(source).exists() or mark(source).read_text() != keys[source]]

    with tempfile.TemporaryDirectory() as database, \
            concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        pathlib.Path(database, "compile_commands.json").write_text(json.dumps(list(known.values())))
        sound = list(pool.map(lambda source: check(source, database, keys[source]), left))
    unsound = sound.count(False)
    print(f"tidy: {len(sources)} sources, of which {len(sources) - len(left)} have not changed "
          f"and {unsound} have findings")
    return 1 if unsound else 0


if __name__ == "__main__":
    sys.exit(main())
