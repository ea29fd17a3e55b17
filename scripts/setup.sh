#!/usr/bin/env bash
# Installs what is missing to build and test Longship, and writes build/environment.{cmake,mk}:
#   Debian packages     with apt-get, when root or with sudo; else prints the line to run;
#   LibTorch, CMake     from PyPI into a virtual environment outside the clone, named after the hash
#   and test packages   of the lock file, so that clones share it and an upgrade gets a new one;
#   CUDA toolkit 13     the installed one, or else one from PyPI, in the same place;
#   with --format       clang-format of Debian;
#   with --lint         that, and clang-tidy from PyPI: Debian's spends a minute on each source in
#                       LibTorch's headers, newer ones pass them by.
#
# LONGSHIP_CACHE     where the environments live (default: $XDG_CACHE_HOME/longship or ~/.cache/longship)
# LONGSHIP_CUDA      auto (default), or pypi to ignore an installed toolkit, or a toolkit's folder
# LONGSHIP_PACKAGES  auto (default), or none where modules, Spack or another distribution provide the
#                    libraries: CMake finds them by CMAKE_PREFIX_PATH and says what is missing
# LONGSHIP_PYTHON    a Python that has the packages of requirements.lock already (a node without a way
#                    to PyPI): it is used instead of an environment of our own
set -euo pipefail
shopt -s inherit_errexit  # an installation that fails in $(...) ends the script too
cd "$(dirname "$0")/.."

cache=${LONGSHIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/longship}
say() { printf 'setup: %s\n' "$*" >&2; }

debian_packages() {
  local packages=(g++ make git ca-certificates ccache python3 python3-venv libopenmpi-dev openmpi-bin
    openssh-client libhdf5-dev libcxxopts-dev libspdlog-dev libfmt-dev libyaml-cpp-dev
    nlohmann-json3-dev libxxhash-dev libfast-float-dev libgtest-dev libgmock-dev)
  local missing=() package
  [ "${LONGSHIP_PACKAGES:-auto}" = none ] && return 0
  if ! command -v dpkg-query >/dev/null; then
    say "this is no Debian-like system: install what stands for these packages, then set"
    say "LONGSHIP_PACKAGES=none: ${packages[*]} $*"
    exit 1
  fi
  for package in "${packages[@]}" "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
      say "packages are missing and this user may not install them; run as root:"
      say "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
      exit 1
    fi
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends "${missing[@]}" >/dev/null
}

# environment_folder LOCK_FILE: prints where python_environment puts the lock's packages.
environment_folder() {
  local key
  key=$({ cat "$1"; python3 -c 'import sys; print(sys.version_info[:2])'; } | sha256sum | cut -c1-12)
  echo "$cache/$(basename "$1" .lock)-$key"
}

# python_environment LOCK_FILE: prints the folder of an environment that holds the lock's packages.
python_environment() {
  local lock=$1 folder
  folder=$(environment_folder "$lock")
  mkdir -p "$cache"
  (
    flock 9
    if [ ! -e "$folder/.complete" ]; then
      say "installing $lock into $folder (once for all clones)"
      rm -rf "$folder"
      python3 -m venv "$folder"
      "$folder/bin/pip" install -q --no-cache-dir --disable-pip-version-check -r "$lock" >&2
      touch "$folder/.complete"
    fi
  ) 9>"$folder.lock"
  echo "$folder"
}

# site_packages PYTHON: prints the folder that holds its packages.
site_packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# given_python: prints LONGSHIP_PYTHON's path, once it is sure that its LibTorch is one that serves.
given_python() {
  local python version
  python=$(command -v "$LONGSHIP_PYTHON") || {
    say "LONGSHIP_PYTHON: there is no program '$LONGSHIP_PYTHON'"
    return 1
  }
  version=$("$python" -c 'import torch; print(torch.__version__)') || {
    say "LONGSHIP_PYTHON: $python has no torch"
    return 1
  }
  case $version in
    2.10.* | 2.11.*) ;;
    *)
      say "LONGSHIP_PYTHON: $python has torch $version; 2.10 and 2.11 are supported"
      return 1
      ;;
  esac
  echo "$python"
}

