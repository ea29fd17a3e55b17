#!/usr/bin/env python3
"""Says how the demo's model compares with the better naive forecast; exits 1 when it is not at least
5 % better in RMSE."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    evaluation = json.load(file)
model = evaluation["original"]["rmse"]
naive = min(
    baseline["original"]["rmse"] for baseline in evaluation["baselines"].values() if baseline
)
gain = 100 * (1 - model / naive)
print(f"RMSE {model:.3f} F, the better naive forecast {naive:.3f} F: {gain:.1f} % lower")
sys.exit(0 if gain >= 5 else 1)
