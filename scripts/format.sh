#!/usr/bin/env bash
# Checks that all C++ sources are formatted by clang-format; with --fix formats them.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')
if [ "${1:-}" = --fix ]; then
  clang-format -i "${sources[@]}"
else
  clang-format --dry-run -Werror "${sources[@]}"
  echo "format: ${#sources[@]} files are formatted"
fi
