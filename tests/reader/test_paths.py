"""Paths are compared as their own system would, on whatever system this runs."""

from __future__ import annotations

import pytest

from datasette_history.paths import comparable, expand_home, is_absolute, is_within, spellings


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"C:\repo\a.ts", "c:/repo/a.ts"),
        ("C:/repo/", r"C:\repo"),
        ("/repo/", "/repo"),
        ("/repo/./x/../a.ts", "/repo/a.ts"),
        ("//repo//a.ts", "/repo/a.ts"),
        (r"\\server\share\a", "\\\\server/share/a"),
    ],
)
def test_equal_paths_have_one_comparable_spelling(one: str, other: str) -> None:
    assert comparable(one) == comparable(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/Repo", "/repo"),
        ("C:/Repo", "C:/repo"),
        ("C:/repo", "D:/repo"),
        (r"/repo/a\b", "/repo/a/b"),
        (r"\\server\share", "/server/share"),
    ],
)
def test_different_paths_stay_different(one: str, other: str) -> None:
    assert comparable(one) != comparable(other)


def test_both_cases_of_a_drive_are_looked_for() -> None:
    assert spellings(r"c:\a") == ("C:/a", "c:/a")
    assert spellings("/a") == ("/a",)


def test_a_network_path_is_looked_for_however_it_is_spelled() -> None:
    assert spellings(r"\\server\share\a") == ("//server/share/a", "/server/share/a")
    assert spellings("//server/share//a") == ("//server/share/a", "/server/share/a")
    assert spellings("///a") == ("/a",)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a", True),
        ("C:/a", True),
        (r"c:\a", True),
        (r"\\s\a", True),
        ("a/b", False),
        ("C:", False),
    ],
)
def test_absolute_paths_of_every_system_are_known(path: str, expected: bool) -> None:
    assert is_absolute(path) is expected


@pytest.mark.parametrize(
    ("path", "directory", "expected"),
    [
        ("/repo", "/repo", True),
        ("/repo/a", "/repo", True),
        ("/repository", "/repo", False),
        ("/a", "/", True),
        ("C:/", "C:/", True),
        ("C:/a", "C:/", True),
    ],
)
def test_below_means_whole_segments(path: str, directory: str, expected: bool) -> None:
    assert is_within(comparable(path), comparable(directory)) is expected


def test_home_is_put_for_a_leading_tilde_only() -> None:
    assert expand_home("~/app", "/home/dev/") == "/home/dev/app"
    assert expand_home("~", "/home/dev") == "/home/dev"
    assert expand_home("~other/app", "/home/dev") == "~other/app"
    assert expand_home("~/app", None) == "~/app"
