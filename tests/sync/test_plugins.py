"""Plugins: the built-in ones, those of other packages, and what they look at."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pluggy
import pytest

from sync.hookspecs import Probe, SyncConfig
from sync.plugins import make_plugin_manager, probe_sources
from sync.sources import BUILTIN
from tests.opencode_stores import Database, JsonStore

PLUGIN = """
from sync.hookspecs import Probe, hookimpl
from tests.sync.memory_source import MemorySource

@hookimpl
def register_sources(config):
    return [Probe(location="/x", what="of a plugin", source=MemorySource("/x"))]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Install a package with an entry point, as pip would, for the time of one test."""
    names: list[str] = []

    def install_package(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[opencode_history]\n{name} = {name}\n")
        names.append(name)

    monkeypatch.syspath_prepend(str(tmp_path))
    yield install_package
    for name in names:
        sys.modules.pop(name, None)


def test_the_built_in_sources_are_plugins_and_first(tmp_path: Path) -> None:
    manager = make_plugin_manager()
    assert [name for name, _ in manager.list_name_plugin()] == list(BUILTIN)
    with Database(tmp_path / "opencode.db", "1.18") as db:
        db.session("ses_1")
    JsonStore(tmp_path).session("ses_1")
    probes = probe_sources(manager, SyncConfig(data_dirs=(tmp_path,)))
    assert [(p.what, p.source.kind) for p in probes if p.source] == [
        ("database", "db"),
        ("JSON store", "storage"),
    ]


def test_another_package_adds_a_source(install: object) -> None:
    assert callable(install)
    install("history_elsewhere", PLUGIN)
    probes = probe_sources(make_plugin_manager(), SyncConfig())
    assert [(p.location, p.what) for p in probes] == [("/x", "of a plugin")]


def test_a_source_found_twice_is_read_once(install: object) -> None:
    assert callable(install)
    install("history_first", PLUGIN)
    install("history_second", PLUGIN.replace("of a plugin", "the same again"))
    probes = probe_sources(make_plugin_manager(), SyncConfig())
    assert len(probes) == 1


def test_a_plugin_that_fails_is_named_and_the_others_are_asked(install: object) -> None:
    assert callable(install)
    install("history_broken", PLUGIN.replace("return [", "return [1 / 0,"))
    install("history_fine", PLUGIN)
    probes = probe_sources(make_plugin_manager(), SyncConfig())
    assert sorted((p.location, p.what) for p in probes) == [
        ("/x", "of a plugin"),
        ("plugin history_broken", "failed: ZeroDivisionError: division by zero"),
    ]


def test_a_plugin_that_cannot_be_imported_is_left_out_with_a_warning(
    install: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(install)
    install("history_absent", "import no_such_module_anywhere")
    with caplog.at_level(logging.WARNING):
        manager = make_plugin_manager()
    assert [name for name, _ in manager.list_name_plugin()] == list(BUILTIN)
    assert [record.message for record in caplog.records] == [
        "plugin history_absent (history_absent) cannot be loaded"
    ]


def test_a_misspelt_hook_is_an_error(install: object) -> None:
    assert callable(install)
    install("history_misspelt", PLUGIN.replace("register_sources", "register_source"))
    with pytest.raises(pluggy.PluginValidationError, match="unknown hook 'register_source'"):
        make_plugin_manager()


def test_a_manager_shares_nothing_with_the_next() -> None:
    class Extra:
        pass

    manager = make_plugin_manager()
    manager.register(Extra(), "extra")
    assert make_plugin_manager().get_plugin("extra") is None
    assert Probe(location="/x", what="nothing").source is None
