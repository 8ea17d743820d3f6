"""The recorded histories, session by session where their notes name something special."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sync.model import BadRecord, Message, Session, Source
from sync.sources.json_store import JsonSource
from sync.sources.sqlite import SqliteSource
from tests.opencode_stores import copied
from tests.sync.sources.reading import listed, messages, problems, read, stamps, texts

Open = Callable[[str, str], Source]


@pytest.fixture
def recorded(samples: Path, tmp_path: Path) -> Iterator[Open]:
    """Open a recorded store: the set's name, then db or storage."""
    opened: list[Source] = []

    def open_(name: str, kind: str) -> Source:
        data = tmp_path / name if (tmp_path / name).exists() else copied(samples, name, tmp_path)
        source: Source = (
            SqliteSource(data / "opencode.db") if kind == "db" else JsonSource(data / "storage")
        )
        opened.append(source)
        return source

    yield open_
    for source in opened:
        source.close()


def feature(samples: Path, name: str, which: str) -> str:
    """Return the session that a set's notes call so."""
    ids = json.loads((samples / name / "ids.json").read_text(encoding="utf-8"))
    found = ids["ids"][which]
    return str(found)


def titled(source: Source, title: str) -> str:
    [session_id] = [key for key, ref in listed(source).items() if ref.title == title]
    return session_id


def kinds(message: Message) -> list[str]:
    return [part.kind for part in message.parts]


@pytest.mark.parametrize(
    ("name", "kind", "sessions", "roles"),
    [
        ("1.1.53", "storage", 44, {"user": 64, "assistant": 116}),
        ("1.18.33", "db", 44, {"user": 66, "assistant": 117}),
        (
            "1.18.33-v2",
            "db",
            35,
            {
                "user": 51, "assistant": 72, "system": 2, "agent-switched": 2,
                "model-switched": 1, "compaction": 1,
            },
        ),
        ("mixed", "db", 63, None),
        ("mixed", "storage", 48, None),
    ],
)  # fmt: skip
def test_every_session_and_message_is_read(
    recorded: Open, name: str, kind: str, sessions: int, roles: dict[str, int] | None
) -> None:
    source = recorded(name, kind)
    refs = listed(source)
    assert len(refs) == sessions
    found: Counter[str] = Counter()
    for key, ref in refs.items():
        session, items = read(source, key)
        assert session.updated_ms == ref.activity_ms
        assert (session.title, session.directory) == (ref.title, ref.directory)
        for item in items:
            assert isinstance(item, Message), item
            found[item.role] += 1
    if roles is not None:
        assert found == roles


@pytest.mark.parametrize(
    ("name", "kind"),
    [("1.1.53", "storage"), ("1.18.33", "db"), ("1.18.33-v2", "db"), ("mixed", "db")],
)
def test_a_second_reading_sends_no_message_again(recorded: Open, name: str, kind: str) -> None:
    source = recorded(name, kind)
    for key in listed(source):
        known = stamps(source, key)
        assert [item for item in read(source, key, known)[1] if isinstance(item, Message)] == []


def test_what_a_continued_revert_left_is_reported(recorded: Open) -> None:
    source = recorded("1.1.53", "storage")
    assert [(Path(p.item).parent.name, p.reason) for p in problems(source)] == [
        ("part", "parts without a message: 1"),
        ("part", "parts without a message: 3"),
    ]
    for name in ("1.18.33", "1.18.33-v2", "mixed"):
        assert problems(recorded(name, "db")) == []


def test_both_generations_tell_the_same_of_the_same_conversation(
    samples: Path, recorded: Open
) -> None:
    """The same scenario was recorded on files and on tables."""

    def told(name: str, kind: str) -> list[tuple[str, list[tuple[str, str]]]]:
        source = recorded(name, kind)
        found = messages(source, feature(samples, name, "token-refresh"))
        return [
            (m.role, [(p.kind, p.text) for p in m.parts if p.kind in ("text", "reasoning", "tool")])
            for m in found
        ]

    assert told("1.1.53", "storage") == told("1.18.33", "db")


def test_todos_are_in_the_tables_and_files(samples: Path, recorded: Open) -> None:
    for name, kind, which, count in (
        ("1.1.53", "storage", "token-refresh", 5),
        ("1.18.33", "db", "token-refresh", 5),
        ("1.18.33-v2", "db", "v2-reasoning", 2),
    ):
        session, _ = read(recorded(name, kind), feature(samples, name, which))
        assert session.todos is not None
        assert len(session.todos) == count
        assert all(todo.content and todo.status and todo.priority for todo in session.todos)


