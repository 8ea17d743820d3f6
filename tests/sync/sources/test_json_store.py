"""JSON stores: what 1.1 and before wrote, and what deletions and crashes left in them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from sync.errors import SourceUnavailable
from sync.hookspecs import SyncConfig
from sync.model import (
    RANK_JSON,
    BadRecord,
    FileEdit,
    Message,
    Project,
    Revert,
    Session,
    SessionRef,
    Todo,
    Unchanged,
)
from sync.sources.json_store import JsonSource, register_sources
from sync.sources.json_tree import RETRY_S
from tests.builders import MINUTE, T0
from tests.opencode_stores import JsonStore, tool
from tests.sync.sources.reading import listed, messages, problems, read, stamps, texts


@pytest.fixture
def store(tmp_path: Path) -> JsonStore:
    return JsonStore(tmp_path)


@pytest.fixture
def source(store: JsonStore) -> JsonSource:
    return JsonSource(store.root)


def age(*paths: Path, seconds: float = 60) -> None:
    """Make files look as if they had been written a while ago."""
    for path in paths:
        then = time.time() - seconds
        os.utime(path, (then, then))


def test_a_session_is_read_whole(store: JsonStore, source: JsonSource) -> None:
    store.session(
        "ses_1",
        "Fix login",
        at=T0,
        updated=T0 + MINUTE,
        parentID="ses_0",
        summary={"additions": 3, "deletions": 1, "files": 2},
        share={"url": "https://opncd.ai/s/1"},
        revert={"messageID": "msg_2"},
    )
    store.message("msg_1", "ses_1", "user", "Please fix", at=T0 + 2 * MINUTE)
    store.message(
        "msg_2", "ses_1", "assistant", "Done", tool("edit", input={"filePath": "a.ts"}),
        at=T0 + 3 * MINUTE, time={"created": T0 + 3 * MINUTE, "completed": T0 + 9 * MINUTE},
    )  # fmt: skip
    session, items = read(source, "ses_1")
    assert session == Session(
        id="ses_1",
        title="Fix login",
        created_ms=T0,
        updated_ms=T0 + 3 * MINUTE,
        project_id="prj",
        parent_id="ses_0",
        directory="/home/dev/app",
        slug="brave-fox",
        version="1.1.53",
        additions=3,
        deletions=1,
        files_changed=2,
        share_url="https://opncd.ai/s/1",
        revert=Revert(message_id="msg_2"),
    )
    assert [texts(m) for m in items] == [["Please fix"], ["Done", "edit", "a.ts"]]
    assert isinstance(items[1], Message)
    assert items[1].edits == (FileEdit("/home/dev/app/a.ts", "edit"),)
    [ref] = listed(source).values()
    assert (ref.title, ref.project_id, ref.directory, ref.activity_ms, ref.rank) == (
        "Fix login", "prj", "/home/dev/app", T0 + 3 * MINUTE, RANK_JSON,
    )  # fmt: skip


def test_messages_go_by_time_and_answers_after_their_questions(
    store: JsonStore, source: JsonSource
) -> None:
    store.session("ses_1")
    store.message("msg_z", "ses_1", "user", at=T0 + 1)
    store.message("msg_b", "ses_1", "assistant", at=T0 + 2, parentID="msg_z")
    store.message("msg_a", "ses_1", "assistant", at=T0, parentID="msg_z")
    assert [m.id for m in messages(source, "ses_1")] == ["msg_z", "msg_a", "msg_b"]


def test_projects_and_todos_are_read(store: JsonStore, source: JsonSource) -> None:
    time_ = {"created": T0, "updated": T0 + 1}
    store.write("project/prj.json", {"worktree": "/home/dev/app", "vcs": "git", "time": time_})
    store.write("project/bad.json", "{")
    store.session("ses_1")
    store.session("ses_2")
    store.session("ses_3")
    items = [{"id": "1", "content": "first", "status": "done", "priority": "high"}, {"id": "2"}, 3]
    store.write("todo/ses_1.json", items)
    store.write("todo/ses_2.json", [])
    assert read(source, "ses_1")[0].todos == (
        Todo(content="first", status="done", priority="high"),
    )
    assert read(source, "ses_2")[0].todos == ()
    assert read(source, "ses_3")[0].todos is None
    bad, project = source.projects()
    assert project == Project(
        id="prj", directory="/home/dev/app", vcs="git", created_ms=T0, updated_ms=T0 + 1
    )
    assert isinstance(bad, BadRecord)
    assert bad.item == str(store.root / "project" / "bad.json")


def test_known_messages_come_as_unchanged(store: JsonStore, source: JsonSource) -> None:
    store.session("ses_1")
    store.message("msg_1", "ses_1", "user", "one", at=T0)
    store.message("msg_2", "ses_1", "user", "two", at=T0 + 1)
    known = stamps(source, "ses_1")
    assert read(source, "ses_1", known)[1] == [Unchanged("msg_1"), Unchanged("msg_2")]
    store.part("msg_2_p0", "msg_2", "ses_1", "two, longer")
    first, second = read(source, "ses_1", known)[1]
    assert (first, texts(second)) == (Unchanged("msg_1"), ["two, longer"])


def rewrite_title(store: JsonStore) -> None:
    age(store.session("ses_1", "Renamed"), seconds=5)


def add_message(store: JsonStore) -> None:
    store.message("msg_9", "ses_1", "user", "more", at=T0)


def add_part(store: JsonStore) -> None:
    store.part("prt_9", "msg_1", "ses_1", "more")


def finish_message(store: JsonStore) -> None:
    age(store.message("msg_1", "ses_1", "user", at=T0), seconds=5)


@pytest.mark.parametrize("change", [rewrite_title, add_message, add_part, finish_message])
def test_whatever_changes_in_a_session_changes_its_version(
    store: JsonStore, source: JsonSource, change: object
) -> None:
    assert callable(change)
    age(store.session("ses_1"), store.session("ses_2"))
    age(store.message("msg_1", "ses_1", "user", "one", at=T0))
    age(store.root / "part" / "msg_1")
    before, signature = listed(source), source.signature()
    assert source.signature() == signature
    assert listed(source) == before
    change(store)
    after = listed(source)
    assert source.signature() != signature
    assert after["ses_1"] != before["ses_1"]
    assert after["ses_2"] == before["ses_2"]


def test_a_half_written_file_is_read_once_more(store: JsonStore) -> None:
    path = store.session("ses_1", "Whole")
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:40], encoding="utf-8")
    waited = []

    def finish_writing(seconds: float) -> None:
        waited.append(seconds)
        path.write_text(text, encoding="utf-8")

    source = JsonSource(store.root, pause=finish_writing)
    assert [ref.title for ref in listed(source).values()] == ["Whole"]
    assert waited == [RETRY_S]


def test_a_file_that_was_cut_long_ago_is_not_waited_for(store: JsonStore) -> None:
    path = store.session("ses_1")
    path.write_text("{", encoding="utf-8")
    age(path)
    waited: list[float] = []
    assert len(problems(JsonSource(store.root, pause=waited.append))) == 1
    assert waited == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"id": "ses_1"', "not JSON"),
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"title": "\xff"}', "not UTF-8"),
    ],
    ids=["cut", "empty", "array", "not-utf-8"],
)
def test_a_bad_session_file_is_reported_and_the_others_are_read(
    store: JsonStore, source: JsonSource, content: bytes, reason: str
) -> None:
    store.session("ses_2")
    path = store.session("ses_1")
    path.write_bytes(content)
    age(path)
    assert list(listed(source)) == ["ses_2"]
    [bad] = problems(source)
    assert (bad.item, bad.session_id, bad.hides_session) == (str(path), "ses_1", True)
    assert reason in bad.reason
    with pytest.raises(SourceUnavailable, match=reason):
        source.read("ses_1", {})


def test_a_bad_message_or_part_costs_itself_alone(store: JsonStore, source: JsonSource) -> None:
    store.session("ses_1")
    store.message("msg_1", "ses_1", "user", "one", "two", at=T0)
    bad_part = store.part("msg_1_p0", "msg_1", "ses_1", "x")
    bad_part.write_text("{", encoding="utf-8")
    bad_message = store.message("msg_2", "ses_1", "user", "lost", at=T0 + 1)
    bad_message.write_text("", encoding="utf-8")
    store.message("msg_3", "ses_1", "user", "three", at=T0 + 2)
    age(bad_part, bad_message)
    items = read(source, "ses_1")[1]
    good = [item for item in items if isinstance(item, Message)]
    assert [texts(m) for m in good] == [["two"], ["three"]]
    assert [(b.item, b.session_id, b.message_id) for b in items if isinstance(b, BadRecord)] == [
        (str(bad_message), "ses_1", "msg_2"),
        (str(bad_part), "ses_1", None),
    ]
    known = {m.id: m.stamp for m in good}
    again = read(source, "ses_1", known)[1]
    assert Unchanged("msg_3") in again
    assert good[0] in again
    assert len([item for item in again if isinstance(item, BadRecord)]) == 2


def test_what_a_deletion_leaves_behind_is_neither_a_session_nor_a_problem(
    store: JsonStore, source: JsonSource
) -> None:
    store.session("ses_1")
    (store.root / "message" / "ses_gone").mkdir(parents=True)
    (store.root / "part" / "msg_gone").mkdir(parents=True)
    store.write("todo/ses_gone.json", [])
    store.write("session_diff/ses_gone.json", [])
    store.write("migration", "2")
    assert list(listed(source)) == ["ses_1"]
    assert problems(source) == []


def test_orphans_with_content_are_reported(store: JsonStore, source: JsonSource) -> None:
    store.session("ses_1")
    store.message("msg_1", "ses_1", "user", "kept")
    store.message("msg_2", "ses_gone", "user", "lost", "lost too")
    store.part("prt_1", "msg_gone", "ses_1", "lost")
    assert problems(source) == [
        BadRecord(
            item=str(store.root / "message" / "ses_gone"), reason="messages without a session: 1"
        ),
        BadRecord(item=str(store.root / "part" / "msg_gone"), reason="parts without a message: 1"),
    ]


@pytest.mark.parametrize("name", ["ses_2", "../../secret", "", "..", "a/b", "a\\b"])
def test_a_session_that_is_not_there_is_none(
    store: JsonStore, source: JsonSource, name: str
) -> None:
    store.session("ses_1")
    (store.root.parent / "secret.json").write_text("{}", encoding="utf-8")
    assert source.read(name, {}) is None


def test_a_store_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    source = JsonSource(tmp_path / "storage")
    for ask in (source.signature, lambda: list(source.sessions()), lambda: source.read("s", {})):
        with pytest.raises(SourceUnavailable, match="no such folder"):
            ask()


def write_before_06(data_dir: Path, slug: str, session_id: str, text: str) -> None:
    base = data_dir / "project" / slug / "storage" / "session"
    files = {
        f"info/{session_id}.json": {"id": session_id, "title": text, "time": {"created": T0}},
        f"message/{session_id}/msg_1.json": {"role": "user", "time": {"created": T0 + 1}},
        f"message/{session_id}/msg_2.json": {
            "role": "assistant", "time": {"created": T0 + 2}, "path": {"cwd": f"/home/dev/{slug}"},
        },
        f"part/{session_id}/msg_1/prt_1.json": {"type": "text", "text": text},
        f"part/{session_id}/msg_2/prt_1.json": tool("write", input={"filePath": "a.ts"}),
        f"part/{session_id}/msg_gone/prt_1.json": {"type": "text", "text": "lost"},
    }  # fmt: skip
    for name, value in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")


def test_the_stores_before_0_6_are_read_as_one(tmp_path: Path) -> None:
    write_before_06(tmp_path, "app", "ses_1", "one")
    write_before_06(tmp_path, "site", "ses_2", "two")
    source = JsonSource(tmp_path / "project")
    refs = listed(source)
    assert {key: (ref.title, ref.directory, ref.activity_ms) for key, ref in refs.items()} == {
        "ses_1": ("one", "/home/dev/app", T0 + 2),
        "ses_2": ("two", "/home/dev/site", T0 + 2),
    }
    session, [question, answer] = read(source, "ses_2")
    assert (session.project_id, texts(question)) == (None, ["two"])
    assert isinstance(answer, Message)
    assert answer.edits == (FileEdit("/home/dev/site/a.ts", "write"),)
    assert [Path(p.item).name for p in problems(source)] == ["msg_gone", "msg_gone"]
    assert source.signature() == JsonSource(tmp_path / "project").signature()


def test_each_kind_of_store_is_found(tmp_path: Path) -> None:
    JsonStore(tmp_path / "both").session("ses_1")
    write_before_06(tmp_path / "both", "app", "ses_1", "one")
    JsonStore(tmp_path / "none").write("session_diff/ses_1.json", [])
    config = SyncConfig(data_dirs=(tmp_path / "both", tmp_path / "none", tmp_path / "missing"))
    assert [(p.location, p.what, p.source is not None) for p in register_sources(config)] == [
        (str(tmp_path / "both" / "storage"), "JSON store", True),
        (str(tmp_path / "both" / "project"), "JSON store", True),
        (str(tmp_path / "none" / "storage"), "no sessions in it", False),
    ]


def test_of_two_files_of_one_session_the_last_active_counts(
    store: JsonStore, source: JsonSource
) -> None:
    """Moving to another project can leave the old file behind."""
    store.session("ses_1", "Old", project="aaa", updated=T0)
    store.session("ses_1", "New", project="global", updated=T0 + MINUTE)
    store.session("ses_2", "New too", project="aaa", updated=T0 + MINUTE)
    store.session("ses_2", "Old too", project="global", updated=T0)
    bad = store.session("ses_3", project="aaa")
    bad.write_text("{", encoding="utf-8")
    age(bad)
    store.session("ses_3", "Readable", project="global")
    # Both files have this message, so it does not tell them apart.
    store.message("msg_1", "ses_1", "user", "later", at=T0 + 2 * MINUTE)
    refs = [item for item in source.sessions() if isinstance(item, SessionRef)]
    titles = {"ses_1": "New", "ses_2": "New too", "ses_3": "Readable"}
    assert [ref.id for ref in refs] == list(titles)
    assert {ref.id: ref.title for ref in refs} == titles
    assert {name: read(source, name)[0].title for name in titles} == titles


@pytest.mark.parametrize("folder", ["part", "message", "project", "todo"])
def test_a_file_in_place_of_a_folder_costs_what_the_folder_would_have_held(
    store: JsonStore, source: JsonSource, folder: str
) -> None:
    store.session("ses_1")
    (store.root / folder).write_text("not a folder", encoding="utf-8")
    assert source.signature()
    records = [*source.projects(), *source.sessions()]
    told = [r.item for r in records if isinstance(r, BadRecord) and not r.hides_session]
    assert told == ([] if folder == "todo" else [str(store.root / folder)])
    if folder != "message":
        assert [r.id for r in records if isinstance(r, SessionRef)] == ["ses_1"]


def test_links_that_lead_nowhere_hide_nothing(store: JsonStore, source: JsonSource) -> None:
    path = store.session("ses_1")
    for folder in (store.root / "session", path.parent, store.root / "message"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "loop").symlink_to("loop")
        (folder / "loop.json").symlink_to("loop.json")
        (folder / "broken.json").symlink_to("missing.json")
        (folder / "folder.json").mkdir()
    assert list(listed(source)) == ["ses_1"]
    assert problems(source) == []


def test_a_closed_folder_hides_its_sessions_and_no_others(
    store: JsonStore, source: JsonSource
) -> None:
    closed = store.session("ses_2", project="closed").parent
    store.message("msg_2", "ses_2", "user", "no orphan")
    store.session("ses_1")
    store.message("msg_1", "ses_1", "user", "readable")
    before = source.signature()
    closed.chmod(0)
    try:
        if os.access(closed, os.R_OK):
            pytest.skip("not applicable to an administrator, who may look into every folder")
        assert source.signature() != before
        assert list(listed(source)) == ["ses_1"]
        [bad] = problems(source)
        assert (bad.item, bad.reason, bad.hides_session) == (
            str(closed),
            "Permission denied",
            True,
        )
    finally:
        closed.chmod(0o700)


def test_a_closed_store_is_found_and_says_why_it_cannot_be_read(tmp_path: Path) -> None:
    store = JsonStore(tmp_path)
    store.session("ses_1")
    store.root.chmod(0)
    try:
        if os.access(store.root, os.R_OK):
            pytest.skip("not applicable to an administrator, who may look into every folder")
        [probe] = register_sources(SyncConfig(data_dirs=(tmp_path,)))
        assert probe.source is not None
        with pytest.raises(SourceUnavailable, match="Permission denied"):
            list(probe.source.sessions())
    finally:
        store.root.chmod(0o700)