# program_of PYTHON NAME: prints the path of a program beside this Python, or else on the PATH.
program_of() {
  local beside
  beside=$(dirname "$1")/$2
  if [ -x "$beside" ]; then
    echo "$beside"
  else
    command -v "$2" || {
      say "$2 is neither beside $1 nor on the PATH"
      return 1
    }
  fi
}

installed_toolkit() {
  local folder
  for folder in ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda /usr/local/cuda-13* \
    "$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /none/none/nvcc)")")")"; do
    [ -x "$folder/bin/nvcc" ] && "$folder/bin/nvcc" --version | grep -q 'release 13\.' || continue
    echo "$folder"
    return 0
  done
  return 1
}

# PyPI's toolkit comes in wheels; nvcc and CMake expect one tree with lib64 and unversioned names.
pypi_toolkit() {
  local environment packages tree library
  environment=$(python_environment requirements-cuda.lock)
  packages=$(site_packages "$environment/bin/python")/nvidia/cu13
  tree="$environment/toolkit"
  if [ ! -e "$tree/.complete" ]; then
    rm -rf "$tree"
    mkdir -p "$tree/lib/stubs"
    ln -s lib "$tree/lib64"
    local part
    for part in bin include nvvm; do ln -s "$packages/$part" "$tree/$part"; done
    for library in "$packages"/lib/*; do ln -sf "$library" "$tree/lib/"; done
    for library in "$packages"/lib/lib*.so.*; do
      ln -sf "$library" "$tree/lib/$(basename "${library%%.so.*}").so"
    done
    # The driver's library comes with the driver; to link, a stub with its name is enough.
    [ -e "$tree/lib/stubs/libcuda.so" ] || [ -e "$packages/lib/stubs/libcuda.so" ] ||
      gcc -shared -Wl,-soname,libcuda.so.1 -o "$tree/lib/stubs/libcuda.so" -x c /dev/null
    touch "$tree/.complete"
  fi
  echo "$tree"
}

extra_packages=()
case ${1:-} in --format | --lint) extra_packages+=(clang-format) ;; esac
debian_packages "${extra_packages[@]}"
if [ -n "${LONGSHIP_PYTHON:-}" ]; then
  python=$(given_python)
else
  python=$(python_environment requirements.lock)/bin/python
fi
site=$(site_packages "$python")
case ${LONGSHIP_CUDA:-auto} in
  auto) cuda=$(installed_toolkit || pypi_toolkit) ;;
  pypi) cuda=$(pypi_toolkit) ;;
  *) cuda=$LONGSHIP_CUDA ;;
esac
ninja=$(program_of "$python" ninja)
cmake=$(program_of "$python" cmake)
ctest=$(program_of "$python" ctest)
[ "${1:-}" = --lint ] && python_environment requirements-lint.lock >/dev/null

mkdir -p build
write_if_changed() { cmp -s - "$1" <<<"$2" || printf '%s\n' "$2" >"$1"; }
write_if_changed build/environment.cmake "# Written by scripts/setup.sh.
set(LONGSHIP_SITE_PACKAGES \"$site\")
set(LONGSHIP_PYTHON \"$python\")
set(CMAKE_MAKE_PROGRAM \"$ninja\" CACHE FILEPATH \"\")
set(CUDAToolkit_ROOT \"$cuda\")
set(ENV{CUDA_HOME} \"$cuda\")
set(CUDA_TOOLKIT_ROOT_DIR \"$cuda\" CACHE PATH \"\")
set(CMAKE_CUDA_COMPILER \"$cuda/bin/nvcc\" CACHE FILEPATH \"\")
find_program(LONGSHIP_CCACHE ccache)
if(LONGSHIP_CCACHE)
  foreach(language C CXX CUDA)
    set(CMAKE_\${language}_COMPILER_LAUNCHER
        \"\${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_BASEDIR=\${CMAKE_SOURCE_DIR};CCACHE_NOHASHDIR=1;\${LONGSHIP_CCACHE}\")
  endforeach()
endif()"
write_if_changed build/environment.mk "# Written by scripts/setup.sh.
VENV := $(dirname "$(dirname "$python")")
CMAKE := $cmake
CTEST := $ctest
PYTHON := $python
CLANG_TIDY := $(environment_folder requirements-lint.lock)/bin/clang-tidy
export PATH := $(dirname "$python"):\$(PATH)"
