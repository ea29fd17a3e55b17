#!/usr/bin/env bash
# Runs clang-tidy over the sources of the release build (all, or the files given). Takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then
  sources=("$@")
else
  mapfile -t sources < <(git ls-files 'launcher/*.cpp' 'runtime/*.cpp' 'comm/*.cpp' 'data/*.cpp' \
    'models/*.cpp' 'slurm/*.cpp')
fi
# GCC's precompiled header and a few of its flags are nothing that clang understands.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
sed -E 's/ -include [^ ]*cmake_pch\.hxx//g; s/ -Winvalid-pch//g; s/ -Wno-(stringop-overflow|restrict)//g' \
  build/release/compile_commands.json >"$database/compile_commands.json"
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p "$database" --quiet
