"""The order of messages where times, rows and generations disagree."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync.sources.order import Header, Kind, after_parents, is_doubtful, merge, part_age


def header(name: str, at: int, position: int, kind: Kind = "v1") -> Header:
    return Header(name, kind, position, at, at, "")


def names(headers: Sequence[Header]) -> str:
    return "".join(h.id for h in headers)


def test_v1_goes_by_time_then_row() -> None:
    v1 = [header("c", 20, 1), header("b", 10, 3), header("a", 10, 2)]
    assert names(merge(v1, [])) == "abc"


def test_v2_keeps_its_sequence_whatever_the_times_say() -> None:
    v2 = [header("c", 15, 17, "v2"), header("a", 10, 3, "v2"), header("b", 20, 6, "v2")]
    assert names(merge([], v2)) == "abc"


def test_both_generations_are_merged_by_time_and_v2_wins() -> None:
    v1 = [header("a", 10, 1), header("c", 30, 2), header("e", 50, 3), header("b", 20, 4)]
    v2 = [header("b", 21, 16, "v2"), header("d", 40, 18, "v2"), header("q", 22, 20, "v2")]
    merged = merge(v1, v2)
    assert names(merged) == "abcdqe"
    assert [h.kind for h in merged] == ["v1", "v2", "v1", "v2", "v2", "v1"]


@pytest.mark.parametrize(
    ("v1", "v2", "doubtful"),
    [
        pytest.param([(10, 1), (20, 2)], [], False, id="in-order"),
        pytest.param([(20, 1), (10, 2)], [], True, id="clock-went-back"),
        pytest.param([(10, 1), (10, 2)], [], True, id="equal-times"),
        pytest.param([], [(20, 1), (10, 2)], False, id="v2-alone"),
        pytest.param([(10, 1)], [(20, 1)], True, id="both"),
    ],
)
def test_bodies_are_only_asked_where_rows_mislead(
    v1: list[tuple[int, int]], v2: list[tuple[int, int]], doubtful: bool
) -> None:
    older = [header(f"a{n}", at, row) for n, (at, row) in enumerate(v1)]
    newer = [header(f"b{n}", at, row, "v2") for n, (at, row) in enumerate(v2)]
    assert is_doubtful(older, newer) is doubtful


def test_what_v2_has_as_well_raises_no_doubt() -> None:
    assert not is_doubtful([header("a", 20, 1), header("b", 10, 2)],
                           [header("a", 20, 1, "v2"), header("b", 10, 2, "v2")])  # fmt: skip


def test_an_answer_is_moved_behind_its_question() -> None:
    headers = [header(name, 0, n) for n, name in enumerate("Ccabd")]
    parents = {"C": "a", "c": "C", "b": "a", "d": "gone"}
    assert names(after_parents(headers, parents)) == "aCcbd"


def test_circles_of_parents_lose_no_message() -> None:
    headers = [header(name, 0, n) for n, name in enumerate("abcd")]
    assert names(after_parents(headers, {"a": "b", "b": "a", "c": "c"})) == "dabc"


@given(
    st.permutations("abcdef"),
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("abcdefx")),
)
def test_no_message_is_lost_or_doubled(order: list[str], parents: dict[str, str]) -> None:
    headers = [header(name, 0, n) for n, name in enumerate(order)]
    assert sorted(names(after_parents(headers, parents))) == list("abcdef")


def test_parts_keep_their_order_where_the_clock_of_ids_wraps() -> None:
    message = "msg_fffffffff001AbCdEfGhIjKlMn"
    before, after = "prt_fffffffff002AbCdEfGhIjKlMn", "prt_000000000001AbCdEfGhIjKlMn"
    assert before > after
    assert part_age(message, before) < part_age(message, after)


@pytest.mark.parametrize("part", ["p1", "prt_x", "", "prt_12345"])
def test_ids_of_other_making_say_nothing_of_age(part: str) -> None:
    assert part_age("msg_fffffffff001AbCdEfGhIjKlMn", part) == 0
