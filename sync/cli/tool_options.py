"""Command-line options made of the tools' own descriptions, and what goes with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from datasette_history.config import DEFAULT_TIME_LIMIT_MS, MAX_TIME_LIMIT_MS
from datasette_history.inputs import Parameter
from datasette_history.tools import Tool

Command = TypeVar("Command", bound=Callable[..., Any])

HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class QueryCommand(click.Command):
    """A command whose argument may begin with ``-``: ``search login -flaky``.

    Long options are options all the same, so that a mistyped one is an error and not a word
    that is searched for; what stands behind ``--`` never is an option.
    """

    def __init__(self, name: str | None, **kwargs: Any) -> None:
        settings = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
        super().__init__(name, context_settings=settings, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = args[: args.index("--")] if "--" in args else args
        known = [name for param in self.get_params(ctx) for name in param.opts]
        values = _values_of_options(self.get_params(ctx), options)
        for index, piece in enumerate(options):
            name = piece.split("=", maxsplit=1)[0]
            if name.startswith("--") and name not in known and index not in values:
                near = [one for one in known if one.startswith(name)]
                raise click.NoSuchOption(name, possibilities=near or None, ctx=ctx)
        return super().parse_args(ctx, args)


def _values_of_options(params: Sequence[click.Parameter], args: Sequence[str]) -> set[int]:
    """Return the positions of args that are values of the options before them."""
    taking = {
        name
        for param in params
        if isinstance(param, click.Option) and not param.is_flag
        for name in param.opts
    }
    found: set[int] = set()
    for index, piece in enumerate(args[:-1]):
        if piece in taking and index not in found:
            found.add(index + 1)
    return found


def tool_options(tool: Tool, *, argument: str) -> Callable[[Command], Command]:
    """Add an option for each input of a tool but the one that is the command's argument.

    The command receives what was given as texts, by the inputs' names, None for the rest:
    the tool checks them, in the same words as everywhere.
    """

    return parameter_options([p for p in tool.parameters if p.name != argument])


def parameter_options(parameters: Sequence[Parameter]) -> Callable[[Command], Command]:
    """Add an option for each input, as tool_options does."""

    def add(command: Command) -> Command:
        for parameter in reversed(parameters):
            command = _option(parameter)(command)
        return command

    return add


def _option(parameter: Parameter) -> Callable[[Command], Command]:
    name = "--" + HUMP.sub("-", parameter.name).lower()
    text = parameter.description.removesuffix(".")
    if parameter.kind == "boolean":
        return click.option(name, parameter.name, flag_value="true", default=None, help=text)
    metavar = f"[{'|'.join(parameter.choices)}]" if parameter.choices else None
    if metavar is None and parameter.kind == "integer":
        metavar = "NUMBER"
    callback = _path_from_here if parameter.name in ("project", "directory") else None
    return click.option(name, parameter.name, metavar=metavar, callback=callback, help=text)


def _path_from_here(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Make a path that begins with a dot absolute: only here is there a directory to begin in."""
    if value is not None and re.match(r"\.{1,2}([/\\]|$)", value):
        return str(Path(value).resolve())
    return value


def output_options(command: Command) -> Command:
    """Add --json and --text; the command receives form: json, text or people."""
    for form, text in (
        ("text", "Print the compact text that agents get over MCP"),
        ("json", "Print the answer, or the error, as JSON"),
    ):
        command = click.option(f"--{form}", "form", flag_value=form, help=text)(command)
    return command


def time_limit_option(command: Command) -> Command:
    """Add --time-limit; the command receives time_limit_ms: int."""
    return click.option(
        "--time-limit",
        "time_limit_ms",
        metavar="SECONDS",
        type=click.FloatRange(0.001, MAX_TIME_LIMIT_MS / 1000),
        default=DEFAULT_TIME_LIMIT_MS / 1000,
        show_default=True,
        callback=lambda _ctx, _param, seconds: max(1, round(seconds * 1000)),
        help="Give up after so long",
    )(command)
