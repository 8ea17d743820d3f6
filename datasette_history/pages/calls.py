"""One tool call as a page shows it: what it did, rather than what it was sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup, escape

from datasette_history.pages.code import highlight
from datasette_history.pages.conversation import Part
from datasette_history.pages.diffs import Diff, added, compare, of_patch
from datasette_history.pages.shown import duration, number, one_line, plain_terminal, visible

SHOWN_LINES: Final = 24
"""Lines of a long text that are shown before the rest is asked for."""

SHOWN_CHARACTERS: Final = 4_000

SHELLS: Final = frozenset({"bash", "shell"})
AGENTS: Final = frozenset({"task", "subagent"})
PATH_KEYS: Final = ("filePath", "file_path", "path", "file")
TITLE_KEYS: Final = (
    "description", "command", *PATH_KEYS, "pattern", "query", "url", "name", "prompt"
)  # fmt: skip

_KEY: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The beginning of a text.

    lines_left: lines that are not shown; cut: something is not shown; part: where all is.
    """

    html: Markup
    size: str
    lines_left: int
    cut: bool
    part: int


@dataclass(frozen=True, slots=True)
class Todo:
    status: str
    content: str
    priority: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A session that this one started. title as it is indexed."""

    session_id: str
    title: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call. Of what it was given, only one of diffs, command, todos is filled, and
    fields has the rest; output and error are what came back.

    unclear: of a call that did not end well, its status in words.
    child: the subagent's session.
    """

    kind: str = "call"
    part: int
    name: str
    title: str
    status: str
    took: str
    failed: bool
    diffs: Sequence[Diff] = ()
    command: Markup | None = None
    todos: Sequence[Todo] = ()
    fields: Sequence[tuple[str, Excerpt]] = ()
    outputs: Sequence[Excerpt] = ()
    errors: Sequence[Excerpt] = ()
    terminal: bool = False
    child: Child | None = None

    @property
    def added(self) -> int:
        return sum(diff.added for diff in self.diffs)

    @property
    def removed(self) -> int:
        return sum(diff.removed for diff in self.diffs)


def build_call(rows: Sequence[Part], children: Sequence[Child] = ()) -> Call:
    """Return the call that the rows with one ``call`` number make up."""
    tool = next((row for row in rows if row.kind == "tool"), rows[0])
    name = tool.text if tool.kind == "tool" and tool.text else tool.name or "tool"
    inputs = {row.name or "": row for row in rows if row.kind == "input"}
    values = {key: row.text for key, row in inputs.items()}
    shape = _SHAPES.get(name, _other)(values)
    terminal = name in SHELLS
    failed = tool.status == "error" or any(row.kind == "error" for row in rows)
    return Call(
        part=tool.seq,
        name=visible(name),
        title=_title(tool, values),
        status=tool.status or "",
        took=_took(tool),
        failed=failed,
        diffs=shape.diffs,
        command=shape.command,
        todos=shape.todos,
        fields=[(visible(k), excerpt(r)) for k, r in inputs.items() if k not in shape.used],
        # What a list of todos returns is the same list again.
        outputs=[
            excerpt(row, terminal=terminal)
            for row in rows
            if row.kind == "output" and row.text and not shape.todos
        ],
        errors=[excerpt(r, terminal=True) for r in rows if r.kind == "error" and r.text],
        terminal=terminal,
        child=_child(tool, values, children) if name in AGENTS else None,
    )


def excerpt(part: Part, *, terminal: bool = False) -> Excerpt:
    """Return the beginning of a part's text."""
    text = plain_terminal(part.text) if terminal else visible(part.text)
    text = text.rstrip("\n")
    shown = "\n".join(text[:SHOWN_CHARACTERS].split("\n")[:SHOWN_LINES])
    lines_left = text.count("\n", len(shown) + 1) + 1 if len(shown) < len(text) else 0
    return Excerpt(
        html=escape(shown),
        size=f"{number(len(part.text))} characters",
        lines_left=lines_left,
        cut=len(shown) < len(text),
        part=part.seq,
    )


