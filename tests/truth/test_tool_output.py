"""Outputs that were cut are indexed whole, from OpenCode's folder for them and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sync import tool_output
from tests.builders import T0
from tests.opencode_stores import Database, JsonStore, copied, tool, v2_tool
from tests.truth.syncing import rows, sources_of, sync, sync_dir

NAME = "tool_22f1d0ea1001Wf4pFB82ceCJzf"
WHOLE = "first line\nneedle in the middle\nlast line\n"
CUT = "first line\n\n...19 bytes truncated...\n\nFull output saved to: elsewhere"
OUTPUT = """
  SELECT p.name, substr(d.text, p.start + 1, p.length) FROM parts p
  JOIN documents d ON d.id = p.document_id WHERE p.kind = 'output'
"""
FOUND = (
    "first line\nneedle in the middle\nlast line\n\n...19 bytes truncated...\n"
    "Full output saved to: elsewhere"
)
HITS = "SELECT count(*) FROM documents_fts WHERE documents_fts MATCH '\"needle in the\"'"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "tool-output").mkdir(parents=True)
    (folder / "tool-output" / NAME).write_text(WHOLE, encoding="utf-8")
    return folder


def saved(path: str, **metadata: Any) -> dict[str, Any]:
    notes = {"truncated": True, "outputPath": path, **metadata}
    return tool("bash", input={"command": "make"}, output=CUT, metadata=notes)


def database(
    data: Path, path: str = f"/old/home/opencode/tool-output/{NAME}", **notes: Any
) -> Path:
    with Database(data / "opencode.db", "1.18") as db:
        db.session("ses", "Build")
        db.message("msg", "ses", "assistant", saved(path, **notes))
    return data


def test_a_cut_output_is_indexed_whole_and_once(data: Path, tmp_path: Path) -> None:
    index = sync_dir(tmp_path / "history.db", database(data))
    assert rows(index, OUTPUT) == [(NAME, FOUND)]
    assert rows(index, HITS) == [1]
    text = rows(index, "SELECT text FROM documents WHERE message_id = 'msg'")[0]
    assert text.count("first line") == 1


def test_v2_and_json_stores_have_whole_outputs_too(data: Path, tmp_path: Path) -> None:
    with Database(data / "opencode.db", "2") as db:
        db.session("ses", "Build", table="session_v2")
        content = [{"type": "text", "text": CUT}, {"type": "text", "text": "exit code 0"}]
        call = v2_tool("bash", input={}, content=content, outputPaths=[f"/x/tool-output/{NAME}"])
        db.v2("msg", "ses", "assistant", 1, content=[call])
    store = JsonStore(data)
    store.session("ses_json", "Build")
    store.message("msg_json", "ses_json", "assistant", saved(f"C:\\x\\tool-output\\{NAME}"))
    index = sync_dir(tmp_path / "history.db", data)
    assert sorted(rows(index, OUTPUT), key=str) == [
        (NAME, FOUND), (NAME, FOUND), (None, "exit code 0"),
    ]  # fmt: skip


def test_a_whole_output_outlives_its_file(data: Path, tmp_path: Path) -> None:
    index = sync_dir(tmp_path / "history.db", database(data))
    (data / "tool-output" / NAME).unlink()
    with Database(data / "opencode.db") as db:
        db.message("msg2", "ses", "user", "Thanks", at=T0 + 1)
    sync_dir(index, data)
    assert rows(index, OUTPUT) == [(NAME, FOUND)]
    # Even where the message itself is written anew.
    with Database(data / "opencode.db") as db:
        db.part("prt_new", "msg", "ses", "And one word more", at=T0 + 2)
        db.conn.execute("UPDATE session SET directory = '/moved', time_updated = ?", (T0 + 9,))
    sync_dir(index, data)
    assert rows(index, OUTPUT) == [(NAME, FOUND)]
    assert rows(index, HITS) == [1]
    # A rebuild has only what the store still has.
    fresh = sync_dir(tmp_path / "fresh.db", data)
    assert rows(fresh, OUTPUT) == [(None, CUT)]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("/x/tool-output/../auth.json", id="dots"),
        pytest.param("/x/tool-output/tool_a/../../auth.json", id="dots-behind-a-name"),
        pytest.param("/x/tool-output/auth.json", id="another-file-of-the-folder"),
        pytest.param("/x/tool-output/tool_\x00", id="nul"),
        pytest.param("tool_secret", id="no-folder"),
        pytest.param("/x/tool-output/tool_missing", id="missing"),
        pytest.param("", id="empty"),
    ],
)
def test_no_path_leads_out_of_the_folder(data: Path, tmp_path: Path, path: str) -> None:
    for name in ("auth.json", "tool_secret", "tool-output/auth.json"):
        (data / name).write_text("needle in the wrong place", encoding="utf-8")
    index = sync_dir(tmp_path / "history.db", database(data, path))
    assert rows(index, OUTPUT) == [(None, CUT)]


def symlink(link: Path, secret: Path) -> None:
    link.symlink_to(secret)


def hard_link(link: Path, secret: Path) -> None:
    os.link(secret, link)


def folder(link: Path, _secret: Path) -> None:
    link.mkdir()


def fifo(link: Path, _secret: Path) -> None:
    os.mkfifo(link)


@pytest.mark.parametrize("make", [symlink, hard_link, folder, fifo])
def test_only_plain_files_are_read(
    data: Path, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    secret = data / "secret"
    secret.write_text("needle in the wrong place", encoding="utf-8")
    (data / "tool-output" / NAME).unlink()
    make(data / "tool-output" / NAME, secret)
    index = sync_dir(tmp_path / "history.db", database(data))
    assert rows(index, OUTPUT) == [(None, CUT)]


def test_a_folder_that_is_a_link_is_not_read(data: Path, tmp_path: Path) -> None:
    (data / "tool-output").rename(data / "elsewhere")
    (data / "tool-output").symlink_to(data / "elsewhere")
    index = sync_dir(tmp_path / "history.db", database(data))
    assert rows(index, OUTPUT) == [(None, CUT)]


def test_an_output_that_was_not_cut_is_left_alone(data: Path, tmp_path: Path) -> None:
    index = sync_dir(tmp_path / "history.db", database(data, truncated=False))
    assert rows(index, OUTPUT) == [(None, CUT)]


def test_long_and_odd_files_are_cut_at_the_stated_limit(data: Path, tmp_path: Path) -> None:
    limit = tool_output.MAX_OUTPUT_CHARS
    raw = b"\xff\x00" + "é".encode() * limit
    (data / "tool-output" / NAME).write_bytes(raw)
    index = sync_dir(tmp_path / "history.db", database(data))
    [(name, text)] = rows(index, OUTPUT)
    assert name == NAME
    assert text.startswith("\ufffd\ufffdé")
    assert text.count("é") == limit - 2


def test_the_recorded_cut_output_is_whole(samples: Path, tmp_path: Path) -> None:
    data = copied(samples, "1.18.33", tmp_path)
    [path] = (data / "tool-output").iterdir()
    lines = path.read_text(encoding="utf-8").splitlines()
    index = sync(tmp_path / "history.db", *sources_of(data))
    [(name, text)] = [row for row in rows(index, OUTPUT) if row[0] is not None]
    assert name == path.name
    assert text.splitlines()[: len(lines)] == lines
    assert "Full output saved to:" in text
