"""What a sync says: counts, problems and the exit code."""

from __future__ import annotations

from sync.model import BadRecord
from sync.report import Failure, Report, SourceReport


def report() -> Report:
    return Report(
        sources=[
            SourceReport("db", "/a/opencode.db", listed=1),
            SourceReport("storage", "/a/storage", skipped=True),
        ],
        refreshed=1,
        messages_written=2,
        seconds=0.25,
    )


def test_the_text_names_every_source_and_what_was_done() -> None:
    assert report().to_text().splitlines() == [
        "db       /a/opencode.db: 1 session",
        "storage  /a/storage: unchanged",
        "1 session refreshed, 0 removed, 0 failed, 2 messages written in 0.2 s",
    ]


def test_failures_and_unreadable_rows_are_listed_up_to_a_bound() -> None:
    full = report()
    full.sources[0].error = "the file is locked"
    full.failures.append(Failure("ses_1", "the disk went away"))
    full.problems = [BadRecord(item=f"message m{n}", reason="not JSON") for n in range(25)]
    lines = full.to_text().splitlines()
    assert lines[0] == "db       /a/opencode.db: the file is locked"
    assert lines[3] == "failed: ses_1: the disk went away"
    assert lines[4] == "not read: message m0: not JSON"
    assert lines[23:] == [
        "not read: message m19: not JSON",
        "and 5 more rows not read; `opencode-history status` lists all",
    ]


def test_exit_codes() -> None:
    fine = report()
    assert (fine.exit_code(), fine.exit_code(strict=True)) == (0, 0)
    fine.problems.append(BadRecord(item="x", reason="y"))
    assert (fine.exit_code(), fine.exit_code(strict=True)) == (0, 1)
    assert Report().exit_code() == 3
    failed = report()
    failed.failures.append(Failure("ses_1", "x"))
    assert failed.exit_code() == 1
    broken = report()
    broken.sources[0].error = "locked"
    assert broken.exit_code() == 1


def test_json_has_everything() -> None:
    full = report()
    full.problems.append(BadRecord(item="message m1", reason="not JSON", session_id="s1"))
    found = full.to_json()
    assert found["problems"] == [
        {
            "item": "message m1",
            "reason": "not JSON",
            "session_id": "s1",
            "message_id": None,
            "hides_session": False,
        }
    ]
    assert [source["location"] for source in found["sources"]] == ["/a/opencode.db", "/a/storage"]
