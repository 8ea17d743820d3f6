"""A path means the project that a person means by it, wherever its sessions ran."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from datasette_history.tools import Context, call
from tests.builders import T0
from tests.opencode_stores import Database, JsonStore
from tests.truth.syncing import opened, rows, sync_dir

CONTEXT = Context(now=datetime(2026, 12, 2, tzinfo=UTC), home="/home/dev")

SESSIONS = {
    # V1: a repository that was moved since, with a worktree in which no session has run yet.
    "before": ("repo", "/home/dev/old"),
    "after": ("repo", "/home/dev/new/src"),
    # V1 without git: one project for all of them.
    "notes": ("global", "/home/dev/notes"),
    "music": ("global", "/home/dev/music"),
    "windows": ("global", r"C:\Users\Mira\Notes"),
    "windows2": ("win", "c:/Users/Mira/app"),
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    with Database(data / "opencode.db", "1.18", "2") as db:
        db.insert("project", id="global", worktree="/", sandboxes=[], time_updated=T0)
        db.insert("project", id="repo", worktree="/home/dev/new", time_updated=T0 + 9,
                  sandboxes=["/home/dev/worktrees/repo-1", 7, None])  # fmt: skip
        db.insert("project", id="win", worktree=r"C:\Users\Mira\app", sandboxes="no JSON")
        for name, (project, directory) in SESSIONS.items():
            db.session(name, f"Session {name}", project_id=project, directory=directory)
        # V2 gives a directory without git an id of its own.
        db.insert("project", id="notes-v2", worktree="/home/dev/notes", sandboxes=[])
        db.session("notes2", "Session notes2", table="session_v2", project_id="notes-v2",
                   directory="/home/dev/notes")  # fmt: skip
    # The JSON store still has the repository where it was; that is older news.
    store = JsonStore(data)
    store.write("project/repo.json", {"id": "repo", "worktree": "/home/dev/old",
                                      "time": {"created": T0, "updated": T0}})  # fmt: skip
    store.session("json", "Session json", project="repo", directory="/home/dev/old")
    return sync_dir(data / "history.db", data)


REPO = {"before", "after", "json"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/home/dev/old", REPO, id="where-it-was"),
        pytest.param("/home/dev/new", REPO, id="where-it-is"),
        pytest.param("/home/dev/worktrees/repo-1", REPO, id="a-worktree-without-sessions"),
        pytest.param("/home/dev/worktrees", REPO, id="above-a-worktree"),
        pytest.param("/home/dev/notes", {"notes", "notes2"}, id="both-ids-without-git"),
        pytest.param("~/notes", {"notes", "notes2"}, id="home"),
        pytest.param("/home/dev/music", {"music"}, id="global-is-one-per-directory"),
        pytest.param("c:/Users/Mira/Notes", {"windows"}, id="windows-drive-and-slash"),
        pytest.param(r"C:\Users\Mira\APP", set(), id="windows-names-keep-their-case"),
        pytest.param(r"C:\Users\Mira\app", {"windows2"}, id="windows-worktree"),
        pytest.param("/home/dev/nothing", set(), id="unknown"),
    ],
)
def test_a_path_names_a_project(index: Path, path: str, expected: set[str]) -> None:
    assert found(index, project=path) == expected


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        pytest.param("/home/dev/worktrees/repo-1/lib", REPO, id="in-a-worktree"),
        pytest.param("/home/dev/new/docs", REPO, id="in-the-moved-folder"),
        pytest.param("/home/dev/notes/2026", {"notes", "notes2"}, id="without-git"),
        pytest.param(r"c:\Users\Mira\Notes\x", {"windows"}, id="windows"),
    ],
)
def test_a_working_directory_means_its_project(
    index: Path, directory: str, expected: set[str]
) -> None:
    assert found(index, directory=directory) == expected


def found(index: Path, **where: str) -> set[str]:
    with opened(index) as conn:
        answer = call(conn, "search-sessions", {"query": "session", **where}, CONTEXT)
    return {session.id for session in answer.result.sessions}  # type: ignore[union-attr]


def test_the_latest_word_on_a_projects_place_wins(index: Path) -> None:
    assert rows(index, "SELECT directory FROM projects WHERE id = 'repo'") == ["/home/dev/new"]
    every = "SELECT directory FROM project_directories WHERE project_id = 'repo' ORDER BY 1"
    assert rows(index, every) == ["/home/dev/new", "/home/dev/old", "/home/dev/worktrees/repo-1"]
    assert rows(index, "SELECT directory FROM projects WHERE id = 'global'") == ["/"]
