"""CI must not pass by skipping: the rule of the topmost conftest.py."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parents[1] / "conftest.py"

SKIPPING = """
import pytest

def test_without_browser():
    pytest.skip("no browser found")

def test_on_another_system():
    pytest.skip("not applicable: only on Windows")

@pytest.mark.xfail(reason="known")
def test_known_to_fail():
    assert False

def test_passes():
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    return pytester


def test_a_skip_is_a_failure_where_everything_is_required(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HISTORY_REQUIRE_ALL", "1")
    project.makepyfile(SKIPPING)
    result = project.runpytest()
    result.assert_outcomes(failed=1, skipped=1, xfailed=1, passed=1)
    result.stdout.fnmatch_lines(["*skipped although HISTORY_REQUIRE_ALL=1*no browser found*"])


def test_a_module_that_skips_itself_fails_too(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HISTORY_REQUIRE_ALL", "1")
    project.makepyfile("import pytest; pytest.importorskip('no_such_module')")
    result = project.runpytest()
    result.assert_outcomes(errors=1)


def test_a_skip_is_a_skip_elsewhere(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HISTORY_REQUIRE_ALL", raising=False)
    project.makepyfile(SKIPPING)
    project.runpytest().assert_outcomes(skipped=2, xfailed=1, passed=1)
