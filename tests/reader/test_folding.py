"""Case folding agrees with SQLite's, and excerpts are cut where they should be."""

from __future__ import annotations

import sqlite3
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_history.excerpts import clip, clip_utf16, excerpt, find
from datasette_history.folding import fold, variants
from datasette_history.postings import phrase


def index_of(texts: dict[int, str]) -> sqlite3.Connection:
    conn = sqlite3.connect(":memory:")
    conn.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='trigram case_sensitive 0')")
    conn.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", texts.items())
    return conn


def cased_letters() -> list[str]:
    """Every letter that has another case in this Python's Unicode tables."""
    letters = map(chr, range(0x80, 0x110000))
    return [c for c in letters if unicodedata.category(c)[0] == "L" and fold(c) != c]


def test_the_index_finds_every_letter_in_its_other_case() -> None:
    letters = [c for c in cased_letters() if len(c.casefold()) == 1]
    conn = index_of({ord(c): f"<{c}>" for c in letters})
    lost = {
        c
        for c in letters
        for word in (f"<{c}>", f"<{fold(c)}>")
        if not conn.execute(
            "SELECT 1 FROM t WHERE t MATCH ? AND rowid = ?", (phrase(word), ord(c))
        ).fetchone()
    }
    # Nine old forms of Cyrillic letters, which fold to letters of every Russian word.
    assert lost <= {chr(c) for c in range(0x1C80, 0x1C89)}


def test_ordinary_words_have_one_variant_only() -> None:
    for word in ("login", "Größe", "ПРИВЕТ", "Ελλάδα", "日本語", "ﬁle", "İstanbul"):
        assert variants(word) == (word,)


def test_words_with_letters_that_the_index_cannot_fold_come_in_every_case() -> None:
    assert variants("ᲐᲑაბ") == ("ᲐᲑაბ", "აბაბ", "ᲐᲑᲐᲑ", "Აბაბ")


@given(st.text())
def test_folding_keeps_every_position(text: str) -> None:
    assert len(fold(text)) == len(text)
    assert fold(text) == "".join(map(fold, text))
    assert fold(fold(text)) == fold(text)


@given(st.text(), st.text(min_size=1))
def test_a_word_is_found_where_it_stands(before: str, word: str) -> None:
    at = find(before + word, word.swapcase() if fold(word.swapcase()) == fold(word) else word)
    assert 0 <= at <= len(before)


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        pytest.param("short text", "TEXT", "short text", id="short"),
        pytest.param("x" * 20, "x", "x" * 20, id="exactly-as-long"),
        pytest.param("word" + "y" * 100, "word", "word" + "y" * 15 + "…", id="at-the-start"),
        pytest.param("y" * 100 + "word", "word", "…" + "y" * 15 + "word", id="at-the-end"),
        pytest.param(
            "y" * 100 + "word" + "y" * 100,
            "WORD",
            "…" + "y" * 7 + "word" + "y" * 7 + "…",
            id="in-the-middle",
        ),
        pytest.param("y" * 50 + "z" * 50, "z" * 50, "…" + "z" * 18 + "…", id="longer-than-it"),
        pytest.param("y" * 100, "absent", "y" * 19 + "…", id="not-there"),
        pytest.param("ß" * 100 + "ẞab", "ßAB", "…" + "ß" * 16 + "ẞab", id="unicode-case"),
    ],
)
def test_an_excerpt_shows_the_match_and_marks_what_is_cut(
    text: str, word: str, expected: str
) -> None:
    assert excerpt(text, word, 20) == expected


@given(st.text(), st.text(min_size=3, max_size=30), st.text())
def test_an_excerpt_is_never_too_long_and_holds_the_match(
    before: str, word: str, after: str
) -> None:
    text = before * 3 + word + after * 3
    shown = excerpt(text, word, 40)
    assert len(shown) <= 40
    assert fold(word) in fold(shown)
    assert shown.strip("…") in text or "…" in text


@pytest.mark.parametrize(
    ("text", "units", "expected"),
    [
        pytest.param("abc", 3, ("abc", False), id="fits"),
        pytest.param("abcd", 3, ("abc", True), id="cut"),
        pytest.param("a😀b", 4, ("a😀b", False), id="a-pair-fits"),
        pytest.param("a😀b", 3, ("a😀", True), id="behind-a-pair"),
        pytest.param("a😀b", 2, ("a", True), id="inside-a-pair"),
        pytest.param("", 100, ("", False), id="empty"),
    ],
)
def test_text_is_cut_by_utf16_units_and_never_inside_a_pair(
    text: str, units: int, expected: tuple[str, bool]
) -> None:
    assert clip_utf16(text, units) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 20))
def test_cut_text_is_the_longest_beginning_that_fits(text: str, units: int) -> None:
    cut, truncated = clip_utf16(text, units)
    assert text.startswith(cut)
    assert truncated == (cut != text)
    assert len(cut.encode("utf-16-le")) // 2 <= units
    if truncated:
        assert len(text[: len(cut) + 1].encode("utf-16-le")) // 2 > units


def test_a_prompt_is_cut_by_code_points() -> None:
    assert clip("😀" * 301) == ("😀" * 300, True)
    assert clip("😀" * 300) == ("😀" * 300, False)
