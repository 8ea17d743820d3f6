"""A message as a page shows it: its pieces in order, those of one tool call together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from markupsafe import Markup

from datasette_history.pages.calls import Call, Child, Excerpt, build_call, excerpt
from datasette_history.pages.conversation import Message, Part, Window
from datasette_history.pages.markdown import render_markdown
from datasette_history.pages.shown import one_line, plain_terminal, size

LABELS: Final = {
    "user": "User",
    "assistant": "Assistant",
    "shell": "Shell",
    "compaction": "Compaction",
    "synthetic": "Added by OpenCode",
    "system": "System",
    "skill": "Skill",
    "agent-switched": "Agent switched",
    "model-switched": "Model switched",
    "location-switched": "Moved",
    "idle": "Idle",
}

NORMAL_ENDS: Final = frozenset({"stop", "tool-calls", "end_turn", "tool_use", "end-turn"})

_FOLDED: Final = {
    "reasoning": "Reasoning",
    "summary": "Summary of the conversation so far",
    "subtask": "Prompt for a subagent",
    "synthetic": "Added by OpenCode",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """What the role said, as HTML."""

    html: Markup
    kind: str = "prose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Something long that is read when wanted. open: shown from the start."""

    label: str
    html: Markup
    size: str
    what: str
    open: bool = False
    kind: str = "fold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Attached files, mentioned agents or changed paths, by name with a remark."""

    label: str
    what: str
    items: Sequence[tuple[str, str]]
    kind: str = "names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An error of the whole message, or a retry."""

    label: str
    text: Excerpt
    kind: str = "trouble"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """A command that the user ran."""

    command: str
    outputs: Sequence[Excerpt]
    kind: str = "terminal"


Block = Prose | Fold | Names | Trouble | Terminal | Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message with the blocks that it is made of.

    continues: goes on after the message before it, of the same agent and model.
    ended: how it ended, where that is out of the ordinary.
    """

    message: Message
    label: str
    continues: bool
    ended: str
    blocks: Sequence[Block]


def show(window: Window, children: Sequence[Child] = ()) -> list[Shown]:
    """Return the messages of a window as they are shown."""
    shown: list[Shown] = []
    before: Message | None = None
    for message in window.messages:
        shown.append(show_message(message, children, before))
        before = message
    return shown


def show_message(
    message: Message, children: Sequence[Child] = (), before: Message | None = None
) -> Shown:
    finish = message.finish or ""
    return Shown(
        message=message,
        label=LABELS.get(message.role, message.role),
        continues=before is not None and _same_speaker(before, message),
        ended="" if finish in NORMAL_ENDS else one_line(finish, 60),
        blocks=list(_blocks(message, children)),
    )


def _same_speaker(before: Message, message: Message) -> bool:
    if before.role != "assistant":
        return False
    return all(
        getattr(before, name) == getattr(message, name)
        for name in ("role", "agent", "provider", "model", "reverted", "copied")
    )


def _blocks(message: Message, children: Sequence[Child]) -> Iterator[Block]:
    for key, group in groupby(message.parts, _group):
        parts = list(group)
        if key[0] == "call":
            yield build_call(parts, children)
        elif key[0] in _GROUPS:
            yield from _names(key[0], parts)
        elif key[0] == "command":
            yield from _terminals(parts)
        else:
            yield from _single(message, parts)


def _group(part: Part) -> tuple[str, int | None]:
    if part.call is not None:
        return "call", part.call
    if part.kind in ("command", "output"):
        return "command", None
    return part.kind, None


_GROUPS: Final = {
    "file": "Attached",
    "agent": "Agents mentioned",
    "path": "Files changed in this step",
}


def _names(kind: str, parts: Sequence[Part]) -> Iterator[Names]:
    items = [
        (line, part.name or "") for part in parts for line in part.text.split("\n") if line.strip()
    ]
    if items:
        yield Names(label=_GROUPS[kind], what=kind, items=items)


def _terminals(parts: Sequence[Part]) -> Iterator[Terminal]:
    """A command with the outputs behind it; outputs may also come alone."""
    command, outputs = "", list[Excerpt]()
    for part in parts:
        if part.kind == "command":
            if command or outputs:
                yield Terminal(command=command, outputs=outputs)
            command, outputs = plain_terminal(part.text), []
        elif part.text:
            outputs.append(excerpt(part, terminal=True))
    if command or outputs:
        yield Terminal(command=command, outputs=outputs)


def _single(message: Message, parts: Sequence[Part]) -> Iterator[Block]:
    for part in parts:
        if not part.text.strip():
            continue
        if part.kind in ("error", "retry"):
            label = "Error" if part.kind == "error" else "Retried"
            yield Trouble(label=label, text=excerpt(part))
        elif part.kind == "text" and part.own:
            yield Prose(html=render_markdown(part.text, breaks=message.role == "user"))
        else:
            yield _fold(part)


def _fold(part: Part) -> Fold:
    return Fold(
        label=_FOLDED.get(part.kind, "Added by OpenCode" if part.kind == "text" else part.kind),
        html=render_markdown(part.text),
        size=size(len(part.text)),
        what="synthetic" if part.kind == "text" else part.kind,
    )
