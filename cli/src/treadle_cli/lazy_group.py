"""A click group that takes further commands from installed packages, each loaded when it is used."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import click

import treadle
from treadle_cli.first_party import command_distribution, command_summary
from treadle_cli.listed_commands import COMMANDS, list_installed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["LazyGroup"]


class BrokenCommand(click.ClickException):
    """A command of an installed package cannot be used."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """As the other errors of this program are shown."""
        click.echo(f"error: {self.message}", err=True)


class LazyGroup(click.Group):
    """Its own commands, and those of the entry-point group.

    Listing them imports none: the help of the group has the summaries of ours from the catalogue, and names the
    distribution of others.
    The group's own commands win over a package's of the same name.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name: the group's own commands in the order in which they were added, then those of packages."""
        return [*self.commands, *sorted(self._listed(ctx).keys() - self.commands.keys())]

    def own_distributions(self, ctx: click.Context) -> Collection[str] | None:
        """The distributions whose commands there are; all of them where it is None."""
        return None

    def _listed(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        """The commands of packages, and whose they are."""
        installed, only = list_installed(), self.own_distributions(ctx)
        if only is None:
            return installed
        kept = {name: [each for each in owners if each in only] for name, owners in installed.items()}
        return {name: owners for name, owners in kept.items() if owners}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, loaded if it is a package's.

        :raises BrokenCommand: it cannot be loaded, is no click command, or two packages have one of that name.
        """
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        only = self.own_distributions(ctx)
        points = [each for each in _find(cmd_name) if only is None or (each.dist and each.dist.name in only)]
        return _load(cmd_name, points) if points else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest names where there is no such command."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            near = treadle.close_match(name, self.list_commands(ctx))
            near_text = f"; did you mean '{near}'?" if near else ""
            is_file = name.endswith((".yaml", ".yml"))
            package = command_distribution(name)
            if package is not None and self.own_distributions(ctx) is None:
                ctx.fail(f"command '{name}' is not installed; pip install {package}")
            ctx.fail(f"no command '{name}'{f'; did you mean treadle run {name}?' if is_file else near_text}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the group's help."""
        installed = self._listed(ctx)
        width = formatter.width - 6 - max(map(len, [*self.commands, *installed]), default=0)
        rows = [(name, command.get_short_help_str(width)) for name, command in self.commands.items()]
        others = sorted(installed.keys() - self.commands.keys())
        rows += [(name, command_summary(name, installed[name])) for name in others]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _find(name: str) -> Sequence[EntryPoint]:
    from importlib.metadata import entry_points  # only now: it takes as long to import as all of click

    return tuple(entry_points(group=COMMANDS, name=name))


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


def _owners(points: Sequence[EntryPoint]) -> str:
    return " and ".join(sorted(point.dist.name if point.dist else "an unknown package" for point in points))


def _load(name: str, points: Sequence[EntryPoint]) -> click.Command:
    if len(points) > 1:
        raise BrokenCommand(f"command '{name}' is offered by {_owners(points)}; uninstall one of them")
    point = points[0]
    try:
        command = point.load()
    except (Exception, SystemExit) as error:  # a package that calls sys.exit() on import must not end the program
        raise BrokenCommand(
            f"command '{name}' ({_owner(point)}) could not be loaded from {point.value}: "
            f"{type(error).__name__}: {error}; upgrade or uninstall it"
        ) from error
    if not isinstance(command, click.Command):
        raise BrokenCommand(
            f"command '{name}' ({_owner(point)}) at {point.value} is {type(command).__name__}, not a click command; "
            "upgrade or uninstall it"
        )
    return command
