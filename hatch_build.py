"""Puts metadata.yml, which stands at the top of the repository, into the wheel's package."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MetadataIntoPackage(BuildHookInterface):  # type: ignore[type-arg]  # one builder, one config
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install reads the file where it stands. A copy beside the path entry would
        # be a second, stale one, in a folder that looks like a namespace package.
        if version != "editable":
            build_data["force_include"]["metadata.yml"] = "datasette_history/metadata.yml"
