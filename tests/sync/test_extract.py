"""From a message to its document: text, spans, own words and edited paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync.extract import end_user, message_document, title_document
from sync.model import FileEdit, Part
from tests.builders import T0, assistant, message, session, synthetic, text, tool, user


def spans(document: object) -> list[tuple[str, str]]:
    return [
        (span.part.kind, document.text[span.start : span.start + span.length])  # type: ignore[attr-defined]
        for span in document.spans  # type: ignore[attr-defined]
    ]


def test_own_words_come_first_and_parts_keep_their_order() -> None:
    document = message_document(
        user("m1", synthetic("read the file"), text("fix"), synthetic("done"), text("it")), None
    )
    assert document.text == "fix\nit\nread the file\ndone"
    assert document.text[: document.own_length] == "fix\nit"
    assert spans(document) == [
        ("synthetic", "read the file"),
        ("text", "fix"),
        ("synthetic", "done"),
        ("text", "it"),
    ]


def test_a_message_of_synthetic_text_alone_has_no_own_words() -> None:
    document = message_document(user("m1", synthetic("only this")), None)
    assert (document.text, document.own_length) == ("only this", 0)


def test_empty_parts_add_no_separator() -> None:
    document = message_document(
        assistant("m1", text(""), text("a"), tool("bash", command="", output="b"), text("")), None
    )
    assert document.text == "a\nbash\nb"
    assert [length for _, length in [(s.start, s.length) for s in document.spans]] == [
        0, 1, 4, 0, 1, 0,
    ]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.text(
                alphabet=st.characters(exclude_categories=[])
                | st.sampled_from(["\ud800", "\udfff", "\x00"])
            ),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_every_span_is_its_part_and_every_text_can_be_stored(
    pieces: list[tuple[str, bool]],
) -> None:
    parts = [Part(kind="text", text=content, own=own) for content, own in pieces]
    document = message_document(user("m1", *parts), None)
    document.text.encode("utf-8")
    assert "\x00" not in document.text
    for span, (content, own) in zip(document.spans, pieces, strict=True):
        found = document.text[span.start : span.start + span.length]
        assert len(found) == len(content)
        assert [a for a, b in zip(found, content, strict=True) if a != b] == ["\ufffd"] * sum(
            a != b for a, b in zip(found, content, strict=True)
        )
        if content:
            assert (span.start + span.length <= document.own_length) == own


@pytest.mark.parametrize(
    ("edits", "paths"),
    [
        pytest.param(
            [FileEdit("src/a.ts", "edit")],
            [("/home/dev/app/src/a.ts", "a.ts", "edit")],
            id="relative",
        ),
        pytest.param(
            [FileEdit("/x/a.ts", None), FileEdit("/x/a.ts", "write"), FileEdit("/x/a.ts", None)],
            [("/x/a.ts", "a.ts", "write")],
            id="a-tool-over-a-snapshot",
        ),
        pytest.param(
            [FileEdit("a.ts", "edit"), FileEdit("/home/dev/app/a.ts", None)],
            [("/home/dev/app/a.ts", "a.ts", "edit")],
            id="relative-and-absolute-are-one",
        ),
        pytest.param([FileEdit("", "edit")], [], id="no-path"),
        pytest.param(
            [FileEdit("/x/\x00.ts", "edit")], [("/x/\ufffd.ts", "\ufffd.ts", "edit")], id="nul"
        ),
    ],
)
def test_edited_paths(edits: list[FileEdit], paths: list[tuple[str, str, str | None]]) -> None:
    document = message_document(assistant("m1", "x", edits=edits), "/home/dev/app")
    assert [(p.path, p.basename, p.tool) for p in document.paths] == paths


def test_without_a_directory_a_relative_path_stays_relative() -> None:
    document = message_document(assistant("m1", "x", edits=[FileEdit("src/a.ts", "edit")]), None)
    assert [p.path for p in document.paths] == ["src/a.ts"]


def test_a_title_is_dated_by_the_last_activity() -> None:
    document = title_document(session("s1", "bad \ud800 title", updated_ms=T0 + 5))
    assert (document.message_id, document.role, document.timestamp) == ("", "title", T0 + 5)
    assert (document.text, document.own_length) == ("bad \ufffd title", 11)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("[ada] Fix the login", "ada"),
        ("  [ada lovelace] x", "ada lovelace"),
        ("[ada]", None),
        ("[] x", None),
        ("[ ] buy milk", None),
        ("arr[0] = 1", None),
        ("[a\nb] x", None),
        ("[" + "a" * 101 + "] x", None),
    ],
)
def test_the_end_user_of_a_title(title: str, name: str | None) -> None:
    assert end_user(title) == name


def test_no_message_passes_for_a_title() -> None:
    document = message_document(message("m1", "title", "words"), None)
    assert (document.role, document.text) == ("unknown", "words")
