"""``opencode-history audit``: secrets that ended up in the history."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from datasette_history.config import MAX_TIME_LIMIT_MS
from datasette_history.errors import HistoryError
from datasette_history.pages.shown import visible
from datasette_history.render import iso
from sync.cli.ask import question
from sync.cli.options import index_option
from sync.cli.read import fail
from sync.report import plural
from sync.secret_patterns import find_secrets, masked

FOUND = 1
"""Exit code where there is something to look at."""


@dataclass(slots=True)
class Finding:
    """One secret of a session. times: how often it occurs. messages: ids, '' for the title."""

    kind: str
    secret: str
    times: int = 0
    messages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Audited:
    """A session with secrets, which are masked, also where its title holds one."""

    session_id: str
    title: str
    updated: str | None
    secrets: list[Finding]


@click.command()
@click.argument("session_ids", nargs=-1, metavar="[SESSION]...")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON")
@index_option
def audit(session_ids: Sequence[str], as_json: bool, index_path: Path) -> None:
    """Report likely secrets in all sessions, or in some, without printing them whole

    Looks for private keys, the tokens of common services, passwords in URLs and random-looking
    values of names such as password or api_key. What is found should be revoked where it was
    issued; `forget` takes its session out of the index.

    Exit codes: 0 nothing found, 1 likely secrets found or no index, 2 wrong usage.

    Example:

    \b
        opencode-history audit
        opencode-history audit --json | jq -r '.[].session_id'
    """
    try:
        found = question(
            index_path,
            lambda conn: list(_audited(conn, session_ids)),
            time_limit_ms=MAX_TIME_LIMIT_MS,
        )
    except HistoryError as error:
        fail(error, as_json=as_json)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
    else:
        for line in _lines(found):
            click.echo(line)
    sys.exit(FOUND if found else 0)


def _audited(conn: sqlite3.Connection, session_ids: Sequence[str]) -> Iterator[Audited]:
    rows = conn.execute(
        """
        SELECT s.id, s.title, s.updated, d.message_id, d.text
        FROM sessions s JOIN documents d ON d.session_id = s.id
        WHERE :every OR s.id IN (SELECT value FROM json_each(:ids))
        ORDER BY s.updated DESC, s.id, d.seq
        """,
        {"every": not session_ids, "ids": json.dumps(list(session_ids))},
    )
    for (session_id, title, updated), documents in groupby(rows, itemgetter(0, 1, 2)):
        secrets = _secrets(documents)
        if secrets:
            yield Audited(session_id, _without_secrets(title), iso(updated), secrets)


def _secrets(documents: Iterator[Any]) -> list[Finding]:
    found: dict[str, Finding] = {}
    for *_, message_id, text in documents:
        for secret in find_secrets(text):
            whole = text[secret.start : secret.end]
            finding = found.setdefault(whole, Finding(secret.kind, masked(whole)))
            finding.times += 1
            if message_id not in finding.messages:
                finding.messages.append(message_id)
    return list(found.values())


def _without_secrets(title: str) -> str:
    for secret in sorted(find_secrets(title), key=lambda one: one.start, reverse=True):
        title = f"{title[: secret.start]}[secret]{title[secret.end :]}"
    return title


def _lines(found: Sequence[Audited]) -> Iterator[str]:
    for one in found:
        yield f"{visible(one.session_id)}  {one.updated}  {visible(one.title)}"
        for secret in one.secrets:
            at = ", ".join(message or "title" for message in secret.messages[:3])
            more = ", ..." if len(secret.messages) > 3 else ""
            times = f"{secret.times} times" if secret.times > 1 else "once"
            yield f"    {secret.kind}: {visible(secret.secret)}, {times}, in {visible(at)}{more}"
    total = sum(len(one.secrets) for one in found)
    if found:
        yield (
            f"{total} likely {plural(total, 'secret')} in {len(found)} "
            f"{plural(len(found), 'session')}. Revoke them, then take the sessions out of the "
            "index with `opencode-history forget SESSION`"
        )
    else:
        yield "No likely secrets found"
