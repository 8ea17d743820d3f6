"""Tells whether a file is on a network file system, where neither privacy nor locks hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")

NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "davfs2", "fuse.ceph",
        "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.rclone",
        "fuse.s3fs", "fuse.sshfs", "glusterfs", "gfs2", "lustre", "ncpfs", "nfs", "nfs4",
        "ocfs2", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs",
    }
)  # fmt: skip
"""File systems whose files other machines, or a virtual machine's host, may open at once."""


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the kind of network file system that holds a path; None for a local one.

    None also where the system does not tell: that is so anywhere but on Linux, except for
    Windows' shares.
    """
    if path.drive.startswith("\\\\"):
        return "share"
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    depth, kind = 0, ""
    real = path.resolve()
    for line in lines:
        fields = line.split(" ")
        where = Path(_unescaped(fields[1])) if len(fields) > 2 else None
        # Of two mounts on one place, the later hides the earlier.
        if where and real.is_relative_to(where) and len(where.parts) >= depth:
            depth, kind = len(where.parts), fields[2]
    return kind if kind in NETWORK else None


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)
