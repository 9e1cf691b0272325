"""Rules for every command: the look of its options in `--help`, the refusal of empty values, the option --output.

Owns        the classes that typer builds commands and groups of commands from.
Must not know   single commands.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from rocketlake.cli.table import OUTPUT_DEFAULT, Output, OutputForm, begin, end

__all__ = ["CommandTree"]

F = TypeVar("F", bound=Callable[..., Any])


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_argument(piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        begin()
        refuse_empty(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        finally:
            end()


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))


class CommandTree(typer.Typer):
    """A typer.Typer whose commands refuse empty values, show no type beside a flag and take --output."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, no_args_is_help=True, **options)

    def command(self, name: str | None = None, *, serves: bool = False, **options: Any) -> Callable[[F], F]:
        """See typer.Typer.command. `serves`: it is a server, which prints for people only."""
        add = super().command(name, **({"cls": _Command} | options))

        def take(function: F) -> F:
            add(function if serves else _with_output(function))
            return function

        return take


def _with_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the option --output, if it has none: what it prints by `tell` then has the form."""
    own = inspect.signature(function, eval_str=True)
    if "output" in own.parameters:
        return function

    @functools.wraps(function)
    def run(*, output: OutputForm, **given: Any) -> Any:
        return function(**given)

    extra = inspect.Parameter("output", inspect.Parameter.KEYWORD_ONLY, default=OUTPUT_DEFAULT, annotation=Output)
    parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in own.parameters.values()]
    run.__signature__ = own.replace(parameters=[*parameters, extra])  # type: ignore[attr-defined]  # typer reads it
    return run


def refuse_empty(args: Sequence[str]) -> None:
    """Raises UsageError for `-n ""`: a shell variable that is not set would silently mean the default."""
    from rocketlake.base.errors import UsageError

    hint = "give it a value, or leave it out; in a shell, set the variable that it is taken from"
    values_only = False
    for number, text in enumerate(args):
        if not values_only and text == "--":
            values_only = True
        elif not values_only and text.startswith("--") and text.endswith("=") and text.count("=") == 1:
            raise UsageError(f"option {text[:-1]} is empty", hint=hint)
        elif text == "":
            before = args[number - 1] if number else ""
            named = f"option {before}" if before.startswith("-") and not values_only else f"argument {number + 1}"
            raise UsageError(f"{named} is empty", hint=hint)


def _flags_without_type(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""  # some releases of typer would print `--help <bool>`
    return params


def _argument(piece: str) -> str:
    return piece.strip("{}").upper() if piece.startswith("{") else piece
