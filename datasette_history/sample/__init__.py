"""A small OpenCode database to try things on where there is no history yet.

It was recorded from OpenCode 1.18.33 with a scripted model: 44 sessions in three invented
projects, with subagents, forks, reverts, failing tools and titles that hold markup. Only the
tables that hold history were kept; none that holds credentials is in it.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

SAMPLE_NAME = "opencode.db"


def sample_database(target_dir: Path) -> Path:
    """Write the sample's ``opencode.db`` into a folder and return its path.

    Folders are created with mode 0700 where they are missing; the file has mode 0600 and
    replaces an earlier one at once, never leaving half of it. Raises OSError where the folder
    cannot be written.
    """
    for folder in reversed([target_dir, *target_dir.parents]):
        folder.mkdir(mode=0o700, exist_ok=True)
    packed = Path(__file__).with_name(f"{SAMPLE_NAME}.gz").read_bytes()
    target = target_dir / SAMPLE_NAME
    partial = target_dir / f".{SAMPLE_NAME}.{os.getpid()}"
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(gzip.decompress(packed))
    partial.replace(target)
    return target
