"""What is searched: by project, by path, by working directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from datasette_history.errors import InvalidInput
from sync.index import Index
from sync.model import Project
from tests.builders import copy, session
from tests.reader.conftest import History

Make = Callable[..., History]

PLACES = {
    # One repository with two worktrees and a subdirectory.
    "main": ("app", "/home/dev/app"),
    "sub": ("app", "/home/dev/app/lib"),
    "worktree": ("app", "/tmp/worktrees/app-1"),
    # Another one, whose path begins with the same letters, and one inside of the first.
    "similar": ("apple", "/home/dev/apple"),
    "inner": ("inner", "/home/dev/app/vendor/inner"),
    # Directories without git share the project "global"; some sessions have no project.
    "notes": ("global", "/home/dev/notes"),
    "notes-sub": ("global", "/home/dev/notes/2026"),
    "scripts": ("global", "/home/dev/scripts"),
    "loose": (None, "/home/dev/loose"),
    "nowhere": (None, None),
    "windows": ("win", r"C:\Users\dev\app"),
}


@pytest.fixture
def places(history: Make) -> History:
    return history(
        *(
            copy(session(name, "alpha", project_id=project, directory=directory))
            for name, (project, directory) in PLACES.items()
        )
    )


APP = {"main", "sub", "worktree"}


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        pytest.param("app", APP, id="id"),
        pytest.param("APP", set(), id="ids-are-exact"),
        pytest.param("global", {"notes", "notes-sub", "scripts"}, id="the-shared-id"),
        pytest.param("absent", set(), id="unknown-id"),
        pytest.param("all", set(PLACES), id="all"),
        pytest.param("/home/dev/app/lib", APP, id="path-selects-all-worktrees"),
        pytest.param("/home/dev/app", APP | {"inner"}, id="path-and-below"),
        pytest.param("/home/dev/app/", APP | {"inner"}, id="trailing-slash"),
        pytest.param("/home/dev/ap", set(), id="whole-segments-only"),
        pytest.param("~/app/vendor", {"inner"}, id="home"),
        pytest.param("/home/dev/notes", {"notes", "notes-sub"}, id="only-here-without-git"),
        pytest.param("/home/dev/notes/2026", {"notes-sub"}, id="below-without-git"),
        pytest.param("/home/dev/loose", {"loose"}, id="without-a-project"),
        pytest.param("/tmp", APP, id="above-a-worktree"),
        pytest.param("/", set(PLACES) - {"nowhere", "windows"}, id="root"),
        pytest.param("/nowhere", set(), id="unknown-path"),
        pytest.param(r"c:\users\dev", set(), id="windows-case"),
        pytest.param(r"c:\Users\dev", {"windows"}, id="windows"),
        pytest.param("C:/Users/dev/app", {"windows"}, id="windows-slashes"),
    ],
)
def test_a_project_is_an_id_a_path_or_all(
    places: History, project: str, expected: set[str]
) -> None:
    assert set(places.found(f'alpha project:"{project}"')) == expected
    assert set(places.found("alpha", project=project)) == expected


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        pytest.param("/home/dev/app", APP, id="equal"),
        pytest.param("/home/dev/app/src/deep", APP, id="below-a-session-directory"),
        pytest.param("/home/dev/app/vendor/inner/src", {"inner"}, id="the-longest-wins"),
        pytest.param("/home/dev/apple/pie", {"similar"}, id="whole-segments-only"),
        pytest.param("/tmp/worktrees/app-1", APP, id="worktree"),
        pytest.param("/home/dev/notes", {"notes", "notes-sub"}, id="without-git"),
        pytest.param("/home/dev/notes/2026/x", {"notes-sub"}, id="below-without-git"),
        pytest.param("/home/dev/loose/x", {"loose"}, id="without-a-project"),
        pytest.param("C:/Users/dev/app/src", {"windows"}, id="windows"),
        pytest.param("/home/dev", set(PLACES), id="above-all-means-all"),
        pytest.param("/elsewhere", set(PLACES), id="unknown-means-all"),
    ],
)
def test_a_directory_means_the_project_it_belongs_to(
    places: History, directory: str, expected: set[str]
) -> None:
    assert set(places.found("alpha", directory=directory)) == expected


def test_a_projects_worktree_root_counts_where_no_session_ran_in_it(
    history: Make, tmp_path: Path
) -> None:
    found = history(
        copy(session("lib", "alpha", project_id="app", directory="/home/dev/app/lib")),
        copy(session("home", "alpha", project_id="global", directory="/home/dev")),
    )
    with Index.open(tmp_path / "history.db") as index, index.transaction():
        index.save_projects(
            [Project(id="app", directory="/home/dev/app"), Project(id="global", directory="/")]
        )
    assert found.found("alpha", directory="/home/dev/app") == ["lib"]
    assert found.found("alpha", directory="/home/dev/other") == ["home"]
    assert found.found("alpha", directory="/elsewhere") == ["lib", "home"]


def test_the_query_goes_before_inputs_and_inputs_before_the_callers_own(places: History) -> None:
    own = replace(places.context, directory="/home/dev/apple")
    inputs = {"query": "alpha", "context": own}

    def found(**more: str) -> set[str]:
        answer = places.json("search-sessions", **(inputs | more))
        return {session["sessionID"] for session in answer["sessions"]}

    assert found() == {"similar"}
    assert found(directory="/home/dev/app") == APP
    assert found(project="inner") == {"inner"}
    assert found(project="inner", directory="/home/dev/app") == {"inner"}
    assert found(query="alpha project:apple", project="inner") == {"similar"}
    assert found(project="all") == set(PLACES)


def test_the_answer_says_what_was_searched(places: History) -> None:
    def scope(**inputs: str) -> object:
        return places.json("search-sessions", **inputs)["scope"]

    assert scope() == {"all": True}
    assert scope(project="app") == {"all": False, "projectIDs": ["app"]}
    assert scope(directory="/home/dev/notes") == {
        "all": False,
        "projectIDs": [],
        "directories": ["/home/dev/notes", "/home/dev/notes/2026"],
    }


def test_a_project_that_is_not_indexed_finds_nothing_and_says_so(places: History) -> None:
    answer = places.json("search-messages", query="alpha", project="absent")
    assert answer["sessions"] == []
    assert answer["scope"] == {"all": False, "projectIDs": []}
    (note,) = answer["notes"]
    assert note.startswith("no session of the project 'absent' is indexed")
    assert "notes" not in places.json("search-messages", query="absent", project="app")


@pytest.mark.parametrize("directory", ["app", "./app", ".", "C:app"])
def test_a_directory_that_is_not_absolute_is_an_error(places: History, directory: str) -> None:
    """Else every project would be searched, and the answer would look like the right one's."""
    with pytest.raises(InvalidInput, match="is not an absolute path"):
        places.json("search-sessions", directory=directory)
    assert places.sessions(directory=directory, project="app", limit=50)
