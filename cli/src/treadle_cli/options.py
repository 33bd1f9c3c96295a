"""Options that several commands share."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import treadle
from treadle_cli.first_party import first_party

if TYPE_CHECKING:
    from treadle import Host

__all__ = [
    "HOST",
    "STATE",
    "again",
    "budget_option",
    "checkpoint_dir_option",
    "config_option",
    "debug_option",
    "find_settings_file",
    "given_state",
    "host_options",
    "host_without",
    "is_debugging",
    "is_safe",
    "journal_place",
    "json_option",
    "plugin_options",
    "state_file_option",
    "tools_option",
]

_DEBUG = "treadle_cli.debug"
_CONFIG = "treadle.config"
"""In a context's ``meta``: the settings file named on the command line, empty for none. Packages may read it."""
HOST = "treadle.host"
"""In a context's ``meta``: what gives the plugins that the command line leaves in, :func:`host_without`. Commands of
packages call it."""
STATE = "treadle.state"
"""In a context's ``meta``: what makes a state of ``-s KEY=VALUE``, :func:`given_state`, for commands of packages."""
_WITHOUT = "treadle_cli.without"
_SAFE = "treadle_cli.safe"

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _note_debug(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().meta[_DEBUG] = True


def given_state(assignments: Iterable[str]) -> dict[str, Any]:
    """The state that every ``-s KEY=VALUE`` makes together; what is doubtful is said on stderr."""
    from treadle_cli.state_args import state_of

    return state_of(assignments)


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


def _note_config(ctx: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
    if value is None or value is False:
        return
    file = value if isinstance(value, str) else ""
    if not file and parameter.name == "config":
        raise click.BadParameter("it names no file; --no-config reads none")
    if ctx.meta.get(_CONFIG, file) != file:
        raise click.BadParameter("only one settings file counts, and another one, or none, is asked for as well")
    ctx.meta[_CONFIG] = file


def config_option(function: _Function) -> _Function:
    """``--config FILE`` and ``--no-config``. They may stand before or after the command's name."""
    options: dict[str, Any] = {"expose_value": False, "is_eager": True, "callback": _note_config}
    named = click.option(
        "--config", metavar="FILE", help="Read settings from FILE, not from the nearest treadle.yaml.", **options
    )
    none = click.option("--no-config", is_flag=True, help="Read no treadle.yaml.", **options)
    return named(none(function))


def _note_without(ctx: click.Context, _parameter: click.Parameter, value: Sequence[str]) -> Sequence[str]:
    ctx.meta[_WITHOUT] = tuple(dict.fromkeys((*ctx.meta.get(_WITHOUT, ()), *value)))
    return value


def _note_safe(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_SAFE] = True


def is_safe(ctx: click.Context) -> bool:
    """Whether ``--safe`` was given."""
    return bool(ctx.meta.get(_SAFE))


def plugin_options(function: _Function, *, without: bool = True, exposed: bool = False) -> _Function:
    """``--without NAME``, repeatable, and ``--safe``. They may stand before or after the command's name.

    :param without: whether to add the first.
    :param exposed: whether the function takes it as the argument ``without``. It counts either way.
    """
    function = click.option(
        "--safe",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_note_safe,
        help="Leave out every plugin that is not Treadle's own.",
    )(function)
    if not without:
        return function
    return click.option(
        "--without",
        metavar="PLUGIN",
        multiple=True,
        is_eager=True,
        expose_value=exposed,
        callback=_note_without,
        help="Leave a plugin out, by its name in `treadle plugins`. Repeatable.",
    )(function)


def host_options(function: _Function) -> _Function:
    """``--without``, as the argument ``without``, and ``--safe``; and those of :func:`config_option`."""
    return plugin_options(config_option(function), exposed=True)


def json_option(function: _Function) -> _Function:
    """``--json`` of commands that run a workflow: the result object on stdout, and nothing else there."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else there."
    )(function)


def state_file_option(function: _Function) -> _Function:
    """``--state-file`` of commands that begin a run."""
    return click.option(
        "--state-file", metavar="FILE", help="Initial state as a JSON object; - reads stdin. -s wins over it."
    )(function)


def tools_option(function: _Function) -> _Function:
    """``--tools SOURCE``, repeatable, as the argument ``tools``."""
    return click.option(
        "--tools",
        metavar="FILE|MODULE",
        multiple=True,
        help="Tools of your own: a Python file, or a module of the working directory or installed, as MODULE or "
        "MODULE:NAME. Repeatable.",
    )(function)


class _Usd(click.FloatRange):
    name = "amount in US dollars"


USD = _Usd(min=0)
"""US dollars, 0 or more."""


def budget_option(function: _Function) -> _Function:
    """``-b/--budget USD``."""
    return click.option(
        "-b",
        "--budget",
        metavar="USD",
        type=USD,
        help="Override config.budget_usd: the most that the run may spend on models, in US dollars.",
    )(function)


def checkpoint_dir_option(function: _Function) -> _Function:
    """``--checkpoint-dir DIR``, as AgentLoom has it: the folder of the journal; see :func:`journal_place`."""
    return click.option(
        "--checkpoint-dir", metavar="DIR", help="Keep the record in DIR/journal.db, whatever treadle.yaml says."
    )(function)


def journal_place(folder: str | None) -> dict[str, Any]:
    """What a ``--checkpoint-dir`` overrides of the journal's settings."""
    return {} if folder is None else {"path": str(Path(folder).absolute() / "journal.db")}


def again(folder: str | None, tools: Collection[str]) -> str:
    """The options that a command which goes on with the same run needs as well, as a shell takes them."""
    words = [] if folder is None else ["--checkpoint-dir", folder]
    return shlex.join([*words, *(word for each in tools for word in ("--tools", each))])


def find_settings_file() -> tuple[str | None, str]:
    """The settings file that counts, or None; and who says so."""
    ctx = click.get_current_context(silent=True)
    named = ctx.meta.get(_CONFIG) if ctx else None
    if named is not None:
        return named or None, "command line"
    return treadle.find_settings(), "TREADLE_CONFIG" if "TREADLE_CONFIG" in os.environ else "found"


def host_without(
    names: Collection[str] = (),
    *,
    tools: Collection[str] = (),
    check_providers: bool = False,
    file: str | None = None,
) -> Host:
    """Everything installed, as the settings file says, except those plugins and those that ``--without`` and
    ``--safe`` leave out; and those tools of one's own.

    Without a file not by ``treadle.deployed_host()``, whose module brings the documents along, which not every
    command needs.

    :param file: the settings file; the one that counts without it.
    :raises DocumentError: the settings file has problems.
    :raises PluginError: one of the plugins is not installed, or one of the tools cannot be had.
    """
    ctx = click.get_current_context(silent=True)
    noted = ctx.meta.get(_WITHOUT, ()) if ctx else ()
    without = tuple(dict.fromkeys((*noted, *names)))
    only_of = first_party() if ctx and is_safe(ctx) else None
    if file is None:
        file, _ = find_settings_file()
    if file is None:
        host = treadle.Host.discover(without=without, only_of=only_of)
    else:
        host = treadle.deployed_host(file, without=without, only_of=only_of, check_providers=check_providers)
    return host.with_tools(tools, origin="--tools") if tools else host
