"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

import click

import treadle

if TYPE_CHECKING:
    from treadle import Host

__all__ = ["debug_option", "host_without", "is_debugging", "without_option"]

_DEBUG = "treadle_cli.debug"

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _note_debug(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().meta[_DEBUG] = True


def debug_option(function: _Function) -> _Function:
    """``--debug``. It may stand before or after the command's name; see :func:`is_debugging`."""
    return click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_note_debug,
        help="Show the traceback of an error.",
    )(function)


def is_debugging(ctx: click.Context) -> bool:
    """Whether ``--debug`` was given."""
    return bool(ctx.find_root().meta.get(_DEBUG))


def without_option(function: _Function) -> _Function:
    """``--without NAME``, repeatable, as the argument ``without``."""
    return click.option(
        "--without",
        metavar="PLUGIN",
        multiple=True,
        help="Leave a plugin out, by its name in `treadle plugins`. Repeatable.",
    )(function)


def host_without(names: Collection[str]) -> Host:
    """Everything installed, except those plugins.

    Not ``treadle.default_host()``, whose module brings the documents along, which not every command needs.

    :raises PluginError: one of them is not installed.
    """
    return treadle.Host.discover(without=names)
