"""The REST API of OpenCode 1: whole sessions at a time, and lists that know one directory.

1.2 and later list every project's sessions at /experimental/session; before, each directory
has to be asked for its own. 1.18 also keeps messages of its early V2 API, apart from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from sync.decode_v1 import message_v1
from sync.errors import SourceUnavailable
from sync.model import (
    BadRecord,
    Project,
    Session,
    SessionCopy,
    SessionRef,
    Unchanged,
)
from sync.sources.api_client import Answer, ApiClient, NotFound, NotJson, Refused, ServiceFault
from sync.sources.api_v2 import SESSIONS, read_messages
from sync.sources.api_values import (
    Messages,
    project_value,
    session_ref,
    session_value,
    stamp,
    todo_values,
)
from sync.values import filled, mapping, sequence

ALL_SESSIONS = "/experimental/session"
PAGE = 1000
MESSAGES_PAGE = 64


class V1:
    """How to ask a service of OpenCode 1. Ask features() before anything else."""

    event_path = "/global/event"

    def __init__(self, client: ApiClient, directories: dict[str, str]) -> None:
        """directories: of the sessions seen; before 1.2 each is found in its own only."""
        self.client = client
        self.directories = directories
        self.lists_all = False
        self.has_early_v2 = False

    def features(self) -> None:
        """Find out what this version can do. Raises SourceUnavailable."""
        self.lists_all = isinstance(self._try(ALL_SESSIONS), list)
        self.has_early_v2 = isinstance(mapping(self._try(SESSIONS)).get("data"), list)

    def projects(self) -> Iterator[Project | BadRecord]:
        for item in sequence(self.client.get("/project").data):
            yield project_value(item, "GET /project")

    def sessions(self) -> Iterator[SessionRef | BadRecord]:
        seen = set()
        for item in self._all_sessions() if self.lists_all else self._by_directory():
            ref = session_ref(item, "GET /session")
            if isinstance(ref, SessionRef):
                if ref.id in seen:
                    continue
                seen.add(ref.id)
                if ref.directory is not None:
                    self.directories[ref.id] = ref.directory
            yield ref

    def find(self, session_id: str) -> SessionRef | None:
        data = self._session(session_id)
        if data is None:
            return None
        found = session_ref(data, f"GET /session/{session_id}")
        if isinstance(found, BadRecord):
            raise SourceUnavailable(f"{self.client.name} answered {found.item} with {found.reason}")
        return found

    def read(self, session_id: str, known: Mapping[str, str]) -> SessionCopy | None:
        data = self._session(session_id)
        if data is None:
            return None
        session = session_value(data)
        try:
            messages = self._messages(session, known)
            todos = self._of_session(session_id, "/todo").data
        except NotFound as error:
            if error.tag == "NotFoundError":
                return None
            raise
        if self.has_early_v2:
            early = read_messages(self.client, session, known)
            if early is None:
                return None
            messages = messages.merged(early)
        messages.todos = todo_values(todos) or None
        return messages.copy_of(session)

    def _messages(self, session: Session, known: Mapping[str, str]) -> Messages:
        messages = Messages()
        try:
            items = _list(self._of_session(session.id, "/message"), self.client)
            fault = None
        except NotFound:
            raise
        except (Refused, ServiceFault) as error:
            items, fault = self._newest_messages(session.id, error)
        if fault is not None:
            messages.add(None, _unsent(session.id, None, str(fault)))
            sent = {filled(mapping(mapping(item).get("info")).get("id")) for item in items}
            for message_id in known.keys() - sent:
                messages.add(None, _unsent(session.id, message_id, "it is older than one of those"))
        for item in items:
            _add(messages, session, item, known)
        return messages

    def _newest_messages(
        self, session_id: str, fault: SourceUnavailable
    ) -> tuple[list[object], SourceUnavailable]:
        """Return the messages after the last one that the service cannot send, oldest first.

        Raises fault where not even the newest comes.
        """
        newest: list[object] = []
        limit, before = MESSAGES_PAGE, ""
        while True:
            params = {"limit": str(limit)} | ({"before": before} if before else {})
            try:
                answer = self._of_session(session_id, "/message", params)
            except NotFound:
                raise
            except (Refused, ServiceFault) as error:
                if limit > 1:
                    limit //= 2
                    continue
                if not newest:
                    raise fault from error
                return newest, error
            items = _list(answer, self.client)
            newest = [*items, *newest]
            if not items or answer.cursor in (None, before):
                return newest, fault
            before = answer.cursor or ""

    def _all_sessions(self) -> Iterator[object]:
        """Page by time of update; sessions of the same millisecond may stand on two pages."""
        params = {"limit": str(PAGE), "archived": "true"}
        cursor: int | None = None
        while True:
            answer = self.client.get(
                ALL_SESSIONS, params | ({} if cursor is None else {"cursor": str(cursor)})
            )
            items = _list(answer, self.client)
            yield from items
            if answer.cursor is None or not items:
                return
            try:
                following = int(answer.cursor)
            except ValueError as error:
                raise SourceUnavailable(
                    f"{self.client.name} answered {ALL_SESSIONS} with a cursor that is no time"
                ) from error
            # The next page holds what is older than the cursor. One more keeps those of the
            # very same millisecond, unless they fill a whole page.
            following += 1
            if cursor is not None and following >= cursor:
                following = cursor - 1
            cursor = following

    def _by_directory(self) -> Iterator[object]:
        projects = [mapping(p) for p in sequence(self.client.get("/project").data)]
        directories = {filled(project.get("worktree")) for project in projects}
        for project in projects:
            directories |= {filled(sandbox) for sandbox in sequence(project.get("sandboxes"))}
        directories |= set(self.directories.values())
        yield from sequence(self.client.get("/session").data)
        for directory in sorted(d for d in directories if d is not None):
            yield from sequence(self.client.get("/session", {"directory": directory}).data)

    def _session(self, session_id: str) -> object | None:
        try:
            return self._of_session(session_id, "").data
        except NotFound as error:
            if error.tag != "NotFoundError":
                raise
            if not self.lists_all and session_id not in self.directories:
                raise SourceUnavailable(
                    f"{self.client.name} does not say in which directory {session_id} is"
                ) from error
            return None

    def _of_session(
        self, session_id: str, rest: str, params: Mapping[str, str] | None = None
    ) -> Answer:
        params = dict(params or {})
        if not self.lists_all and (directory := self.directories.get(session_id)):
            params["directory"] = directory
        return self.client.get(f"/session/{quote(session_id, safe='')}{rest}", params)

    def _try(self, path: str) -> object | None:
        try:
            return self.client.get(path, {"limit": "1"}).data
        except (Refused, NotJson, ServiceFault):
            return None


def _list(answer: Answer, client: ApiClient) -> list[object]:
    if not isinstance(answer.data, list):
        raise SourceUnavailable(f"{client.name} answered with something else than a list")
    return answer.data


def _unsent(session_id: str, message_id: str | None, reason: str) -> BadRecord:
    item = f"message {message_id}" if message_id else f"messages of session {session_id}"
    return BadRecord(
        item=item,
        reason=f"the service cannot send one or more of them: {reason}",
        session_id=session_id,
        message_id=message_id,
    )


def _add(messages: Messages, session: Session, item: object, known: Mapping[str, str]) -> None:
    info = mapping(mapping(item).get("info"))
    message_id = filled(info.get("id"))
    if message_id is None:
        record = BadRecord(
            item=f"a message of session {session.id}", reason="no id", session_id=session.id
        )
        messages.add(None, record)
        return
    digest = stamp("1", item)
    if known.get(message_id) == digest:
        messages.add(info.get("time"), Unchanged(message_id))
        return
    messages.add(
        info.get("time"),
        message_v1(
            message_id,
            info,
            sequence(mapping(item).get("parts")),
            stamp=digest,
            row_ms=None,
            directory=session.directory,
        ),
    )
