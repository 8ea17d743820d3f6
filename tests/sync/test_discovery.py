"""Where OpenCode's files are looked for, and which of them are databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from sync.discovery import default_config, find_databases, is_database_name
from sync.hookspecs import Probe, SyncConfig

HOME = Path("/home/mira")


@pytest.mark.parametrize(
    ("environ", "config"),
    [
        pytest.param(
            {},
            SyncConfig(
                data_dirs=(HOME / ".local/share/opencode",),
                state_dirs=(HOME / ".local/state/opencode",),
            ),
            id="default",
        ),
        pytest.param(
            {"XDG_DATA_HOME": "/data", "XDG_STATE_HOME": "/state"},
            SyncConfig(data_dirs=(Path("/data/opencode"),), state_dirs=(Path("/state/opencode"),)),
            id="xdg",
        ),
        pytest.param(
            {"XDG_DATA_HOME": "", "XDG_STATE_HOME": "relative", "OPENCODE_DB": ""},
            SyncConfig(
                data_dirs=(HOME / ".local/share/opencode",),
                state_dirs=(HOME / ".local/state/opencode",),
            ),
            id="empty-or-relative",
        ),
        pytest.param(
            {"XDG_DATA_HOME": "/data", "OPENCODE_DB": "work.db"},
            SyncConfig(
                data_dirs=(Path("/data/opencode"),),
                databases=(Path("/data/opencode/work.db"),),
                state_dirs=(HOME / ".local/state/opencode",),
            ),
            id="relative-database",
        ),
        pytest.param(
            {"XDG_DATA_HOME": "/data", "OPENCODE_DB": "/srv/work.db"},
            SyncConfig(
                data_dirs=(Path("/data/opencode"),),
                databases=(Path("/srv/work.db"),),
                state_dirs=(HOME / ".local/state/opencode",),
            ),
            id="absolute-database",
        ),
        pytest.param(
            {"XDG_DATA_HOME": "/data", "OPENCODE_DB": ":memory:"},
            SyncConfig(
                data_dirs=(Path("/data/opencode"),), state_dirs=(HOME / ".local/state/opencode",)
            ),
            id="no-file",
        ),
    ],
)
def test_a_machines_places_follow_the_environment(
    environ: dict[str, str], config: SyncConfig
) -> None:
    assert default_config(environ, HOME) == config


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("opencode.db", True),
        ("opencode-stable.db", True),
        ("opencode-next.db", True),
        ("opencode-.db", True),
        ("opencode-feature-x_1.2.db", True),
        ("opencode - Copy.db", False),
        ("opencode (1).db", False),
        ("opencode-ä.db", False),
        ("opencode.db-wal", False),
        ("opencode.db.bak", False),
        ("opencode2.db", False),
        ("history.db", False),
        ("auth.json", False),
    ],
)
def test_only_names_of_opencodes_making_are_databases(name: str, ours: bool) -> None:
    assert is_database_name(name) is ours


def described(config: SyncConfig) -> list[tuple[str, str]]:
    return [
        (Path(found.location).name, found.what)
        if isinstance(found, Probe)
        else (found.name, "database")
        for found in find_databases(config)
    ]


def test_every_channels_database_is_found_and_copies_by_hand_are_told(tmp_path: Path) -> None:
    for name in (
        "opencode.db", "opencode.db-wal", "opencode.db-shm", "opencode-next.db", "opencode-.db",
        "opencode - Copy.db", "auth.json", "account.json", "mcp-auth.json", "notes.db",
    ):  # fmt: skip
        (tmp_path / name).write_bytes(b"SQLite")
    (tmp_path / "opencode-folder.db").mkdir()
    copy = (
        "not a name that OpenCode gives, so perhaps a copy made by hand; "
        "name it with --db to read it"
    )
    assert described(SyncConfig(data_dirs=(tmp_path,))) == [
        ("opencode - Copy.db", copy),
        ("opencode-.db", "database"),
        ("opencode-next.db", "database"),
        ("opencode.db", "database"),
    ]


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"SQLite")
    config = SyncConfig(
        data_dirs=(tmp_path / "empty", tmp_path / "absent", tmp_path / "file"),
        databases=(tmp_path / "gone.db", tmp_path / "empty"),
    )
    assert described(config) == [
        ("opencode.db", "no such file"),
        ("absent", "no such folder"),
        ("file", "cannot be read: Not a directory"),
        ("gone.db", "no such file"),
        ("empty", "no such file"),
    ]


def test_a_file_named_in_several_ways_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    database = tmp_path / "data" / "opencode.db"
    database.write_bytes(b"SQLite")
    (tmp_path / "link.db").symlink_to(database)
    copy = tmp_path / "opencode - Copy.db"
    copy.write_bytes(b"SQLite")
    config = SyncConfig(
        data_dirs=(tmp_path / "data", tmp_path / "data" / ".." / "data"),
        databases=(database, tmp_path / "link.db", copy),
    )
    assert list(find_databases(config)) == [database, copy]


def test_a_file_that_nothing_was_written_to_yet_is_no_database(tmp_path: Path) -> None:
    for name in ("opencode.db", "opencode-next.db", "opencode-dev.db"):
        (tmp_path / name).touch()
    (tmp_path / "opencode-next.db-wal").write_bytes(b"something")
    (tmp_path / "opencode-dev.db-wal").touch()
    found = list(find_databases(SyncConfig(data_dirs=(tmp_path,))))
    assert found == [
        Probe(
            location=str(tmp_path / "opencode-dev.db"),
            what="empty: nothing was written to it yet",
        ),
        tmp_path / "opencode-next.db",
        Probe(location=str(tmp_path / "opencode.db"), what="empty: nothing was written to it yet"),
    ]
