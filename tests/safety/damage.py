"""Damages databases where it hurts."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def leaves(path: Path, name: str) -> list[int]:
    """Return the pages that hold rows of a table or entries of an index, in their order."""
    with sqlite3.connect(path) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = conn.execute(
            "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path", (name,)
        ).fetchall()
    conn.close()
    return [page for (page,) in pages]


def overflow_pages(path: Path, name: str) -> list[int]:
    with sqlite3.connect(path) as conn:
        pages = conn.execute(
            "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'overflow' ORDER BY path",
            (name,),
        ).fetchall()
    conn.close()
    return [page for (page,) in pages]


def overwrite(path: Path, *pages: int, filler: bytes = b"\xff") -> None:
    with sqlite3.connect(path) as conn:
        (size,) = conn.execute("PRAGMA page_size").fetchone()
    conn.close()
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * size)
            file.write(filler * size)
