"""When sessions are refreshed, on a clock that the tests turn."""

from __future__ import annotations

import threading

import pytest

from sync.schedule import Schedule


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def schedule(clock: Clock) -> Schedule:
    return Schedule(clock, lambda: 1.0)


def taken(schedule: Schedule) -> list[str]:
    """Take and finish whatever is due."""
    found = []
    while (session_id := schedule.take()) is not None:
        found.append(session_id)
        schedule.done(session_id)
    return found


def test_a_marked_session_is_due_at_once_and_once(schedule: Schedule) -> None:
    schedule.mark(["a"])
    schedule.mark(["a"])
    assert taken(schedule) == ["a"]
    assert taken(schedule) == []


def test_sessions_come_in_the_order_in_which_they_were_marked(schedule: Schedule) -> None:
    schedule.mark(["newest", "newer"])
    schedule.mark(["old"])
    assert taken(schedule) == ["newest", "newer", "old"]


def test_changes_that_keep_coming_give_one_refresh_a_second(
    schedule: Schedule, clock: Clock
) -> None:
    refreshes = 0
    for _ in range(100):
        schedule.mark(["a"])
        refreshes += len(taken(schedule))
        clock.now += 0.05
    assert refreshes == 5


@pytest.mark.parametrize(("events", "sessions", "seconds"), [(10_000, 7, 3), (10_000, 400, 1)])
def test_a_burst_gives_no_more_refreshes_than_sessions_times_seconds(
    schedule: Schedule, clock: Clock, events: int, sessions: int, seconds: int
) -> None:
    refreshes: list[str] = []
    for number in range(events):
        schedule.mark([f"s{number % sessions}"])
        clock.now += seconds / events
        refreshes += taken(schedule)
    assert len(refreshes) <= sessions * seconds
    clock.now += 1
    refreshes += taken(schedule)
    assert set(refreshes) == {f"s{number}" for number in range(sessions)}


def test_a_change_during_a_refresh_brings_another(schedule: Schedule, clock: Clock) -> None:
    schedule.mark(["a"])
    assert schedule.take() == "a"
    schedule.mark(["a"])
    assert schedule.take() is None
    schedule.done("a")
    assert schedule.take() is None
    clock.now += 1
    assert taken(schedule) == ["a"]


def test_a_long_refresh_does_not_hold_up_the_next(schedule: Schedule, clock: Clock) -> None:
    schedule.mark(["a", "b"])
    assert schedule.take() == "a"
    assert schedule.take() == "b"
    schedule.done("b")
    clock.now += 30
    schedule.mark(["a", "b"])
    assert schedule.take() == "b"
    schedule.done("a")
    assert schedule.take() == "a"


def test_retries_back_off_to_ten_minutes_whatever_is_marked(
    schedule: Schedule, clock: Clock
) -> None:
    schedule.mark(["a"])
    assert schedule.take() == "a"
    delays = []
    for count in range(1, 12):
        assert schedule.failed("a") == count
        failed_at = clock.now
        while schedule.take() is None:
            schedule.mark(["a"])
            clock.now += 1
        delays.append(clock.now - failed_at)
    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]


def test_a_success_ends_the_back_off(schedule: Schedule, clock: Clock) -> None:
    schedule.mark(["a"])
    for _ in range(3):
        clock.now += 600
        assert schedule.take() == "a"
        schedule.failed("a")
    clock.now += 600
    assert schedule.take() == "a"
    schedule.done("a")
    clock.now += 1
    schedule.mark(["a"])
    assert schedule.take() == "a"
    assert schedule.failed("a") == 1


def test_a_failing_session_does_not_hold_up_others(schedule: Schedule) -> None:
    schedule.mark(["bad", "good"])
    assert schedule.take() == "bad"
    schedule.failed("bad")
    assert taken(schedule) == ["good"]


def test_nothing_is_remembered_of_sessions_that_are_quiet(schedule: Schedule, clock: Clock) -> None:
    schedule.mark(f"s{number}" for number in range(100))
    taken(schedule)
    clock.now += 2
    assert schedule.take() is None
    assert schedule._entries == {}
    assert schedule._queue == []


@pytest.mark.parametrize("wake", ["mark", "close"])
def test_a_mark_and_a_close_wake_those_who_wait(wake: str) -> None:
    schedule = Schedule()
    waiter = threading.Thread(target=schedule.wait, args=(20,))
    waiter.start()
    if wake == "mark":
        schedule.mark(["a"])
    else:
        schedule.close()
    waiter.join(10)
    assert not waiter.is_alive()
