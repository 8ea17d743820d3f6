"""Values out of JSON that may hold anything: lenient getters, and texts fit to be stored.

A getter returns None for whatever is missing or of another type; no input makes one raise.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

import orjson

MAX_TIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: later times are noise, not dates."""

MAX_INTEGER = (1 << 63) - 1

MAX_QUANTITY = 10**15
"""More is noise; thousands of them still have a sum that SQLite can hold."""

LONG_RUN = 512
"""Base64 text from this many characters on is replaced by its size."""


def decode_json(data: bytes | str) -> object:
    """Decode one JSON text; NaN and the infinities become None, lone surrogates stay.

    Raises ValueError with a reason for people where it is no JSON, no UTF-8 or nested too deep.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # Stricter than OpenCode's own parser: it refuses lone surrogates.
        return _decode_leniently(data)


def mapping(value: object) -> Mapping[str, object]:
    """Return value where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> Sequence[object]:
    """Return value where it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else ()


def string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def filled(value: object) -> str | None:
    """Return value where it is a string with something in it."""
    return value if isinstance(value, str) and value else None


def integer(value: object) -> int | None:
    """Return a whole number that SQLite can store."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
        return value
    return None


def quantity(value: object) -> int | None:
    """Return a count, of tokens or lines, of which sums can be taken: noise is none."""
    found = integer(value)
    return found if found is not None and 0 <= found <= MAX_QUANTITY else None


def number(value: object) -> float | None:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def time_ms(value: object) -> int | None:
    """Return a time in milliseconds since the epoch, up to the year 9999."""
    found = math.floor(value) if isinstance(value, float) and math.isfinite(value) else value
    found = integer(found)
    return found if found is not None and 0 <= found <= MAX_TIME_MS else None


def clean(text: str) -> str:
    """Replace lone surrogates and NUL, which SQLite cannot store, by U+FFFD, one for one."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def is_id(text: str) -> bool:
    """Tell whether a text can name a row: it is not empty, and stored as it is."""
    return bool(text) and clean(text) == text


def shrink(text: str) -> str:
    """Replace ``data:`` URIs and long base64 by what they are: ``[image/png, 12.3 kB]``.

    Such text is nothing that a person searches for, and it would fill the index.
    """
    if "data:" in text:
        text = _DATA_URI.sub(_describe_data_uri, text)
    if len(text) >= LONG_RUN and _may_have_long_run(text):
        text = _LONG_RUN.sub(_describe_base64, text)
    return text


def size_text(size: int) -> str:
    """Return a number of bytes for people, in decimal units."""
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1000:.1f} kB"
    return f"{size / 1_000_000:.1f} MB"


_SURROGATE = re.compile("[\ud800-\udfff]")

_BASE64 = "A-Za-z0-9+/_-"
_NOT_BASE64 = re.compile(f"[^{_BASE64}]")
# The look-behind makes every start inside a run fail at once: one pass over the text.
_LONG_RUN = re.compile(f"(?<![{_BASE64}])[{_BASE64}]{{{LONG_RUN},}}={{0,2}}")
_DATA_URI = re.compile(
    r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[\w.+-]*)*(?:"
    rf";base64,([%{_BASE64}]*=*)|,([^\s\"'`<>(){{}}|^\\\[\]]{{{LONG_RUN},}}))",
    re.ASCII,
)


def _decode_leniently(data: bytes | str) -> object:
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return json.loads(text.removeprefix("\ufeff"), parse_constant=lambda _name: None)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("not readable: nested too deep") from error
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error


def _may_have_long_run(text: str) -> bool:
    """Look at every LONG_RUN-th character: a long run covers at least one of them, and
    reaches half its length to one side of it. Ordinary text is left after a few characters.
    """
    half = LONG_RUN // 2
    search = _NOT_BASE64.search
    for position in range(LONG_RUN - 1, len(text), LONG_RUN):
        if search(text, position, position + half) is None:
            return True
        if search(text, position - half, position + 1) is None:
            return True
    return False


def _describe_data_uri(match: re.Match[str]) -> str:
    mime, base64, plain = match.groups()
    return f"[{mime}, {size_text(len(plain) if base64 is None else _decoded_size(base64))}]"


def _describe_base64(match: re.Match[str]) -> str:
    run = match.group()
    if _is_base64(run):
        return f"[base64, {size_text(_decoded_size(run))}]"
    return run


def _is_base64(run: str) -> bool:
    return (
        re.search("[A-Z]", run) is not None
        and re.search("[a-z]", run) is not None
        and re.search("[0-9]", run) is not None
        and re.search("[G-Zg-z]", run) is not None
    )


def _decoded_size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4
