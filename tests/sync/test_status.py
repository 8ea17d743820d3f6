"""What ``status`` says of the sources: how far behind they may be, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sync.index import Index
from sync.status import read_status
from tests.builders import T0


@pytest.mark.parametrize(
    ("after_s", "said"),
    [
        (0, "complete 0 seconds ago"),
        (1.9, "complete 1 second ago"),
        (59, "complete 59 seconds ago"),
        (60, "complete 1 minute ago"),
        (7200, "complete 2 hours ago"),
        (3 * 86400, "complete 3 days ago"),
        (-5, "complete 0 seconds ago"),
    ],
)
def test_status_says_how_far_behind_a_source_may_be(
    tmp_path: Path, after_s: float, said: str
) -> None:
    path = tmp_path / "history.db"
    with Index.open(path) as index, index.transaction():
        number = index.source_id("db", "/data/opencode.db")
        index.source_listed(number, listed_at_ms=T0, signature=None)
    status = read_status(path, [], clock=lambda: T0 / 1000 + after_s)
    assert f"  db       /data/opencode.db: 0 sessions, {said}" in status.to_text().splitlines()
    assert status.to_json()["sources"][0]["lag_s"] == max(0, int(after_s))


def test_status_shows_a_source_that_fails_and_one_never_listed(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with Index.open(path) as index, index.transaction():
        number = index.source_id("api", "http://127.0.0.1:4096")
        index.source_failed(number, "http://127.0.0.1:4096 cannot be reached")
    status = read_status(path, [])
    assert (
        "  api      http://127.0.0.1:4096: 0 sessions, never listed whole; "
        "http://127.0.0.1:4096 cannot be reached" in status.to_text().splitlines()
    )
    assert status.sources[0].lag_s is None
