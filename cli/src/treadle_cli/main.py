"""The command ``treadle``: its commands, and what becomes of errors."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterator
from importlib import import_module
from typing import Any

import click

from treadle import DocumentError, TreadleError, prints_on_stderr
from treadle_cli.first_party import first_party
from treadle_cli.lazy_group import LazyGroup
from treadle_cli.options import (
    HOST,
    STATE,
    config_option,
    debug_option,
    given_state,
    host_without,
    is_debugging,
    is_safe,
    plugin_options,
)
from treadle_cli.output import ReaderGone, abandon_stdout, err, prepare_streams
from treadle_cli.problems import count_problems

__all__ = ["main", "treadle_command"]

INTERRUPTED = 130

_COMMANDS = ("init", "run", "replay", "batch", "resume", "fork", "validate", "schema", "plugins", "config", "info")
"""The program's own. Each has the module of its name, which is imported when the command is used."""


class _Treadle(LazyGroup):
    """Turns errors into messages and exit codes."""

    def main(self, *args: Any, **extra: Any) -> Any:
        prepare_streams()
        try:
            return super().main(*args, **extra)
        except OSError as error:  # of a help, which is written before any command is there
            if not _is_of_stdout(error):
                raise
            sys.exit(_report(error, debugging=False))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As :class:`LazyGroup` does it. A package's command gets those of the group's own options that it lacks."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            self.add_command(_load(cmd_name))
        command = super().get_command(ctx, cmd_name)
        if command is not None and cmd_name not in self.commands:
            for each in _leaves(command):
                _add_options(each)
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """As :class:`LazyGroup` does it; what has been used already does not come first."""
        self.commands = {name: self.commands.get(name) or _load(name) for name in _COMMANDS}
        return super().list_commands(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the group's help, the program's own first."""
        self.list_commands(ctx)
        super().format_commands(ctx, formatter)

    def own_distributions(self, ctx: click.Context) -> Collection[str] | None:
        """With ``--safe``, only our own packages' commands are there."""
        return first_party() if is_safe(ctx) else None

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[HOST] = host_without
        ctx.meta[STATE] = given_state
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(_report(error, debugging=is_debugging(ctx)))


def _load(name: str) -> click.Command:
    """One of the program's own commands."""
    command: click.Command = getattr(import_module(f"treadle_cli.{name}"), name)
    for each in _leaves(command):
        if each.callback is not None:  # whatever it loads and runs of others, they print to stderr
            each.callback = prints_on_stderr()(each.callback)
    return command


def _leaves(command: click.Command) -> Iterator[click.Command]:
    """The command, or all commands below a group."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _leaves(each)
    else:
        yield command


def _add_options(command: click.Command) -> None:
    known = {name for parameter in command.params for name in parameter.opts}
    if not known & {"--config", "--no-config"}:
        config_option(command)
    if "--debug" not in known:
        debug_option(command)
    if "--safe" not in known:
        plugin_options(command, without="--without" not in known)


def _report(error: BaseException, *, debugging: bool) -> int:
    """Say what went wrong; the exit code."""
    stderr = err()
    if isinstance(error, BrokenPipeError):  # from click's own writing, such as a help
        abandon_stdout()
        return ReaderGone.exit_code
    if isinstance(error, ReaderGone):
        return error.exit_code
    if isinstance(error, OSError) and _is_of_stdout(error):
        abandon_stdout()
        stderr.line(f"error: stdout cannot be written: {error.strerror or error}")
        return 1
    if debugging:
        import traceback

        stderr.write(_discreet("".join(traceback.format_exception(error))))
    if isinstance(error, KeyboardInterrupt | click.Abort):
        stderr.line("error: interrupted")
        return INTERRUPTED
    if isinstance(error, DocumentError):
        for problem in error.problems:
            stderr.line(_discreet(str(problem)))
        stderr.line(f"error: {count_problems(error.problems)}")
        return error.exit_code
    if isinstance(error, TreadleError):
        stderr.line(_discreet(f"error: {error}"))
        return error.exit_code
    stderr.line(_discreet(f"treadle: internal error: {type(error).__name__}: {error}"))
    if not debugging:
        stderr.line("run again with --debug for the traceback")
    return 1


def _is_of_stdout(error: BaseException) -> bool:
    """Whether it came up as click wrote, as commands of packages and helps are written."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == "click.utils"


def _discreet(text: str) -> str:
    """A text without the secrets that are known here; without any, what knows them is not even imported."""
    if "treadle.contracts.secrets" not in sys.modules:
        return text
    from treadle import hide_secrets

    shown: str = hide_secrets(text)
    return shown


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"treadle {version('treadle-kernel')} (command line {version('treadle-cli')})")
        ctx.exit()


@click.group(
    "treadle",
    cls=_Treadle,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 success or paused, 1 failed run, 2 a mistake of yours, 130 Ctrl-C, 143 SIGTERM.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
@config_option
@plugin_options
@debug_option
def treadle_command() -> None:
    """Run LLM workflows written in YAML.

    Results are written to stdout and everything else to stderr.
    """


def main() -> None:
    """Run the command that ``sys.argv`` asks for, and end the process."""
    try:
        treadle_command.main(prog_name="treadle")
    except KeyboardInterrupt:  # before or after any command
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # the process ends: what it held need not be looked through a last time
