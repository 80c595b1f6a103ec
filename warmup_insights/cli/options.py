"""Options that several commands share, and options made from settings classes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import click

from warmup_insights.errors import SettingError
from warmup_insights.storage.location import default_database

Command = TypeVar("Command", bound=Callable[..., Any])


def _resolve(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    return default_database(value, os.environ)


def all_of(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order of the help."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


db_option = click.option(
    "--db",
    metavar="DATABASE",
    callback=_resolve,
    help="Database file or postgresql:// URL. Without it: WARMUP_INSIGHTS_DB, "
    "else warmup_insights.db in the current folder.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON."
)

force_option = click.option("--force", is_flag=True, help="Overwrite files that exist.")


class IntegerRange(click.IntRange):
    """An integer within bounds, by the name that users have for it."""

    name = "integer"


class FiniteRange(click.FloatRange):
    """A number within bounds; `nan` and `inf` are within none."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The number, or a usage error."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no number that can be used.", param, ctx)
        return number


def parsed_by(
    parse: Callable[[str], Any],
) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """The callback of an option with a unit; what cannot be parsed is a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


def label_of(text: str) -> str:
    """A label as it is given. Raises ValueError where there is none to read."""
    if not text.strip():
        raise ValueError("A label has to be a name")
    return text


def described(settings: type) -> dict[str, tuple[Any, str]]:
    """Type and meaning of the fields of a settings class that have an `Annotated` type."""
    hints = get_type_hints(settings, include_extras=True)
    return {
        name: get_args(hint)[:2]
        for name, hint in hints.items()
        if get_origin(hint) is Annotated
    }


def setting_options(
    settings: type,
    variables: Mapping[str, str] = MappingProxyType({}),
    **changed: Mapping[str, Any],
) -> Callable[[Command], Command]:
    """An option for each described field: name, type, default and meaning.

    `variables` are the environment variables that fields follow; `changed` holds what
    `click.option` gets otherwise.
    """

    def option(name: str, kind: Any) -> Callable[[Command], Command]:
        default = getattr(settings, name, None)
        flag = f"--{name.replace('_', '-')}"
        if default is True:
            flag += f"/--no-{name.replace('_', '-')}"
        given: dict[str, Any] = {
            "flag": flag,
            "type": kind if kind in (int, float, str) else None,
            "is_flag": kind is bool,
            "default": default,
            "show_default": default is not False,
            "help": meaning(settings, name, variables),
            "envvar": variables.get(name),
            **changed.get(name, {}),
        }
        return click.option(given.pop("flag"), name, **given)

    return all_of(*(option(n, kind) for n, (kind, _) in described(settings).items()))


def meaning(settings: type, name: str, variables: Mapping[str, str]) -> str:
    """The help of an option for a described field, or for several values of it."""
    text = described(settings)[name][1]
    return f"{text} [{variables[name]}]." if name in variables else f"{text}."


def read_assignments(
    option: str, texts: Sequence[str], like: str
) -> list[tuple[str, str]]:
    """Names and values of a repeated NAME=VALUE option.

    Raises:
        SettingError: a text is none; the message describes what it should be `like`.
    """
    found = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise SettingError(f"{option} {text[:60]!r} cannot be used; write {like}")
        found.append((name, value))
    return found
