"""List one source: note what it holds, and take away what it says is gone."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from sync.errors import SourceError, SourceUnavailable
from sync.index import Index, fingerprint
from sync.model import BadRecord, LiveSource, SessionRef, Source
from sync.values import clean, is_id

log = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK = 1_000
"""Sessions that are noted in one transaction."""

CURRENT_MS = 60_000

MAX_QUESTIONS = 200
"""Sessions missing from a live source's listing that one listing asks about, one by one."""


@dataclass(slots=True)
class Listed:
    """What one listing found.

    sessions: how many it holds. skipped: it has not changed since the last listing.
    changed: those that are new or differ from the last listing. dropped: those that it no
    longer holds. removed: how many of these left the index, no other source having them.
    """

    sessions: int = 0
    skipped: bool = False
    changed: list[SessionRef] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    removed: int = 0
    problems: list[BadRecord] = field(default_factory=list)


def list_source(
    index: Index,
    source_id: int,
    source: Source,
    listed: Listed,
    *,
    now_ms: Callable[[], int],
    keep: bool = False,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Bring the notes on what a source holds up to date.

    listed: filled as things are noted, so that it is right also where an error ends this.
    keep: sessions that are gone stay in the index, marked. between: called after each part,
    outside of transactions.
    Raises SourceError where the source cannot be listed whole, whatever went wrong in it.
    """
    began = now_ms()
    with _asking(source):
        signature = source.signature()
    if signature is not None and signature == index.source_signature(source_id):
        listed.skipped = True
        note_current(index, source_id, now_ms=began)
        return
    _save_projects(index, source, listed)
    # Compared with what was noted before: what others note meanwhile is not missing here.
    before = index.copies(source_id)
    seen: set[str] = set()
    for chunk in _chunks(map(_named, _each(source, source.sessions))):
        refs = [ref for ref in chunk if isinstance(ref, SessionRef)]
        listed.problems += [record for record in chunk if isinstance(record, BadRecord)]
        with index.transaction():
            index.record_copies(source_id, refs)
        listed.sessions += len(refs)
        listed.changed += [ref for ref in refs if before.get(ref.id) != fingerprint(ref)]
        seen.update(ref.id for ref in refs)
        between()
    # Whoever began to read a session before this may have seen what is missing now, and must
    # not bring it back: without a copy noted, nobody would ever take it away again.
    read_at = now_ms()
    gone = _gone(source, [session_id for session_id in before if session_id not in seen], listed)
    with index.transaction():
        for session_id in gone:
            drop_session(index, source_id, session_id, listed, at_ms=read_at, keep=keep)
        index.replace_problems(source_id, "list", listed.problems, now_ms=began)
        index.source_listed(source_id, listed_at_ms=began, signature=signature)
        index.settle_stranded()


def note_current(index: Index, source_id: int, *, now_ms: int) -> None:
    """Note, to the minute, that nothing of a source is known to be missing."""
    if now_ms - (index.source_listed_at(source_id) or 0) >= CURRENT_MS:
        with index.transaction():
            index.source_current(source_id, now_ms=now_ms)


def drop_session(
    index: Index, source_id: int, session_id: str, listed: Listed, *, at_ms: int, keep: bool
) -> None:
    """Note that a source no longer has a session; take it away where nobody else has it."""
    listed.dropped.append(session_id)
    if index.drop_copy(source_id, session_id):
        listed.removed += index.remove_session(session_id, deleted_at_ms=at_ms, keep=keep)


def _gone(source: Source, missing: list[str], listed: Listed) -> list[str]:
    """Return those of the missing sessions that the source no longer has, as it knows."""
    hiding = [record for record in listed.problems if record.hides_session]
    if source.authoritative:
        if any(record.session_id is None for record in hiding):
            return []
        hidden = {record.session_id for record in hiding}
        return [session_id for session_id in missing if session_id not in hidden]
    if not isinstance(source, LiveSource):
        return []
    gone = []
    for session_id in random.sample(missing, min(len(missing), MAX_QUESTIONS)):
        try:
            if source.find(session_id) is None:
                gone.append(session_id)
        except SourceError as error:
            log.debug("%s does not say whether it has %s: %s", source.location, session_id, error)
    return gone


def _save_projects(index: Index, source: Source, listed: Listed) -> None:
    projects = []
    for project in _each(source, source.projects):
        if isinstance(project, BadRecord):
            listed.problems.append(project)
        else:
            projects.append(project)
    with index.transaction():
        index.save_projects(projects)


@contextmanager
def _asking(source: Source) -> Iterator[None]:
    """Turn whatever a source raises into a SourceError: it must not stop the others."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise SourceUnavailable(f"{source.location}: {reason}") from error


def _each(source: Source, items: Callable[[], Iterator[T]]) -> Iterator[T]:
    with _asking(source):
        iterator = iter(items())
    while True:
        with _asking(source):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


def _named(found: SessionRef | BadRecord) -> SessionRef | BadRecord:
    """Turn a session that could not be asked for by its id into a record of that."""
    if isinstance(found, BadRecord) or is_id(found.id):
        return found
    return BadRecord(
        item=f"session {clean(found.id)!r}", reason="its id is empty, or no text that can be stored"
    )


def _chunks(
    refs: Iterator[SessionRef | BadRecord],
) -> Iterator[list[SessionRef | BadRecord]]:
    while chunk := list(islice(refs, CHUNK)):
        yield chunk
