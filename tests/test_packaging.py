"""What people install holds all that the program reads at run time."""

from __future__ import annotations

import ast
import configparser
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from datasette_history.resources import metadata_path

ROOT = Path(__file__).parents[1]


def imported_modules() -> set[str]:
    """Top-level names of all that the two packages import, at the top of a file or deeper."""
    names = set()
    for path in package_files():
        if path.endswith(".py"):
            for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module.partition(".")[0])
    return names


def test_everything_that_is_imported_is_a_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {
        canonicalize_name(Requirement(line).name)
        for line in [*project["dependencies"], *extras["mcp"], *extras["auth"]]
    }
    distributions = packages_distributions()
    third_party = imported_modules() - sys.stdlib_module_names - {"datasette_history", "sync"}
    undeclared = {
        name
        for name in third_party
        if not declared & {canonicalize_name(d) for d in distributions.get(name, ())}
    }
    assert undeclared == set()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist, and the wheel that was built from it."""
    target = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return target


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [path] = built.glob("*.whl")
    return path


def package_files() -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for package in ("datasette_history", "sync")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name[0] != "."
    }


def test_wheel_holds_every_file_of_the_packages_and_metadata_yml(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
        metadata = archive.read("datasette_history/metadata.yml")
    assert names == package_files() | {"datasette_history/metadata.yml"}
    assert metadata == (ROOT / "metadata.yml").read_bytes()
    assert names >= {
        "datasette_history/py.typed",
        "datasette_history/queries.toml",
        "datasette_history/sample/opencode.db.gz",
        "datasette_history/schema.sql",
        "sync/py.typed",
    }
    assert any(n.startswith("datasette_history/templates/") for n in names)
    assert any(n.startswith("datasette_history/static/") for n in names)


def test_wheel_registers_the_command_and_the_plugin(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith("entry_points.txt")]
        entry_points = configparser.ConfigParser()
        entry_points.read_string(archive.read(name).decode())
    assert {s: dict(entry_points[s]) for s in entry_points.sections()} == {
        "console_scripts": {"opencode-history": "sync.cli:cli"},
        "datasette": {"history": "datasette_history"},
    }


def test_wheel_names_licence_python_and_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
        [licence] = [n for n in archive.namelist() if n.endswith("licenses/LICENSE")]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Provides-Extra") == ["auth", "dashboards", "mcp", "test"]


def test_sdist_holds_what_a_build_needs_and_nothing_made_by_working(built: Path) -> None:
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    wanted = {"pyproject.toml", "hatch_build.py", "metadata.yml", "README.md", "LICENSE"}
    assert names >= wanted | {"CHANGELOG.md", "Makefile", "conftest.py"} | package_files()
    assert not [n for n in names if n.endswith(".pyc") or n.startswith((".venv", ".git/"))]


def test_installed_wheel_finds_its_own_files(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = (
        "from pathlib import Path;"
        "from datasette_history import queries, resources, sample, schema;"
        "print(resources.metadata_path());"
        "print(sample.sample_database(Path('out')).stat().st_size > 100_000);"
        "print('CREATE TABLE sessions' in schema.ddl(), len(queries.QUERIES) > 10)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout.splitlines() == [
        str((tmp_path / "site/datasette_history/metadata.yml").resolve()),
        "True",
        "True True",
    ]


def test_checkout_finds_metadata_yml_at_its_top() -> None:
    assert metadata_path() == ROOT / "metadata.yml"
