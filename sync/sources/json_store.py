"""OpenCode's JSON store: the sessions of 1.1 and before, and what later versions left of them.

Listing reads the session and message files, which are small, but no parts. A session's
activity is the latest of its own time and its messages' times of creation: files may have been
copied, so theirs tell nothing, and the database that a store was imported into has no more.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sync.decode_session import project_from_object, session_from_object, todo
from sync.decode_v1 import message_v1
from sync.errors import SourceUnavailable
from sync.hookspecs import Probe, SyncConfig, hookimpl
from sync.model import (
    RANK_JSON,
    BadRecord,
    Message,
    Project,
    Session,
    SessionCopy,
    SessionRef,
    SourceKind,
    Todo,
    Unchanged,
)
from sync.sources.generations import json_imported_ms, stranded
from sync.sources.json_tree import (
    Closed,
    File,
    Tree,
    bad_record,
    file_or_none,
    folder_mtime_ns,
    json_files,
    tree_of_storage,
    trees_of_projects,
)
from sync.sources.order import Header, after_parents, merge, part_age
from sync.tool_output import ToolOutputs
from sync.values import filled, mapping, sequence, time_ms

UNREADABLE = "!"
"""Ends the stamp of a message of which a part could not be read, so that it is read again."""


@hookimpl
def register_sources(config: SyncConfig) -> Sequence[Probe]:
    """Find the JSON store of each data directory, and the older ones of single projects."""
    probes = []
    for folder in config.data_dirs:
        storage, projects = folder / "storage", folder / "project"
        if _is_there(storage / "session"):
            probes.append(_probe(storage))
        elif _is_there(storage):
            probes.append(Probe(location=str(storage), what="no sessions in it"))
        if any(projects.glob("*/storage/session/info")):
            probes.append(_probe(projects))
    return probes


def _is_there(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:
        return True  # nobody may look into it, and so reading it says why


def _probe(root: Path) -> Probe:
    return Probe(location=str(root), what="JSON store", source=JsonSource(root))


@dataclass(frozen=True, slots=True)
class _Note:
    """What listing needs of a message. data: its object, empty where it cannot be read."""

    file: File
    created_ms: int
    parent: str | None
    data: Mapping[str, object]


class JsonSource:
    """The sessions below a folder ``storage``, or below ``project`` for stores before 0.6."""

    kind: SourceKind = "storage"
    authoritative = True
    remote = False

    def __init__(self, root: Path, *, pause: Callable[[float], None] = time.sleep) -> None:
        """pause: waits a number of seconds, where a file may be half-written."""
        self.root = root
        self.location = str(root)
        self._pause = pause

    def signature(self) -> str | None:
        """Return what differs after a session or message was written or a part added.

        A part that is rewritten in place is followed by its message, when the step ends.
        """
        digest = count = 0
        closed = Closed()
        for tree in self._trees():
            held = (*tree.sessions, *closed.folders(tree.messages), tree.projects, tree.todos)
            for folder in held:
                for file in closed.files(folder):
                    digest = zlib.crc32(file.mark.encode("utf-8", "replace"), digest)
                    count += 1
            for folder in _part_folders(tree, closed):
                mark = f"{folder.name}:{folder_mtime_ns(folder)}"
                digest = zlib.crc32(mark.encode("utf-8", "replace"), digest)
        return f"{count} {digest:x} {closed.count} {self._imported_ms()}"

    def projects(self) -> Iterator[Project | BadRecord]:
        closed = Closed()
        for tree in self._trees():
            for file in closed.files(tree.projects):
                try:
                    yield project_from_object(file.stem, tree.read_object(file))
                except (ValueError, OSError) as error:
                    yield bad_record(file.path, error)
        yield from closed.records(hide_sessions=False)

    def sessions(self) -> Iterator[SessionRef | BadRecord]:
        imported_ms = self._imported_ms()
        closed = Closed()
        held: dict[str, list[tuple[Tree, File]]] = {}
        known: list[tuple[Tree, set[str]]] = []
        for tree in self._trees():
            files = [file for folder in tree.sessions for file in closed.files(folder)]
            for file in files:
                held.setdefault(file.stem, []).append((tree, file))
            known.append((tree, {file.stem for file in files}))
        for places in held.values():
            yield self._ref(*_latest(places), imported_ms)
        yield from closed.records(hide_sessions=True)
        for tree, names in known:
            yield from _orphans(tree, None if closed.count else names)

    def read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        if not _is_name(session_id):
            return None
        places = [(tree, file) for tree in self._trees() for file in tree.session_files(session_id)]
        return self._copy(*_latest(places), known) if places else None

    def additions(self, session_id: str) -> Iterator[Message]:
        """Yield what was written after the store had been copied into a database."""
        imported_ms = self._imported_ms()
        copy = self.read(session_id, {})
        if copy is None:
            return
        for message in copy.messages:
            if not isinstance(message, Message):
                continue
            if _is_later(copy.session, message.created_ms, imported_ms):
                yield replace(message, only_in="json")

    def close(self) -> None: ...

    def _trees(self) -> Iterable[Tree]:
        if not self.root.is_dir():
            raise SourceUnavailable(f"{self.location}: no such folder")
        try:
            if self.root.name == "project":
                trees = list(trees_of_projects(self.root))
            else:
                trees = [tree_of_storage(self.root)]
        except OSError as error:
            raise SourceUnavailable(f"{self.location}: {error.strerror}") from error
        return [replace(tree, pause=self._pause) for tree in trees]

    def _imported_ms(self) -> int | None:
        return json_imported_ms(self.root.parent)

    def _ref(self, tree: Tree, file: File, imported_ms: int | None) -> SessionRef | BadRecord:
        try:
            data = tree.read_object(file)
            notes = list(_notes(tree, file.stem))
        except (ValueError, OSError) as error:
            return bad_record(file.path, error, session_id=file.stem, hides_session=True)
        session = _session(tree, file, data, notes)
        marks = [file.mark]
        later = []
        for note in notes:
            parts = folder_mtime_ns(tree.part_folder(file.stem, note.file.stem))
            marks.append(f"{note.file.mark}:{parts}")
            if _is_later(session, note.created_ms, imported_ms):
                later.append(marks[-1])
        todos = file_or_none(tree.todos / f"{file.stem}.json") if tree.todos else None
        marks.append(todos.mark if todos else "")
        return SessionRef(
            id=file.stem,
            title=session.title,
            project_id=session.project_id,
            directory=session.directory,
            activity_ms=session.updated_ms,
            rank=RANK_JSON,
            version=f"{zlib.crc32(' '.join(marks).encode('utf-8', 'replace')):x}",
            holds="json",
            adds=f"{zlib.crc32(' '.join(later).encode('utf-8', 'replace')):x}" if later else "",
            stranded=stranded(session.created_ms, imported_ms),
        )

    def _copy(self, tree: Tree, file: File, known: Mapping[str, str]) -> SessionCopy:
        try:
            data = tree.read_object(file)
            notes = list(_notes(tree, file.stem))
        except (ValueError, OSError) as error:
            raise SourceUnavailable(f"{file.path}: {error}") from error
        session = replace(_session(tree, file, data, notes), todos=_todos(tree, file.stem))
        messages = _messages(tree, session, notes, known)
        return SessionCopy(
            session=session, messages=_whole(ToolOutputs(self.root.parent), messages)
        )


def _latest(places: Sequence[tuple[Tree, File]]) -> tuple[Tree, File]:
    """Return where a session was last active: moving to another project may leave it behind."""
    return places[0] if len(places) == 1 else max(places, key=lambda place: _activity(*place))


def _activity(tree: Tree, file: File) -> tuple[int, int]:
    try:
        data = tree.read_object(file)
        notes = list(_notes(tree, file.stem))
    except (ValueError, OSError):
        return (-1, -1)
    # Both files may share their messages, and then their own times decide.
    own = _session(tree, file, data, ())
    return (_session(tree, file, data, notes).updated_ms, own.updated_ms)


def _session(tree: Tree, file: File, data: Mapping[str, object], notes: Sequence[_Note]) -> Session:
    own = mapping(data.get("time"))
    times = [time_ms(own.get("created")), time_ms(own.get("updated"))]
    activity = max([t or 0 for t in times] + [note.created_ms for note in notes])
    session = session_from_object(file.stem, data, activity)
    project = None if tree.nested else file.path.parent.name
    return replace(
        session,
        project_id=session.project_id or project,
        directory=session.directory or _working_directory(notes),
    )


def _working_directory(notes: Sequence[_Note]) -> str | None:
    """Sessions before 0.6 do not say where they were; their answers do."""
    for note in notes:
        if found := filled(mapping(note.data.get("path")).get("cwd")):
            return found
    return None


def _notes(tree: Tree, session_id: str) -> Iterator[_Note]:
    for file in json_files(tree.messages / session_id):
        try:
            data = tree.read_object(file)
        except (ValueError, OSError):
            data = {}  # reported when the session is read
        created = time_ms(mapping(data.get("time")).get("created")) or 0
        yield _Note(file, created, filled(data.get("parentID")), data)


def _messages(
    tree: Tree, session: Session, notes: Sequence[_Note], known: Mapping[str, str]
) -> Iterator[Message | Unchanged | BadRecord]:
    by_id = {note.file.stem: note for note in notes}
    headers = [
        Header(note.file.stem, "v1", number, note.created_ms, 0, "")
        for number, note in enumerate(notes)
    ]
    parents = {note.file.stem: note.parent for note in notes if note.parent}
    for header in after_parents(merge(headers, []), parents):
        yield from _message(tree, session, by_id[header.id].file, known)


def _is_later(session: Session, moment_ms: int, imported_ms: int | None) -> bool:
    """Tell whether the import, which took the session, was before a message of it."""
    return imported_ms is not None and session.created_ms <= imported_ms < moment_ms


def _whole(
    outputs: ToolOutputs, messages: Iterator[Message | Unchanged | BadRecord]
) -> Iterator[Message | Unchanged | BadRecord]:
    for message in messages:
        yield outputs.fill(message) if isinstance(message, Message) else message


def _message(
    tree: Tree, session: Session, file: File, known: Mapping[str, str]
) -> Iterator[Message | Unchanged | BadRecord]:
    message_id = file.stem
    try:
        files = json_files(tree.part_folder(session.id, message_id))
        undone = _undone_part(session, message_id)
        stamp = _stamp(session, file, files, undone)
        if known.get(message_id) == stamp:
            yield Unchanged(message_id)
            return
        data = tree.read_object(file)
    except (ValueError, OSError) as error:
        yield bad_record(file.path, error, session_id=session.id, message_id=message_id)
        return
    parts = list(sequence(data.get("parts")))
    bad = []
    reverted_from = None
    for part in sorted(files, key=lambda part: (part_age(message_id, part.stem), part.stem)):
        if part.stem == undone:
            reverted_from = len(parts)
        try:
            parts.append(tree.read_object(part))
        except (ValueError, OSError) as error:
            bad.append(bad_record(part.path, error, session_id=session.id))
    yield message_v1(
        message_id,
        data,
        parts,
        stamp=stamp + UNREADABLE if bad else stamp,
        row_ms=session.created_ms,
        directory=session.directory,
        reverted_from=reverted_from,
    )
    yield from bad


def _undone_part(session: Session, message_id: str) -> str | None:
    """Return the part from which on a revert undid the message, where it names one."""
    revert = session.revert
    return revert.part_id if revert is not None and revert.message_id == message_id else None


def _stamp(session: Session, file: File, parts: Sequence[File], undone: str | None) -> str:
    marks = [session.directory or "", file.mark, *(part.mark for part in parts)]
    if undone:
        marks.append(f"r{undone}")
    return f"j:{zlib.crc32(' '.join(marks).encode('utf-8', 'replace')):x}"


def _todos(tree: Tree, session_id: str) -> tuple[Todo, ...] | None:
    """Return the list that the store keeps, None where there is none that can be read."""
    file = file_or_none(tree.todos / f"{session_id}.json") if tree.todos else None
    if file is None:
        return None
    try:
        items = sequence(tree.read_json(file))
    except (ValueError, OSError):
        return None
    return tuple(found for item in items if (found := todo(item)) is not None)


def _orphans(tree: Tree, sessions: set[str] | None) -> Iterator[BadRecord]:
    """Yield messages without a session and parts without a message.

    sessions: None where not all of them could be listed.
    Empty folders, and whatever else a deletion leaves behind, are nothing to report.
    """
    messages: set[str] = set()
    closed = Closed()
    for folder in closed.folders(tree.messages):
        files = closed.files(folder)
        messages.update(file.stem for file in files)
        if files and sessions is not None and folder.name not in sessions:
            yield BadRecord(item=str(folder), reason=f"messages without a session: {len(files)}")
    for folder in _part_folders(tree, closed):
        if folder.name not in messages and not closed.count and (files := closed.files(folder)):
            yield BadRecord(item=str(folder), reason=f"parts without a message: {len(files)}")
    yield from closed.records(hide_sessions=False)


def _part_folders(tree: Tree, closed: Closed) -> Iterator[Path]:
    for folder in closed.folders(tree.parts):
        if tree.nested:
            yield from closed.folders(folder)
        else:
            yield folder


def _is_name(text: str) -> bool:
    return text not in ("", ".", "..") and "/" not in text and "\\" not in text
