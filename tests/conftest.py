"""Fixtures that several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SAMPLES_VARIABLE = "OPENCODE_SAMPLES"


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of recorded OpenCode histories; read it only, copy databases before opening."""
    beside = Path(__file__).parents[2] / "shared" / "opencode" / "samples"
    folder = Path(os.environ.get(SAMPLES_VARIABLE) or beside)
    if not (folder / "mixed").is_dir():
        pytest.skip(f"no recorded histories at {folder}; name their folder in {SAMPLES_VARIABLE}")
    return folder
