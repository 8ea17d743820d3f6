"""A real Datasette process over an index, and many who ask it at once."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.questions import Question
from benchmarks.timing import Latency, summary

START_TIMEOUT_S = 60


@contextmanager
def served(index: Path) -> Iterator[str]:
    """Serve an index with `datasette serve`; yields the base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "datasette", "serve", str(index), "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    base = f"http://127.0.0.1:{port}"
    try:
        _wait_for(base, process)
        yield base
    finally:
        process.terminate()
        process.wait()


def ask(client: httpx.Client, question: Question) -> dict[str, Any]:
    """Ask one question over HTTP; raises where the answer is an error."""
    response = client.get(f"/-/history/{question.tool}.json", params=question.inputs)
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    return answer


@dataclass(slots=True)
class Crowd:
    """What happened to everybody's questions. taken in milliseconds."""

    taken: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def latency(self) -> Latency:
        return summary(self.taken)


def crowd(base: str, asked: Sequence[Question], *, people: int, stop: threading.Event) -> Crowd:
    """Let that many people ask all questions in turn, without a pause, until stop is set."""
    result = Crowd()
    threads = [
        threading.Thread(target=_ask_on, args=(base, asked, number, stop, result))
        for number in range(people)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return result


def _ask_on(
    base: str, asked: Sequence[Question], number: int, stop: threading.Event, result: Crowd
) -> None:
    with httpx.Client(base_url=base, timeout=60) as client:
        while not stop.is_set():
            question = asked[number % len(asked)]
            number += 1
            start = time.perf_counter()
            try:
                ask(client, question)
            except httpx.HTTPError as error:
                result.errors.append(f"{question.name}: {error}")
            result.taken.append((time.perf_counter() - start) * 1000)


def _wait_for(base: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(f"{base}/-/versions.json")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("datasette did not start")
