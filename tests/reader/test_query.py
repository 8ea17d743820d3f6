"""The query syntax, piece by piece."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_history.errors import InvalidQuery
from datasette_history.folding import fold
from datasette_history.query import MAX_QUERY, MAX_WORDS, ParsedQuery, parse_query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", ParsedQuery(), id="empty"),
        pytest.param("  \t\n", ParsedQuery(), id="only-spaces"),
        pytest.param("login token", ParsedQuery(words=("login", "token")), id="words"),
        pytest.param('"a  phrase"', ParsedQuery(words=("a  phrase",)), id="phrase-keeps-spaces"),
        pytest.param("-login", ParsedQuery(excluded=("login",)), id="excluded-word"),
        pytest.param('-"two words"', ParsedQuery(excluded=("two words",)), id="excluded-phrase"),
        pytest.param("--verbose", ParsedQuery(excluded=("-verbose",)), id="second-minus-literal"),
        pytest.param('"--verbose"', ParsedQuery(words=("--verbose",)), id="quoted-minus"),
        pytest.param("non-stop", ParsedQuery(words=("non-stop",)), id="minus-inside-a-word"),
        pytest.param("path:src/auth.ts", ParsedQuery(path="src/auth.ts"), id="path"),
        pytest.param('path:"my file.ts"', ParsedQuery(path="my file.ts"), id="path-in-quotes"),
        pytest.param(r"path:C:\a\b.ts", ParsedQuery(path=r"C:\a\b.ts"), id="windows-path"),
        pytest.param("path:C:/a/b.ts", ParsedQuery(path="C:/a/b.ts"), id="windows-path-slashes"),
        pytest.param("project:prj_1", ParsedQuery(project="prj_1"), id="project"),
        pytest.param("project:all", ParsedQuery(project="all"), id="project-all"),
        pytest.param('project:"/a b"', ParsedQuery(project="/a b"), id="project-in-quotes"),
        pytest.param("error: xyz", ParsedQuery(words=("error:", "xyz")), id="colon-after-word"),
        pytest.param("http://a.b/c?d=e", ParsedQuery(words=("http://a.b/c?d=e",)), id="url"),
        pytest.param("foo:bar", ParsedQuery(words=("foo:bar",)), id="unknown-qualifier"),
        pytest.param("Path:abc", ParsedQuery(words=("Path:abc",)), id="capital-qualifier"),
        pytest.param('"path:abc"', ParsedQuery(words=("path:abc",)), id="quoted-qualifier"),
        pytest.param('-"path:abc"', ParsedQuery(excluded=("path:abc",)), id="quoted-and-excluded"),
        pytest.param("xpath:abc", ParsedQuery(words=("xpath:abc",)), id="qualifier-inside-word"),
        pytest.param("one AND two", ParsedQuery(words=("one", "AND", "two")), id="and-is-a-word"),
        pytest.param("(one two)", ParsedQuery(words=("(one", "two)")), id="no-parentheses"),
        pytest.param('print("x")', ParsedQuery(words=('print("x")',)), id="quotes-inside-a-word"),
        pytest.param(r"C:\repo\a.ts", ParsedQuery(words=(r"C:\repo\a.ts",)), id="backslashes"),
        pytest.param('"one"two three', ParsedQuery(words=("one", "two", "three")), id="no-space"),
        pytest.param("Login LOGIN login", ParsedQuery(words=("Login",)), id="case-counts-once"),
        pytest.param('Straße "STRAẞE"', ParsedQuery(words=("Straße",)), id="unicode-case"),
        pytest.param("-Abc -ABC", ParsedQuery(excluded=("Abc",)), id="excluded-once"),
        pytest.param("abc -ABC", ParsedQuery(words=("abc",), excluded=("ABC",)), id="both"),
        pytest.param("日本語", ParsedQuery(words=("日本語",)), id="three-code-points"),
        pytest.param("😀😀😀", ParsedQuery(words=("😀😀😀",)), id="three-emoji"),
        pytest.param(
            'one path:a.ts -two project:p "three four"',
            ParsedQuery(words=("one", "three four"), excluded=("two",), path="a.ts", project="p"),
            id="everything",
        ),
    ],
)
def test_a_query_is_parsed_into_its_pieces(text: str, expected: ParsedQuery) -> None:
    assert parse_query(text) == expected


@pytest.mark.parametrize(
    ("text", "piece", "message"),
    [
        pytest.param('"open', '"open', "unclosed quote", id="unclosed-quote"),
        pytest.param('one -"open end', '-"open end', "unclosed quote", id="unclosed-exclusion"),
        pytest.param('path:"open', 'path:"open', "unclosed quote", id="unclosed-qualifier"),
        pytest.param("ab", "'ab'", "shorter than 3", id="short-word"),
        pytest.param("long -ab", "'-ab'", "shorter than 3", id="short-exclusion"),
        pytest.param('"ab"', "'\"ab\"'", "shorter than 3", id="short-phrase"),
        pytest.param('""', "'\"\"'", "shorter than 3", id="empty-phrase"),
        pytest.param("-", "'-'", "shorter than 3", id="lone-minus"),
        pytest.param("😀😀", "'😀😀'", "shorter than 3", id="two-emoji-are-four-utf16-units"),
        pytest.param("path:", "'path:'", "is empty", id="empty-path"),
        pytest.param("path: a.ts", "'path:'", "is empty", id="space-after-path"),
        pytest.param('project:""', "'project:\"\"'", "is empty", id="empty-project"),
        pytest.param('project:"  "', "'project:\"  \"'", "is empty", id="blank-project"),
        pytest.param("path:a path:b", "'path:b'", "only one path:", id="two-paths"),
        pytest.param("path:a path:a", "'path:a'", "only one path:", id="the-same-path-twice"),
        pytest.param("project:a project:b", "'project:b'", "only one project:", id="two-projects"),
        pytest.param("-path:a.ts", "'-path:a.ts'", "cannot be negated", id="negated-path"),
        pytest.param("-project:p", "'-project:p'", "cannot be negated", id="negated-project"),
        pytest.param("path:src/", "'path:src/'", "names a folder", id="folder"),
    ],
)
def test_a_wrong_query_is_an_error_that_names_the_piece(
    text: str, piece: str, message: str
) -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse_query(text)
    assert piece in str(caught.value)
    assert message in str(caught.value)


def test_a_query_has_a_longest_length() -> None:
    assert parse_query("x" * MAX_QUERY).words == ("x" * MAX_QUERY,)
    with pytest.raises(InvalidQuery, match="4001 characters, more than the 4000 allowed"):
        parse_query("x" * (MAX_QUERY + 1))


def test_a_query_has_a_largest_number_of_words() -> None:
    words = [f"word{number}" for number in range(MAX_WORDS)]
    assert parse_query(" ".join(words)).words == tuple(words)
    # The same word in another case is no further one.
    assert parse_query(" ".join([*words, "WORD1"])).words == tuple(words)
    with pytest.raises(InvalidQuery, match="33 words, more than the 32 allowed"):
        parse_query(" ".join([*words, "-another"]))


def test_an_error_shows_only_the_beginning_of_a_long_piece() -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse_query('"' + "x" * 3000)
    assert len(str(caught.value)) < 200


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=3), max_size=8))
def test_quoted_phrases_come_back_as_they_are(phrases: list[str]) -> None:
    phrases = [phrase.replace('"', "'") for phrase in phrases]
    parsed = parse_query(" ".join(f'"{phrase}"' for phrase in phrases))
    assert [fold(word) for word in parsed.words] == list(dict.fromkeys(map(fold, phrases)))


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused_as_a_query(text: str) -> None:
    with suppress(InvalidQuery):
        parsed = parse_query(text)
        assert all(len(word) >= 3 for word in (*parsed.words, *parsed.excluded))
