"""Makes a skipped test fail where everything it could need is said to be there.

With HISTORY_REQUIRE_ALL=1, as in CI, a skip is a failure, unless its reason begins with
"not applicable": on this platform, with this version of a dependency, as this user.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

NOT_APPLICABLE = "not applicable"


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("HISTORY_REQUIRE_ALL") != "1" or not report.skipped:
        return
    if hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return
    path, line, reason = report.longrepr
    if reason.removeprefix("Skipped: ").startswith(NOT_APPLICABLE):
        return
    report.outcome = "failed"
    report.longrepr = f"{path}:{line}: skipped although HISTORY_REQUIRE_ALL=1: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report
