"""Prints the measurements as Markdown, and keeps one section per size in RESULTS.md."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

INTRODUCTION = """# Results

Made by `python -m benchmarks --size S` (or M, L): one section per size, each measured in one run.
Texts are generated (`benchmarks/history.py`); a MB is 1,000,000 bytes of UTF-8 text that can be
searched. What was tried on the way is in NOTES.md.
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def machine() -> str:
    """Say what was measured on, without names."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("datasette", "datasette-history"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {_processor()}, {os.cpu_count()} cores, "
        f"{platform.system()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {packages}"
    )


def save(file: Path, title: str, text: str) -> None:
    """Put a section into the file, in place of the one with that title."""
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    sections = {
        match[1]: match[0].strip()
        for match in re.finditer(r"^## (.*?)$.*?(?=^## |\Z)", old, re.MULTILINE | re.DOTALL)
    }
    sections[title] = f"## {title}\n\n{text.strip()}"
    ordered = [sections[name] for name in sorted(sections, key=_rank)]
    file.write_text("\n\n".join([INTRODUCTION.strip(), *ordered]) + "\n", encoding="utf-8")


def _rank(title: str) -> tuple[int, str]:
    sizes = ("XS", "S", "M", "L")
    found = [place for place, size in enumerate(sizes) if f"Size {size}," in title]
    return (found[0] if found else len(sizes), title)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^model name\s*: (.*)$", cpuinfo.read_text("utf-8"), re.MULTILINE)
        if found:
            return re.sub(r"\s+", " ", found[1].replace("(R)", ""))
    return platform.processor() or platform.machine()
