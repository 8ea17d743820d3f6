"""Clocks and figures: durations of calls, of processes, and how to print them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of several calls; first is the one before anything was cached."""

    first: float
    median: float
    p95: float

    def __str__(self) -> str:
        return f"{self.median:.1f} / {self.p95:.1f}"


def latency(call: Callable[[], object], *, times: int, budget_s: float = 10.0) -> Latency:
    """Time a call up to that often, at least twice, and stop once the budget is spent."""
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < 2 or (len(taken) <= times and time.perf_counter() - began < budget_s):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1000)
    return summary(taken[1:], first=taken[0])


def summary(taken: Sequence[float], *, first: float | None = None) -> Latency:
    """Return median and 95th percentile of milliseconds."""
    p95 = quantiles(taken, n=20, method="inclusive")[-1] if len(taken) > 1 else taken[0]
    return Latency(taken[0] if first is None else first, median(taken), p95)


def seconds(call: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


@dataclass(frozen=True, slots=True)
class Run:
    """A finished process.

    cpu_s: processor seconds of it and its children, which other programs disturb less.
    peak_mb: largest resident memory of it or one of its children.
    """

    seconds: float
    cpu_s: float
    peak_mb: float
    output: str


def run(arguments: Sequence[str]) -> Run:
    """Run a Python module of the project; raises where it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    if process.stdout is None:
        raise RuntimeError("the process has no output")
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}: {output}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Run(
        time.perf_counter() - start,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / unit,
        output,
    )
