"""What the files beside the index are, who can read them, and where they are."""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from sync.cli import cli
from sync.cli.door import build_datasette
from sync.forget import forget
from sync.index import Index
from sync.network_disk import network_file_system
from sync.storage import OWN_FOLDER
from tests.builders import copy, fill, session, user

MOUNTS = r"""
sysfs /sys sysfs rw,nosuid 0 0
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/ada ext4 rw 0 0
//server/my\040share /mnt/my\040share cifs rw 0 0
host /mnt/twice 9p rw 0 0
/dev/sdc1 /mnt/twice xfs rw 0 0
ada@server:/ /mnt/remote fuse.sshfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/bob/history.db", "nfs4"),
        ("/home", "nfs4"),
        ("/home/ada/history.db", None),
        ("/homely/history.db", None),
        ("/mnt/my share/history.db", "cifs"),
        ("/mnt/twice/history.db", None),
        ("/mnt/remote/deep/er/history.db", "fuse.sshfs"),
        ("/var/history.db", None),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_innermost_mount(
    tmp_path: Path, path: str, kind: str | None
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert network_file_system(Path(path), mounts) == kind


def test_where_nobody_tells_a_path_counts_as_local(tmp_path: Path) -> None:
    assert network_file_system(tmp_path, tmp_path / "missing") is None


def test_an_index_on_a_network_file_system_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Index.open(tmp_path / "history.db").close()
    assert caplog.messages == []
    monkeypatch.setattr("sync.storage.network_file_system", lambda _path: "nfs4")
    with caplog.at_level(logging.WARNING):
        Index.open(tmp_path / "history.db").close()
    assert "is on a network file system (nfs4)" in caplog.text


def test_the_folder_of_our_own_is_made_private_again(tmp_path: Path) -> None:
    folder = tmp_path / OWN_FOLDER
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    Index.open(folder / "history.db").close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_write_ahead_log_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = fill(tmp_path / "history.db")
    with Index.open(path) as index, index.transaction():
        index.source_id("db", "a")
        for name in ("history.db-wal", "history.db-shm"):
            (tmp_path / name).chmod(0o644)
        Index.open(path).close()
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert modes == {"history.db": 0o600, "history.db-wal": 0o600, "history.db-shm": 0o600}


def test_status_names_every_file_there_is_and_all_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        folder = tmp_path / "private"
        path = fill(folder / "history.db", copy(session("a"), user("m", "words")))
        build_datasette(path, sample=False, open_access=False)
        with Index.open(path) as index:
            forget(index, ["a"], now_ms=1)
    finally:
        os.umask(old)
    command = ["status", "--json", "--index", str(path), "--data-dir", str(tmp_path)]
    done = CliRunner().invoke(cli, command)
    named = set(json.loads(done.output)["files"])
    there = {str(p) for p in folder.rglob("*")}
    assert there == named
    assert {stat.S_IMODE(Path(p).stat().st_mode) for p in there} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
