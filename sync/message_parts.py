"""Collects the parts and edited files of one message, whichever generation it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sync.model import FileEdit, Part, PartKind, Tokens
from sync.paths import absolute_path, is_windows, patch_paths, uri_basename
from sync.values import (
    MAX_QUANTITY,
    decode_json,
    filled,
    mapping,
    number,
    quantity,
    sequence,
    shrink,
    string,
)

EDIT_TOOLS = frozenset({"edit", "write", "multiedit", "patch", "apply_patch"})
TODO_TOOL = "todowrite"

MAX_INPUT_ROWS = 64
"""An input of more values than this becomes one row, its values one below the other."""
MAX_TODO_ROWS = 4096

_PATH_KEYS = ("filePath", "path", "file_path")
_PATCH_KEYS = ("patchText", "patch_text", "patch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call as its generation tells it.

    input: decoded JSON; a string where the model was still writing it.
    metadata: what the tool noted of itself, such as the files that it wrote.
    files: attachments it returned. cut_to: as in Part, of the longest output.
    """

    name: str
    status: str | None
    input: object
    title: str | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    outputs: Sequence[str] = ()
    error: str | None = None
    metadata: Sequence[Mapping[str, object]] = ()
    files: Sequence[object] = ()
    cut_to: str | None = None


class MessageParts:
    """Parts in the order in which they are added, and each edited file once.

    directory: resolves relative paths; None where it is not known.
    """

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._parts: list[Part] = []
        self._calls = 0
        self._tools: dict[str, str | None] = {}
        self._named: set[str] = set()
        self._snapshot: list[str] = []
        self._standing: tuple[int, frozenset[str]] | None = None

    def add(
        self, kind: PartKind, text: object, *, name: str | None = None, own: bool = True
    ) -> None:
        """Add a part unless it has no text."""
        if isinstance(text, str) and text:
            self._parts.append(Part(kind=kind, text=shrink(text), name=name, own=own))

    def mark_reverted(self) -> None:
        """Note that a revert undid whatever is added from now on."""
        edited = {*self._tools, *map(self._resolve, self._snapshot)}
        self._standing = (len(self._parts), frozenset(edited))

    def add_part(self, part: Part) -> None:
        self._parts.append(part)

    def add_file(self, mime: object, name: object, uri: object, call: int | None = None) -> None:
        """Add an attachment under its name; one without a name, by what its URI says."""
        address = string(uri) or ""
        text = filled(name) or uri_basename(address) or shrink(address)
        self._parts.append(Part(kind="file", text=text, name=string(mime), call=call))

    def add_snapshot(self, files: Iterable[object]) -> None:
        """Note files that a step changed, by whatever means."""
        for file in files:
            path = filled(file) or _first(mapping(file), ("file", "path"))
            if path:
                self._snapshot.append(path)

    def add_call(self, call: Call) -> None:
        """Add the rows of a tool call: its name, input, output, error and files."""
        if call.name == "invalid":
            call = _refused(call)
        number_ = self._calls
        self._calls += 1
        self._parts.append(
            Part(
                kind="tool",
                text=call.name,
                name=call.name,
                call=number_,
                title=call.title,
                status=call.status,
                started_ms=call.started_ms,
                ended_ms=call.ended_ms,
            )
        )
        # The index reads to-do lists off the rows of this call, so it is never cut down.
        limit = MAX_TODO_ROWS if call.name == TODO_TOOL else MAX_INPUT_ROWS
        for key, text in input_rows(call.input, limit):
            self._parts.append(Part(kind="input", text=text, name=key, call=number_))
        longest = max(call.outputs, key=len, default="")
        for output in call.outputs:
            if output:
                cut_to = call.cut_to if output is longest else None
                text = shrink(output)
                self._parts.append(Part(kind="output", text=text, call=number_, cut_to=cut_to))
        if call.error:
            self._parts.append(Part(kind="error", text=shrink(call.error), call=number_))
        for file in map(mapping, call.files):
            uri = file.get("url") or file.get("uri")
            self.add_file(file.get("mime"), file.get("filename") or file.get("name"), uri, number_)
        if call.name.lower() in EDIT_TOOLS:
            self._add_edits(call, number_)

    def finish(self) -> tuple[tuple[Part, ...], tuple[FileEdit, ...]]:
        """Return the parts and the edits; what only a snapshot names comes last."""
        for path in self._snapshot:
            resolved = self._resolve(path)
            if resolved not in self._tools and resolved not in self._named:
                self._parts.append(Part(kind="path", text=self._shown(path, resolved)))
            self._tools.setdefault(resolved, None)
        edits = tuple(FileEdit(path, tool) for path, tool in self._tools.items())
        if self._standing is None:
            return tuple(self._parts), edits
        count, standing = self._standing
        parts = [replace(part, reverted=i >= count) for i, part in enumerate(self._parts)]
        return tuple(parts), tuple(replace(e, reverted=e.path not in standing) for e in edits)

    def _add_edits(self, call: Call, number_: int) -> None:
        named = [self._resolve(path) for path in _input_paths(call.input)]
        self._named.update(named)
        if call.status != "completed":
            return
        for resolved in named:
            self._tools[resolved] = self._tools.get(resolved) or call.name
        for metadata in call.metadata:
            for path in _metadata_paths(metadata):
                resolved = self._resolve(path)
                if resolved not in self._tools and resolved not in self._named:
                    self._parts.append(
                        Part(kind="path", text=self._shown(path, resolved), call=number_)
                    )
                self._tools[resolved] = self._tools.get(resolved) or call.name

    def _resolve(self, path: str) -> str:
        return absolute_path(path, self._directory)

    def _shown(self, path: str, resolved: str) -> str:
        """Windows paths are found as they are typed there, with backslashes."""
        return path if is_windows(path) else resolved


