"""Paths as tools name them, without a file system."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync.paths import absolute_path, basename, patch_paths, uri_basename

APP = "/home/dev/app"


@pytest.mark.parametrize(
    ("path", "directory", "expected"),
    [
        ("src/a.ts", APP, "/home/dev/app/src/a.ts"),
        ("./src/../a.ts", APP, "/home/dev/app/a.ts"),
        ("../../../../x", APP, "/x"),
        ("/x//y/./z/", APP, "/x/y/z"),
        ("src/a.ts", None, "src/a.ts"),
        ("./a.ts", None, "a.ts"),
        ("../a.ts", None, "../a.ts"),
        ("", APP, "/home/dev/app"),
        ("", None, ""),
        ("C:\\repo\\src\\..\\a.ts", APP, "C:/repo/a.ts"),
        ("c:/repo/a.ts", None, "c:/repo/a.ts"),
        ("C:\\..\\..\\a.ts", None, "C:/a.ts"),
        ("\\\\server\\share\\a\\..\\b.ts", None, "//server/share/b.ts"),
        ("src\\a.ts", "C:\\repo", "C:/repo/src/a.ts"),
        ("src/a.ts", "C:/repo", "C:/repo/src/a.ts"),
        ("..\\a.ts", "\\\\server\\share\\app", "//server/share/a.ts"),
        ("od\\d.ts", APP, "/home/dev/app/od\\d.ts"),
        ("日本.md", APP, "/home/dev/app/日本.md"),
    ],
)
def test_a_path_is_joined_to_the_sessions_directory(
    path: str, directory: str | None, expected: str
) -> None:
    assert absolute_path(path, directory) == expected


@given(
    st.text(alphabet="abC:./\\ "),
    st.sampled_from([APP, "C:\\repo", "\\\\server\\share", None, "relative"]),
)
def test_an_absolute_path_made_absolute_again_is_the_same(path: str, directory: str | None) -> None:
    once = absolute_path(path, directory)
    if once.startswith("/") or once[1:3] == ":/":
        assert absolute_path(once, directory) == once


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/dev/a.ts", "a.ts"),
        ("a.ts", "a.ts"),
        ("/home/dev/", "dev"),
        ("C:\\repo\\a.ts", "a.ts"),
        ("C:/repo/a.ts", "a.ts"),
        ("/home/od\\d.ts", "od\\d.ts"),
        ("/", ""),
        ("", ""),
    ],
)
def test_the_last_part_of_a_path(path: str, expected: str) -> None:
    assert basename(path) == expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///home/dev/app/login.mjs?start=4&end=6", "login.mjs"),
        ("file:///home/dev/docs/", "docs"),
        ("file:///home/a%20b%C3%A9.md", "a bé.md"),
        ("https://example.com/shots/one.png#top", "one.png"),
        ("https://example.com", "example.com"),
        ("src/login.mjs", "login.mjs"),
        ("C:\\shots\\one.png", "one.png"),
        ("data:image/png;base64,AAAA/BBBB", ""),
        ("http://[broken", ""),
        ("", ""),
    ],
)
def test_the_file_name_in_a_uri(uri: str, expected: str) -> None:
    assert uri_basename(uri) == expected


def test_a_patch_names_its_files_in_its_headers() -> None:
    patch = (
        "*** Begin Patch\r\n*** Update File: src/a.ts\r\n*** Move to: src/b c.ts\r\n@@\n"
        "-*** Add File: not.ts\n+*** Delete File: not-either.ts\n"
        "*** Add File:   docs/日本.md  \n+x\n*** Delete File: C:\\old.ts\n*** Update File:\n"
        "*** End Patch"
    )
    assert patch_paths(patch) == ["src/a.ts", "src/b c.ts", "docs/日本.md", "C:\\old.ts"]


def test_a_header_of_blanks_takes_no_longer_than_another() -> None:
    path = "a" + " " * 200_000 + "b"
    assert patch_paths(f"*** Begin Patch\n*** Add File: \t{path} \t\r\n+x\n*** End Patch") == [path]
