"""Values out of JSON that may hold anything, and texts fit to be stored."""

from __future__ import annotations

import base64
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync.values import (
    clean,
    decode_json,
    filled,
    integer,
    mapping,
    number,
    quantity,
    sequence,
    shrink,
    size_text,
    string,
    time_ms,
)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(ANYTHING)
def test_no_getter_raises_whatever_it_is_given(value: object) -> None:
    for getter in (mapping, sequence, string, filled, integer, quantity, number, time_ms):
        getter(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        (5.0, 5),
        (5.5, None),
        (True, None),
        ("5", None),
        (1 << 63, None),
        (-(1 << 63) + 1, -(1 << 63) + 1),
        (float("nan"), None),
        (float("inf"), None),
        (None, None),
    ],
)
def test_an_integer_is_a_whole_number_that_sqlite_can_store(
    value: object, expected: int | None
) -> None:
    assert integer(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 0.5),
        (2, 2.0),
        (False, None),
        ("0.5", None),
        (float("-inf"), None),
        (10**400, None),
    ],
)
def test_a_number_is_finite(value: object, expected: float | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1796086800000, 1796086800000),
        (1796086800000.7, 1796086800000),
        (0, 0),
        (-1, None),
        (253_402_300_800_000, None),
        (float("nan"), None),
        ("2026-12-01", None),
    ],
)
def test_a_time_lies_between_1970_and_the_year_9999(value: object, expected: int | None) -> None:
    assert time_ms(value) == expected


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        pytest.param(b'{"a": [1, "\xc3\xa9"]}', {"a": [1, "é"]}, id="plain"),
        pytest.param('{"a": "\\ud83d x"}', {"a": "\ud83d x"}, id="lone-surrogate"),
        pytest.param(b'"\\ud83d\\ude00"', "😀", id="surrogate-pair"),
        pytest.param("[NaN, Infinity, -Infinity, 1]", [None, None, None, 1], id="nan"),
        pytest.param(b"\xef\xbb\xbf{}", {}, id="byte-order-mark"),
        pytest.param('"\\u0000"', "\x00", id="nul"),
    ],
)
def test_json_is_decoded(raw: bytes | str, value: object) -> None:
    assert decode_json(raw) == value


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b'{"a": ', "not JSON: Expecting value: line 1 column 7", id="cut"),
        pytest.param(b"", "not JSON: Expecting value: line 1 column 1", id="empty"),
        pytest.param(b'"\xff\xfe"', "not UTF-8 at byte 1", id="not-utf-8"),
        pytest.param(b"[" * 200_000, "nested too deep", id="deep"),
        pytest.param("{} {}", "not JSON: Extra data", id="two"),
    ],
)
def test_what_is_no_json_is_refused_with_a_reason(raw: bytes | str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_json(raw)


@given(st.text(alphabet=st.characters() | st.sampled_from("\x00\ud800\udbff\udc00\udfff")))
def test_clean_text_can_be_stored_and_keeps_its_length(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\x00" not in cleaned
    assert len(cleaned) == len(text)
    assert all(
        a == b or (a == "\ufffd" and (b == "\x00" or "\ud800" <= b <= "\udfff"))
        for a, b in zip(cleaned, text, strict=True)
    )


BINARY = bytes(range(256)) * 48
ENCODED = base64.b64encode(BINARY).decode()
"""12,288 bytes."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"see data:image/png;base64,{ENCODED} here", "see [image/png, 12.3 kB] here", id="image"
        ),
        pytest.param(
            "data:text/plain;charset=utf-8;base64,SGVsbG8=", "[text/plain, 5 B]", id="parameters"
        ),
        pytest.param(
            '<img src="data:image/gif;base64,R0lGODlhAQ==">',
            '<img src="[image/gif, 7 B]">',
            id="html",
        ),
        pytest.param(
            "data:image/svg+xml," + "%3C" * 400, "[image/svg+xml, 1.2 kB]", id="not-base64"
        ),
        pytest.param("data:text/html,<b>hi</b>", "data:text/html,<b>hi</b>", id="short-text"),
        pytest.param("the data: none, metadata:x/y", "the data: none, metadata:x/y", id="words"),
        pytest.param(f"key={ENCODED}\nend", "key=[base64, 12.3 kB]\nend", id="base64"),
        pytest.param("ab12" * 200, "ab12" * 200, id="hex"),
        pytest.param("a" * 5000, "a" * 5000, id="one-letter"),
        pytest.param("/usr/Local/lib64" * 10, "/usr/Local/lib64" * 10, id="path"),
        pytest.param(
            "aB3x" * 127 + " " + "aB3x" * 127, "aB3x" * 127 + " " + "aB3x" * 127, id="short-runs"
        ),
        pytest.param("aB3x" * 128, "[base64, 384 B]", id="just-long-enough"),
        pytest.param(
            "議" * 600 + "aB3x" * 128 + "議", "議" * 600 + "[base64, 384 B]議", id="between"
        ),
    ],
)
def test_encoded_data_becomes_its_kind_and_size(text: str, expected: str) -> None:
    assert shrink(text) == expected


@given(st.integers(0, 2000), st.integers(512, 1500), st.sampled_from([" ", "\n", "é", '"']))
def test_a_long_run_is_found_wherever_it_stands(before: int, length: int, separator: str) -> None:
    run = ("aB3x" * 400)[:length]
    text = "w" * before + separator + run + separator
    assert shrink(text) == (
        "w" * before + separator + f"[base64, {size_text(length * 3 // 4)}]" + separator
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x1Y" * 170 + " ", id="runs-just-too-short"),
        pytest.param("data:", id="no-uri"),
        pytest.param("data:a/b;x=1", id="parameters-without-end"),
        pytest.param("abcdefgh/" * 50, id="path"),
    ],
)
def test_shrinking_takes_time_in_proportion_to_the_text(text: str) -> None:
    def seconds(size: int) -> float:
        whole = (text * (size // len(text) + 1))[:size]
        best = 9.0
        for _ in range(3):
            began = time.perf_counter()
            shrink(whole)
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(1_600_000) < 100 * max(seconds(100_000), 1e-4)


@pytest.mark.parametrize(
    ("size", "expected"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345_678, "12.3 MB")]
)
def test_sizes_are_told_in_decimal_units(size: int, expected: str) -> None:
    assert size_text(size) == expected


def test_random_bytes_never_survive_as_base64() -> None:
    encoded = base64.b64encode(os.urandom(3000)).decode()
    assert shrink(f"before {encoded} after") == "before [base64, 3.0 kB] after"
