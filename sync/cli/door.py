"""What ``serve`` opens to whom: Datasette over an index, logins for people, a token for agents."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import yaml
from datasette.app import Datasette
from datasette.plugins import pm

from datasette_history.resources import metadata_path
from sync.cli.guard import App, Receive, Scope, Send
from sync.private_files import AGENT_TOKEN, COOKIE_SECRET, secret_text

AGENT: Final = "agent"
READERS: Final = {"id": ["root", AGENT]}

SETTINGS: Final = {
    # Dashboards and ad-hoc questions over gigabytes take longer than Datasette's second.
    "sql_time_limit_ms": 10_000,
    "facet_time_limit_ms": 1_000,
    "max_returned_rows": 5_000,
    "default_page_size": 50,
    "truncate_cells_html": 300,
    "allow_download": False,
}


def build_datasette(index_path: Path, *, sample: bool, open_access: bool) -> Datasette:
    """Return a Datasette over the index with the packaged metadata; private unless open_access.

    Raises sync.errors.IndexUnusable where the files of secrets beside the index are unusable.
    """
    metadata: dict[str, Any] = yaml.safe_load(metadata_path().read_text(encoding="utf-8"))
    # Datasette names a database after its file.
    databases = metadata.setdefault("databases", {})
    database = databases[index_path.stem] = databases.pop("history", {})
    plugins = metadata.setdefault("plugins", {})
    history = plugins.setdefault("datasette-history", {})
    history.update({"database": index_path.stem, "sample": sample})
    for board in plugins.get("datasette-dashboards", {}).values():
        for asked in (*board["charts"].values(), *board["filters"].values()):
            if "db" in asked:
                asked["db"] = index_path.stem
    if not open_access:
        # Some plugins ask only whether the instance, others only whether the database may be seen.
        metadata["allow"] = database["allow"] = database["allow_sql"] = READERS
        token = index_path.parent / AGENT_TOKEN
        secret_text(token)
        # By the file's name, since Datasette shows its metadata to all who are let in.
        known = {"token": {"$file": str(token)}, "actor": {"id": AGENT}}
        plugins["datasette-auth-tokens"] = {"tokens": [known]}
    # Where rich is installed, Datasette prints errors with the values of all variables, among
    # them the headers with which someone logged in, and rows of the index.
    pm.get_plugin("datasette.handle_exception").rich = None
    return Datasette(
        [str(index_path)],
        metadata=metadata,
        settings=SETTINGS,
        secret=secret_text(index_path.parent / COOKIE_SECRET),
    )


def takes_tokens() -> bool:
    """Tell whether the plugin that knows agents by their token is installed."""
    return find_spec("datasette_auth_tokens") is not None


class LoginLinks:
    """ASGI application around Datasette's that makes a new login link when one was used.

    Each link lets one browser in, so that a link that was left in a log, a history or a chat
    opens nothing, and the next browser has one of its own.

    announce: receives each link, the first at once. base: address of the server.
    """

    def __init__(
        self, app: App, datasette: Datasette, base: str, announce: Callable[[str], None]
    ) -> None:
        self.app = app
        self.datasette = datasette
        self.base = base
        self.announce = announce
        self._announce()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)
        # Datasette has no public name for its token, which it drops on use.
        if self.datasette._root_token is None:
            self.datasette._root_token = secrets.token_hex(32)
            self._announce()

    def _announce(self) -> None:
        path = self.datasette.urls.path("/-/auth-token")
        self.announce(f"{self.base}{path}?token={self.datasette._root_token}")
