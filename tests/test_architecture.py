"""The direction of imports: who may know of whom, checked on every module's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("datasette_history", "sync")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

IO_MODULES = {"sqlite3", "httpx", "asyncio", "pathlib", "datasette", "click"}
PURE = (
    "datasette_history.query",
    "datasette_history.dates",
    "datasette_history.folding",
    "datasette_history.excerpts",
    "datasette_history.paths",
    "datasette_history.inputs",
    "datasette_history.render",
    "sync.extract",
    "sync.sources.sse",
)
# What only some installations have, and is known to be there by the time of the call.
IMPORTED_WHEN_CALLED = {
    ("datasette_history.permissions", "datasette.resources"),
    ("datasette_history", "datasette_history.mcp"),
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST) -> Iterator[str]:
    """Names of the modules that the tree imports; of `from a import b`, a.b where it is one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            folder = ROOT.joinpath(*node.module.split("."))
            for alias in node.names:
                is_module = (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir()
                yield f"{node.module}.{alias.name}" if is_module else node.module


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def imported(path: Path) -> set[str]:
    return set(imports(ast.parse(path.read_text(encoding="utf-8"))))


def offenders(package: str, forbidden: set[str], *, apart_from: str = "-") -> dict[str, set[str]]:
    """Modules of a package by name, with what they import within the forbidden ones."""
    found = {
        name_of(path): {one for one in imported(path) for no in forbidden if within(one, no)}
        for path in MODULES
        if within(name_of(path), package) and not within(name_of(path), apart_from)
    }
    return {name: names for name, names in found.items() if names}


def test_the_reader_knows_nothing_of_the_writer() -> None:
    forbidden = {"sync", "httpx", "httpx_sse", "pluggy", "sqlite_utils"}
    assert offenders("datasette_history", forbidden) == {}


def test_only_the_command_line_knows_more_of_the_reader_than_the_schema() -> None:
    known = offenders("sync", {"datasette_history"}, apart_from="sync.cli")
    assert set().union(*known.values()) == {"datasette_history.schema"}


def test_sources_know_no_destination() -> None:
    forbidden = {"sync.index", "sync.backfill", "sync.live", "sync.cli", "datasette_history"}
    assert offenders("sync.sources", forbidden) == {}


@pytest.mark.parametrize("name", PURE)
def test_what_only_computes_imports_nothing_that_touches_the_world(name: str) -> None:
    assert offenders(name, IO_MODULES) == {}


def test_no_module_imports_what_its_own_packages_init_defines() -> None:
    own = {
        name_of(path): name_of(path).rsplit(".", 1)[0]
        for path in MODULES
        if path.name != "__init__.py"
    }
    assert [path for path in MODULES if own.get(name_of(path)) in imported(path)] == []


def test_imports_stand_at_the_top_of_a_module() -> None:
    inside = {
        (name_of(path), name)
        for path in MODULES
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in imports(function)
    }
    assert inside <= IMPORTED_WHEN_CALLED
