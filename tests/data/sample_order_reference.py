#!/usr/bin/env python3
"""Prints the windows of a training stream, computed from the comment in data/sample_order.cpp.

Usage: sample_order_reference.py SEED FINGERPRINT WINDOWS FIRST_POSITION COUNT
"""
import sys

MASK64 = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK64
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK64
    return x ^ (x >> 31)


def permute(x: int, epoch_key: int, half: int) -> int:
    left, right = x >> half, x & ((1 << half) - 1)
    for r in range(1, 9):
        hashed = mix((epoch_key + r * GAMMA + right) & MASK64) >> (64 - half)
        left, right = right, left ^ hashed
    return left << half | right


def window_at(seed: int, fingerprint: int, windows: int, position: int) -> int:
    key = mix(mix((seed + GAMMA) & MASK64) ^ fingerprint)
    epoch, index = divmod(position, windows)
    epoch_key = mix((key + (epoch + 1) * GAMMA) & MASK64)
    half = 1
    while 4**half < windows:
        half += 1
    window = permute(index, epoch_key, half)
    while window >= windows:
        window = permute(window, epoch_key, half)
    return window


if __name__ == "__main__":
    SEED, FINGERPRINT, WINDOWS, FIRST, COUNT = map(int, sys.argv[1:])
    print(*(window_at(SEED, FINGERPRINT, WINDOWS, p) for p in range(FIRST, FIRST + COUNT)))
