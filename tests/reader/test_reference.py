"""The searches give what a slow, plain matcher gives, on whichever plan they take."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_history.dates import DateRange
from datasette_history.edits import search_edits
from datasette_history.matching import Criteria, PathFilter
from datasette_history.results import Scope
from datasette_history.scope import resolve
from datasette_history.search import search_messages, search_projects, search_sessions
from sync.model import FileEdit, Message, Part, SessionCopy
from tests.builders import T0, copy, fill, message, session, tool
from tests.reader.reference import Question, Reference

RARE = (0, 1, 3, 3_000)
"""None of the words looked up whole, few, some, all."""

HOUR = 3_600_000
PROJECTS = ("one", "two", "global", None)
DIRECTORIES = ("/w/app", "/w/app/sub", "/w/apple", "/w", None)
PATHS = ("a.ts", "src/a.ts", "/w/app/src/a.ts", "/w/app/b.ts", "/other/src/a.ts")

# Few and short pieces, so that words often match, and often in several places.
pieces = st.sampled_from(["aab", "AAB", "éBa", "baÉ", "b", " "])
texts = st.lists(pieces, max_size=3).map("".join)
words = st.sampled_from(["aab", "AaB", "ÉbA", "baé", "bba", "aba", "zzz", 'b"a'])
times = st.integers(0, 5).map(lambda number: T0 + number // 2 * HOUR + number % 2)


@st.composite
def messages(draw: Callable[..., Any], number: int) -> Message:
    parts: list[Any] = draw(st.lists(texts, max_size=2))
    if draw(st.booleans()):
        parts.append(
            Part(
                kind=draw(st.sampled_from(["synthetic", "text", "summary"])),
                text=draw(texts),
                own=False,
            )
        )
    if draw(st.booleans()):
        parts.append(tool("edit", output=draw(texts), newString=draw(texts)))
    edits = draw(st.lists(st.sampled_from(PATHS), max_size=2, unique=True))
    return message(
        f"msg_{number}",
        draw(st.sampled_from(["user", "assistant", "shell"])),
        *draw(st.permutations(parts)),
        at=draw(times),
        edits=[FileEdit(path, draw(st.sampled_from(["edit", "write", None]))) for path in edits],
    )


@st.composite
def sessions(draw: Callable[..., Any], number: int) -> SessionCopy:
    return copy(
        session(
            f"ses_{number}",
            draw(texts),
            at=draw(times),
            # Older than its messages: those of a fork are grouped, which is tested elsewhere.
            created_ms=T0,
            project_id=draw(st.sampled_from(PROJECTS)),
            directory=draw(st.sampled_from(DIRECTORIES)),
        ),
        *(draw(messages(n)) for n in range(draw(st.integers(0, 4)))),
    )


histories = st.integers(0, 5).flatmap(lambda n: st.tuples(*(sessions(i) for i in range(n))))
questions = st.builds(
    Question,
    words=st.lists(words, max_size=2, unique_by=str.lower).map(tuple),
    excluded=st.lists(words, max_size=1).map(tuple),
    path=st.none() | st.sampled_from(["a.ts", "src/a.ts", "rc/a.ts", *PATHS[2:]]),
    role=st.none() | st.sampled_from(["user", "assistant"]),
    dates=st.none() | st.tuples(times, times).map(lambda pair: (min(pair), max(pair))),
    projects=st.none() | st.sampled_from([("one",), ("two", "global"), ("absent",)]),
    directory=st.none() | st.sampled_from(["/w/app", "/w", "/nowhere"]),
)


def scope_of(conn: sqlite3.Connection, question: Question) -> Scope:
    if question.directory is not None:
        return resolve(conn, project=question.directory, directory=None, home=None)
    return Scope(projects=question.projects)


def criteria_of(conn: sqlite3.Connection, question: Question, *, dated: bool = True) -> Criteria:
    dates = question.dates if dated else None
    return Criteria(
        scope=scope_of(conn, question),
        words=question.words,
        excluded=question.excluded,
        path=PathFilter.of(question.path, None) if question.path else None,
        role=question.role,
        dates=DateRange(dates[0], dates[1] + 1) if dates else None,
    )


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories, questions, st.integers(1, 6))
def test_every_search_agrees_with_the_plain_matcher(
    history: tuple[SessionCopy, ...], question: Question, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = fill(Path(folder) / "history.db", *history)
        with closing(sqlite3.connect(path)) as conn:
            expected = Reference(conn, question)
            criteria = criteria_of(conn, question)
            for rare in RARE:
                agree_on_sessions(conn, criteria, expected, limit, rare)
                undated = criteria_of(conn, question, dated=False)
                agree_on_edits(conn, undated, criteria.dates, expected, limit, rare)


def agree_on_sessions(
    conn: sqlite3.Connection, criteria: Criteria, expected: Reference, limit: int, rare: int
) -> None:
    listed = search_sessions(conn, criteria, limit, rare=rare)
    assert [s.id for s in listed.sessions] == expected.session_ids()[:limit]
    assert listed.has_more == (len(expected.session_ids()) > limit)
    projects = search_projects(conn, criteria, limit, rare=rare)
    assert [(p.project_id, p.sessions) for p in projects.projects] == expected.projects()[:limit]
    found = search_messages(conn, criteria, limit, rare=rare)
    assert [
        (one.session.id, [(hit.word, hit.message_id, hit.role) for hit in one.hits])
        for one in found.sessions
    ] == expected.messages()[:limit]
    assert found.has_more == listed.has_more


def agree_on_edits(
    conn: sqlite3.Connection,
    criteria: Criteria,
    dates: DateRange | None,
    expected: Reference,
    limit: int,
    rare: int,
) -> None:
    found = search_edits(conn, criteria, limit, dates=dates, rare=rare)
    wanted = expected.found_edits()
    assert found.has_more == (len(wanted) > limit)
    assert [
        (e.session.id, e.message_id, e.path, e.tool, e.first, e.prompt_message_id, e.prompt)
        for e in found.edits
    ] == [
        (
            e["session_id"], e["message_id"], e["path"], e["tool"], e["first"], e["prompt_id"],
            e["prompt"],
        )
        for e in wanted[:limit]
    ]  # fmt: skip