def test_archived_children_and_reverted_sessions_say_so(samples: Path, recorded: Open) -> None:
    source = recorded("1.18.33", "db")

    def session(which: str) -> Session:
        return read(source, feature(samples, "1.18.33", which))[0]

    assert session("archived").archived_ms is not None
    assert session("login-bug").archived_ms is None
    assert session("login-bug").revert is None
    reverted = session("reverted")
    assert reverted.revert is not None
    assert reverted.revert.message_id in [m.id for m in messages(source, reverted.id)]
    assert session("api-child").parent_id is not None


def test_an_imported_session_is_not_active_at_the_time_of_the_import(recorded: Open) -> None:
    database, files = recorded("mixed", "db"), recorded("mixed", "storage")
    imported = 1796087514922
    in_database, in_files = listed(database), listed(files)
    assert imported not in {ref.activity_ms for ref in in_database.values()}
    later = {
        ref.title
        for key, ref in in_files.items()
        if key in in_database and ref.activity_ms > in_database[key].activity_ms
    }
    # Of the sessions in both, the files know more of this one alone.
    assert later == {"Refactor token refresh"}
    assert len(messages(files, titled(files, "Refactor token refresh"))) == 10
    assert len(messages(database, titled(database, "Refactor token refresh"))) == 8


def test_titles_are_each_stores_own(recorded: Open) -> None:
    database, files = recorded("mixed", "db"), recorded("mixed", "storage")
    for key, (in_database, in_files) in {
        titled(database, "Rename retry option, renamed by 1.18"): (
            "Rename retry option, renamed by 1.18", "Rename retry option",
        ),
        titled(files, "Pick a queue, renamed after the downgrade"): (
            "Pick a queue", "Pick a queue, renamed after the downgrade",
        ),
    }.items():  # fmt: skip
        assert listed(database)[key].title == in_database
        assert listed(files)[key].title == in_files
    only_in_files = {ref.title for key, ref in listed(files).items() if key not in listed(database)}
    assert len(only_in_files) == 7
    assert {"Wrong API key", "Old idea: static site"} < only_in_files
    assert "Answer that hits the output limit" not in only_in_files


def test_a_patch_edits_the_files_of_its_headers_and_a_failed_one_none(
    samples: Path, recorded: Open
) -> None:
    for name, kind in (("1.1.53", "storage"), ("1.18.33", "db")):
        found = messages(recorded(name, kind), feature(samples, name, "apply-patch"))
        assert [(e.path, e.tool) for m in found for e in m.edits] == [
            ("/home/dev/acme-api-wt/src/http/retry.mjs", "apply_patch"),
            ("/home/dev/acme-api-wt/docs/retry.md", "apply_patch"),
        ]
        assert [p.kind for m in found for p in m.parts].count("error") == 1


def test_edits_of_v2_are_absolute(samples: Path, recorded: Open) -> None:
    source = recorded("1.18.33-v2", "db")
    for which, path, tool in (
        ("v2-login-bug", "/home/dev/acme-api/src/auth/login.mjs", "edit"),
        ("v2-japanese", "/home/dev/notes/2026/第3回定例.md", "write"),
        ("v2-failing-tools", "/home/dev/acme-api/src/http/retry.mjs", "apply_patch"),
    ):
        found = messages(source, feature(samples, "1.18.33-v2", which))
        assert [(e.path, e.tool) for m in found for e in m.edits] == [(path, tool)]


def test_unknown_tools_are_failed_calls(samples: Path, recorded: Open) -> None:
    for name, kind, which in (
        ("1.1.53", "storage", "failing-tools"),
        ("1.18.33", "db", "failing-tools"),
        ("1.18.33-v2", "db", "v2-failing-tools"),
    ):
        found = messages(recorded(name, kind), feature(samples, name, which))
        calls = {p.text: p.status for m in found for p in m.parts if p.kind == "tool"}
        assert calls["run_tests"] == "error"
        assert "invalid" not in calls


def test_attached_texts_are_synthetic_and_images_are_named(samples: Path, recorded: Open) -> None:
    source = recorded("1.18.33", "db")
    [question, *_] = messages(source, feature(samples, "1.18.33", "attached-text"))
    assert [(p.kind, p.own) for p in question.parts if p.kind in ("text", "synthetic")] == [
        ("text", True), ("synthetic", False), ("synthetic", False),
    ]  # fmt: skip
    [image, *_] = messages(source, feature(samples, "1.18.33", "css-bug-image"))
    assert [(p.name, p.text) for p in image.parts if p.kind == "file"] == [
        ("image/png", "screenshot-375px.png")
    ]
    assert not any("base64" in text for text in texts(image))


def test_a_compaction_leaves_a_summary(samples: Path, recorded: Open) -> None:
    for name, kind, which, role in (
        ("1.1.53", "storage", "compacted", "assistant"),
        ("1.18.33", "db", "compacted", "assistant"),
        ("1.18.33-v2", "db", "v2-auto-compacted", "compaction"),
    ):
        found = messages(recorded(name, kind), feature(samples, name, which))
        [summary] = [m for m in found if "summary" in kinds(m)]
        assert summary.role == role
        assert "Goal" in texts(summary)[0]


