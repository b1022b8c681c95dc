"""Durations that tests measure on their way: shown with `pytest -s`, beside the load of the machine."""

import os


def report(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    middle = ordered[len(ordered) // 2]
    print(f"\n{what}: p50 {middle:.3f} s, max {ordered[-1]:.3f} s of {len(ordered)}; load {os.getloadavg()[0]:.1f}")


def allowed(seconds: float) -> float:
    """A limit that holds on a machine with nothing else to do, stretched by what this one has to do."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