def unflatten(values: Mapping[str, str]) -> dict[str, Any]:
    """Return inputs as they were nested: ``edits[0].newString`` becomes a list of objects."""
    root: dict[str, Any] = {}
    for key, value in values.items():
        steps: list[str | int] = [int(i) if i else name for i, name in _KEY.findall(key)]
        if steps:
            _put(root, steps, value)
    return {key: _lists(value) for key, value in root.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """used: keys of the inputs that are told in another way than as a field."""

    used: frozenset[str] = frozenset()
    diffs: Sequence[Diff] = ()
    command: Markup | None = None
    todos: Sequence[Todo] = ()


def _put(root: dict[Any, Any], steps: Sequence[str | int], value: str) -> None:
    place = root
    for step in steps[:-1]:
        following = place.setdefault(step, {})
        if not isinstance(following, dict):
            return
        place = following
    place[steps[-1]] = value


def _lists(value: Any) -> Any:
    """Return value with objects that have only numbers for keys turned into lists."""
    if not isinstance(value, dict):
        return value
    inner = {key: _lists(one) for key, one in value.items()}
    if inner and all(isinstance(key, int) for key in inner):
        return [inner[key] for key in sorted(inner)]
    return inner


def _edit(values: Mapping[str, str]) -> _Shape:
    path = _path(values)
    if "oldString" not in values and "newString" not in values:
        return _other(values)
    diff = compare(path, values.get("oldString", ""), values.get("newString", ""))
    return _Shape(used=frozenset({*PATH_KEYS, "oldString", "newString"}), diffs=[diff])


def _write(values: Mapping[str, str]) -> _Shape:
    if "content" not in values:
        return _other(values)
    diff = added(_path(values), values["content"])
    return _Shape(used=frozenset({*PATH_KEYS, "content"}), diffs=[diff])


def _multiedit(values: Mapping[str, str]) -> _Shape:
    edits = unflatten(values).get("edits")
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        return _other(values)
    path = _path(values)
    diffs = [
        compare(_path(edit) or path, str(edit.get("oldString", "")), str(edit.get("newString", "")))
        for edit in edits
    ]
    used = {key for key in values if key.startswith("edits[")} - {
        key for key in values if key.endswith(".replaceAll")
    }
    return _Shape(used=frozenset({*PATH_KEYS, *used}), diffs=diffs)


def _patch(values: Mapping[str, str]) -> _Shape:
    key = next((key for key in ("patchText", "patch", "input") if key in values), None)
    if key is None:
        return _other(values)
    return _Shape(used=frozenset({key}), diffs=of_patch(values[key]))


def _shell(values: Mapping[str, str]) -> _Shape:
    if "command" not in values:
        return _other(values)
    command = highlight(values["command"], "bash")
    return _Shape(used=frozenset({"command", "description"}), command=command)


def _todos(values: Mapping[str, str]) -> _Shape:
    items = unflatten(values).get("todos")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return _other(values)
    todos = [
        Todo(
            one_line(str(item.get("status", ""))),
            visible(str(item.get("content", ""))),
            one_line(str(item.get("priority", ""))),
        )
        for item in items
    ]
    used = frozenset(key for key in values if key.startswith("todos["))
    return _Shape(used=used, todos=todos)


def _other(values: Mapping[str, str]) -> _Shape:
    """The inputs stay fields, but for a lone short one, which the title shows."""
    lone = len(values) == 1 and all("\n" not in v and len(v) <= 120 for v in values.values())
    return _Shape(used=frozenset(values) & frozenset(TITLE_KEYS) if lone else frozenset())


_SHAPES: Final[Mapping[str, Callable[[Mapping[str, str]], _Shape]]] = {
    "edit": _edit,
    "write": _write,
    "multiedit": _multiedit,
    "patch": _patch,
    "apply_patch": _patch,
    "bash": _shell,
    "shell": _shell,
    "todowrite": _todos,
}


def _path(values: Mapping[str, Any]) -> str:
    return next((str(values[key]) for key in PATH_KEYS if values.get(key)), "")


def _title(tool: Part, values: Mapping[str, str]) -> str:
    """Return OpenCode's title of the call, or else the input that says most."""
    if tool.title and tool.title.strip():
        return one_line(tool.title, 160)
    found = next((values[key] for key in TITLE_KEYS if values.get(key, "").strip()), "")
    return one_line(found, 160)


def _took(tool: Part) -> str:
    if tool.started_ms is None or tool.ended_ms is None:
        return ""
    return duration(tool.ended_ms - tool.started_ms)


def _child(tool: Part, values: Mapping[str, str], children: Sequence[Child]) -> Child | None:
    """Return the session that the call started.

    The index keeps no link from call to session. OpenCode names the session after the
    call's description; where it was renamed, only one may have begun during the call.
    """
    description = values.get("description", "").strip()
    named = [c for c in children if description and c.title.startswith(f"{description} (@")]
    if tool.started_ms is not None:
        start = tool.started_ms
        end = tool.ended_ms if tool.ended_ms is not None else start
        during = [c for c in children if start - 2_000 <= c.created_ms <= end + 2_000]
        both = [c for c in during if c in named]
        if both:
            return min(both, key=lambda c: abs(c.created_ms - start))
        if not named and len(during) == 1:
            return during[0]
    return named[0] if len(named) == 1 else None