def test_what_a_killed_run_left_is_found(samples: Path, recorded: Open) -> None:
    _, answer = messages(recorded("1.18.33", "db"), feature(samples, "1.18.33", "crashed"))
    [tool] = [p for p in answer.parts if p.kind == "tool"]
    assert (tool.text, tool.status, tool.ended_ms) == ("bash", "running", None)
    assert "row 1\n" in texts(answer)
    _, answer = messages(recorded("1.18.33-v2", "db"), feature(samples, "1.18.33-v2", "v2-crashed"))
    assert "echo 'row 1'; sleep 600" in texts(answer)


def test_a_shells_odd_bytes_are_kept(samples: Path, recorded: Open) -> None:
    found = messages(recorded("1.18.33", "db"), feature(samples, "1.18.33", "shell"))
    outputs = [p.text for m in found for p in m.parts if p.kind == "output"]
    assert "\x1b[31merror\x1b[0m: \x1b[1mbold\x1b[0m\n10%\r50%\r100%\n" in outputs[1]
    assert "\ufffd\ufffd not utf-8\n" in outputs[1]
    assert len(outputs) == 3


def test_structured_output_is_a_tools_input(samples: Path, recorded: Open) -> None:
    found = messages(recorded("1.18.33", "db"), feature(samples, "1.18.33", "structured-output"))
    assert [(p.name, p.text) for m in found for p in m.parts if p.kind == "input"] == [
        ("area", "billing"), ("severity", "2"),
    ]  # fmt: skip


def test_a_prompt_that_was_never_run_is_found(samples: Path, recorded: Open) -> None:
    source = recorded("1.18.33-v2", "db")
    [message] = messages(source, feature(samples, "1.18.33-v2", "v2-never-run"))
    assert (message.role, texts(message)) == ("user", ["Remind me to rotate the keys."])


def test_queued_prompts_stay_where_they_were_answered(samples: Path, recorded: Open) -> None:
    found = messages(
        recorded("1.18.33-v2", "db"), feature(samples, "1.18.33-v2", "v2-queued")
    )  # fmt: skip
    assert [m.role for m in found] == ["user", "assistant"] * 3
    assert [texts(m)[0] for m in found if m.role == "user"] == [
        "Run the slow check.", "Also note the time it takes.", "After that, clean the cache.",
    ]  # fmt: skip
    assert found[2].created_ms < found[1].created_ms


def test_a_session_prompted_over_both_apis_is_one_conversation(
    samples: Path, recorded: Open
) -> None:
    for name in ("1.18.33-v2", "mixed"):
        found = messages(recorded(name, "db"), feature(samples, name, "v2-both-kinds"))
        assert [m.role for m in found] == ["user", "assistant"] * 3
        times = [m.created_ms for m in found]
        assert times == sorted(times)
        assert "Second question over the new API." in texts(found[2])


def test_costs_and_tokens_are_those_of_the_rows(recorded: Open, tmp_path: Path) -> None:
    source = recorded("1.18.33", "db")
    with closing(sqlite3.connect(tmp_path / "1.18.33" / "opencode.db")) as conn:
        cost, tokens = conn.execute(
            "SELECT sum(json_extract(data, '$.cost')), sum(json_extract(data, '$.tokens.input')) "
            "FROM message"
        ).fetchone()
    found = [m for key in listed(source) for m in messages(source, key)]
    assert sum(m.cost or 0 for m in found) == pytest.approx(cost)
    assert sum(m.tokens.input for m in found if m.tokens) == tokens
    assert all(m.cost is None and m.tokens is None for m in found if m.role == "user")


def test_nothing_is_lost_beside_rows_that_were_broken(recorded: Open, tmp_path: Path) -> None:
    source = recorded("1.18.33", "db")
    before = {key: [m.id for m in messages(source, key)] for key in listed(source)}
    with closing(sqlite3.connect(tmp_path / "1.18.33" / "opencode.db")) as conn, conn:
        broken = [r[0] for r in conn.execute("SELECT id FROM message ORDER BY id LIMIT 60")][::20]
        conn.executemany("UPDATE message SET data = X'FF' WHERE id = ?", [(b,) for b in broken])
    bad, left = [], {}
    for key in listed(source):
        items = read(source, key)[1]
        bad += [item.message_id for item in items if isinstance(item, BadRecord)]
        left[key] = [item.id for item in items if isinstance(item, Message)]
    assert sorted(filter(None, bad)) == broken
    assert left == {key: [i for i in ids if i not in broken] for key, ids in before.items()}