def input_rows(value: object, limit: int = MAX_INPUT_ROWS) -> list[tuple[str, str]]:
    """Return the values of a tool's input with their keys, such as ``edits[0].newString``.

    Past limit values they are one text under the key ''.
    """
    if isinstance(value, str):
        value = _decoded(value)
    rows: list[tuple[str, str]] = []
    # A stack instead of recursion: decoded JSON may be nested as deep as Python's own limit.
    stack: list[tuple[str, object]] = [("", value)]
    while stack:
        key, item = stack.pop()
        if isinstance(item, str):
            rows.append((key, shrink(item)))
        elif isinstance(item, dict):
            stack += [(f"{key}.{k}" if key else str(k), v) for k, v in reversed(item.items())]
        elif isinstance(item, list):
            stack += [(f"{key}[{i}]", item[i]) for i in range(len(item) - 1, -1, -1)]
        elif isinstance(item, bool):
            rows.append((key, "true" if item else "false"))
        elif item is not None:
            rows.append((key, str(item)))
    if len(rows) > limit:
        return [("", "\n".join(text for _, text in rows))]
    return rows


def error_text(value: object) -> str | None:
    """Return ``Name: message`` of an error of either generation, which may be plain text."""
    if isinstance(value, str):
        return value or None
    error = mapping(value)
    name = filled(error.get("name")) or filled(error.get("type"))
    message = filled(error.get("message")) or filled(mapping(error.get("data")).get("message"))
    if name and message and name != "unknown":
        return f"{name}: {message}"
    return message or name


def tokens(value: object) -> Tokens | None:
    """Return the tokens of a message or session object; None where it has none."""
    if not isinstance(value, dict):
        return None
    cache = mapping(value.get("cache"))
    return Tokens(
        input=quantity(value.get("input")) or 0,
        output=quantity(value.get("output")) or 0,
        reasoning=quantity(value.get("reasoning")) or 0,
        cache_read=quantity(cache.get("read")) or 0,
        cache_write=quantity(cache.get("write")) or 0,
    )


def provider_and_model(data: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Return them from wherever a message or session keeps them."""
    model = data.get("model")
    if isinstance(model, str):
        provider, slash, name = model.partition("/")
        return (provider, name) if slash else (filled(data.get("providerID")), model or None)
    nested = mapping(model)
    return (
        filled(nested.get("providerID")) or filled(data.get("providerID")),
        filled(nested.get("modelID")) or filled(nested.get("id")) or filled(data.get("modelID")),
    )


def cost(value: object) -> float | None:
    """Return US dollars, where that many could have been spent."""
    found = number(value)
    return found if found is not None and abs(found) <= MAX_QUANTITY else None


def _refused(call: Call) -> Call:
    """Return the call that the model meant, where OpenCode answered with the tool `invalid`."""
    meant = mapping(call.input)
    error = filled(meant.get("error")) or call.error or ""
    output = "\n".join(call.outputs)
    # The output is the error in a sentence; said twice, it would be found twice.
    told = output if error in output else f"{error}\n{output}".strip()
    return Call(
        name=filled(meant.get("tool")) or "invalid",
        status="error",
        input={key: value for key, value in meant.items() if key not in ("tool", "error")},
        title=call.title,
        started_ms=call.started_ms,
        ended_ms=call.ended_ms,
        error=told,
    )


def _decoded(text: str) -> object:
    try:
        value = decode_json(text)
    except ValueError:
        return text
    return value if isinstance(value, dict | list) else text


def _input_paths(value: object) -> list[str]:
    data = mapping(_decoded(value) if isinstance(value, str) else value)
    paths = [path for item in (data, *map(mapping, sequence(data.get("edits"))))
             if (path := _first(item, _PATH_KEYS))]  # fmt: skip
    if patch := _first(data, _PATCH_KEYS):
        paths += patch_paths(patch)
    return paths


def _metadata_paths(metadata: Mapping[str, object]) -> list[str]:
    found = [
        filled(mapping(metadata.get("filediff")).get("file")),
        filled(metadata.get("filepath")),
        filled(metadata.get("target")),
    ]
    for file in sequence(metadata.get("files")):
        entry = mapping(file)
        found.append(filled(file) or _first(entry, ("filePath", "file", "path", "relativePath")))
        found.append(filled(entry.get("movePath")))
    found += [filled(mapping(item).get("target")) for item in sequence(metadata.get("applied"))]
    for result in map(mapping, sequence(metadata.get("results"))):
        nested = mapping(result.get("metadata")) or result
        found.append(filled(mapping(nested.get("filediff")).get("file")))
        found.append(filled(nested.get("filepath")))
    return [path for path in found if path]


def _first(data: Mapping[str, object], keys: Sequence[str]) -> str | None:
    for key in keys:
        if value := filled(data.get(key)):
            return value
    return None
