"""Where the files that ship with the package stand."""

from __future__ import annotations

from pathlib import Path


def metadata_path() -> Path:
    """Return the path of metadata.yml, for ``datasette --metadata``.

    A wheel holds it inside the package; in a checkout (and an editable install of one) it
    stands at the top of the repository, beside the package. Raises FileNotFoundError where
    it is in neither place, which means a broken install.
    """
    package = Path(__file__).resolve().parent
    candidates = (package / "metadata.yml", package.parent / "metadata.yml")
    for path in candidates:
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"metadata.yml is missing: looked for {candidates[0]} and {candidates[1]}; "
        "install datasette-history again"
    )
