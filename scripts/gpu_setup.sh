# Sourced by scripts/gpu_check.sh and scripts/multi_gpu_check.sh from the root of the tree: $build,
# $python, the libraries of programs that were built elsewhere, and how checks are run and counted.
#
# only     names of the checks to run; none means all (the caller sets it)
# BUILD    where the binaries are (default build/release)
# PYTHON   a Python with torch, h5py and safetensors (default: the build's, else python3)

build=${BUILD:-build/release}
python=${PYTHON:-$(sed -n 's/^PYTHON := //p' build/environment.mk 2>/dev/null || true)}
[ -x "$python" ] || python=$(command -v python3)
export LONGSHIP_BINARY=$PWD/$build/longship PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

# Programs that were built elsewhere look for LibTorch where it was there; this Python has one too.
if ldd "$LONGSHIP_BINARY" | grep -q 'not found'; then
  libraries=$("$python" - <<'PYTHON'
import pathlib
import torch
packages = pathlib.Path(torch.__file__).parents[1]
folders = [packages / "torch/lib", *sorted(packages.glob("nvidia/*/lib"))]
print(":".join(map(str, folders)))
PYTHON
  )
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  if ldd "$LONGSHIP_BINARY" | grep 'not found' >&2; then
    echo "these libraries are missing" >&2
    exit 5
  fi
fi

ran=()
failed=()

# check NAME COMMAND...: runs it, says how long it took, notes its failure.
check() {
  local name=$1
  shift
  if [ ${#only[@]} -gt 0 ] && [[ " ${only[*]} " != *" $name "* ]]; then
    return 0
  fi
  ran+=("$name")
  printf '\n== %s\n' "$name"
  SECONDS=0
  "$@" || failed+=("$name (exit code $?)")
  printf -- '-- %s: %s s\n' "$name" "$SECONDS"
}

# end_checks PROGRAM: says what failed; its exit code is the program's.
end_checks() {
  local name
  for name in "${only[@]}"; do
    [[ " ${ran[*]} " == *" $name "* ]] || failed+=("$name: there is no such check")
  done
  echo
  if [ ${#failed[@]} -gt 0 ]; then
    printf "$1: failed: %s\n" "${failed[@]}" >&2
    return 1
  fi
  [ ${#only[@]} -eq 0 ] && echo "$1: all passed" || echo "$1: passed: ${ran[*]}"
}
