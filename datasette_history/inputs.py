"""Inputs of a tool: what they are called, what they may be, and how they are checked.

The same descriptions check a call, become JSON Schemas, and fill the documentation.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from datasette_history.errors import InvalidInput

MAX_TEXT: Final = 4_000
"""Code points of the longest text input."""

_INTEGER: Final = re.compile(r"[+-]?\d{1,15}", re.ASCII)
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_NAMES: Final = {"string": "a text", "integer": "a whole number", "boolean": "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One input of a tool.

    choices: the only values of a text, where there are such.
    minimum, maximum: bounds of an integer, both allowed; beyond them is an error.
    cap: the largest integer that has an effect; more counts as this much.
    default: what counts where the input is missing, for the documentation.
    may_be_empty: whether an empty text is a value.
    """

    name: str
    kind: Literal["string", "integer", "boolean"]
    description: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    cap: int | None = None
    default: int | str | bool | None = None
    required: bool = False
    may_be_empty: bool = False

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the input."""
        schema: dict[str, Any] = {"type": self.kind, "description": self.description}
        if self.choices:
            schema["enum"] = list(self.choices)
        elif self.kind == "string":
            schema |= {"minLength": 0 if self.may_be_empty else 1, "maxLength": MAX_TEXT}
        if self.minimum is not None:
            schema["minimum"] = self.minimum
        if self.maximum is not None:
            schema["maximum"] = self.maximum
        if self.default is not None:
            schema["default"] = self.default
        return schema


def check(
    tool: str, parameters: Sequence[Parameter], inputs: Mapping[str, object], *, as_text: bool
) -> dict[str, Any]:
    """Return the given inputs, checked; those that are missing stay missing.

    as_text: numbers and truth values are spelled as texts, as in a URL.
    Raises InvalidInput with a message for every input that is wrong.
    """
    known = {parameter.name: parameter for parameter in parameters}
    problems = [_unknown(tool, name, known) for name in inputs if name not in known]
    problems += [
        f"{name} is required by {tool}"
        for name, parameter in known.items()
        if parameter.required and name not in inputs
    ]
    values = {}
    for name, parameter in known.items():
        if name in inputs:
            try:
                values[name] = _value(parameter, inputs[name], as_text=as_text)
            except InvalidInput as error:
                problems += error.messages
    if problems:
        raise InvalidInput(*problems)
    return values


def storable(text: str) -> str:
    """Return text as the index would hold it: NUL and lone surrogates become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def _unknown(tool: str, name: str, known: Mapping[str, Parameter]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"{tool} takes {', '.join(known)}"
    return f"unknown input {storable(name)[:60]!r}; {hint}"


def _value(parameter: Parameter, given: object, *, as_text: bool) -> str | int | bool:
    value = _spelled(parameter, given) if as_text and isinstance(given, str) else given
    if parameter.kind == "string" and isinstance(value, str):
        return _text(parameter, storable(value))
    if parameter.kind == "boolean" and isinstance(value, bool):
        return value
    # JSON does not tell 5.0 from 5.
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if parameter.kind == "integer" and isinstance(value, int) and not isinstance(value, bool):
        return _integer(parameter, value)
    raise InvalidInput(f"{parameter.name} must be {_NAMES[parameter.kind]}, not {_shown(given)}")


def _spelled(parameter: Parameter, text: str) -> object:
    if parameter.kind == "integer" and _INTEGER.fullmatch(text.strip()):
        return int(text)
    if parameter.kind == "boolean":
        return _BOOLEANS.get(text.strip().lower(), text)
    return text


def _text(parameter: Parameter, text: str) -> str:
    if parameter.choices and text not in parameter.choices:
        choices = " or ".join(parameter.choices)
        raise InvalidInput(f"{parameter.name} must be {choices}, not {_shown(text)}")
    if not text.strip() and not parameter.may_be_empty:
        raise InvalidInput(f"{parameter.name} is empty; give a value or leave it out")
    if len(text) > MAX_TEXT:
        raise InvalidInput(
            f"{parameter.name} has {len(text)} characters, more than the {MAX_TEXT} allowed"
        )
    return text


def _integer(parameter: Parameter, number: int) -> int:
    low, high = parameter.minimum, parameter.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        bounds = f"from {low} to {high}" if high is not None else f"{low} or more"
        raise InvalidInput(f"{parameter.name} must be {bounds}, not {number}")
    return number


def _shown(value: object) -> str:
    """Return a value as its caller spelled it: a text in quotes, anything else as JSON."""
    spelled = repr(value) if isinstance(value, str) else json.dumps(value, default=repr)
    text = storable(spelled)
    return text if len(text) <= 60 else text[:60] + "…"
