"""``treadle plugins new``: a package to start a plugin from."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from treadle_cli.options import debug_option
from treadle_cli.output import out
from treadle_cli.template_files import KINDS, new_files, refuse_name, write_files

__all__ = ["new"]


@click.command(
    short_help="Write a package to start a plugin from.",
    context_settings={"token_normalize_func": lambda token: token.replace("-", "_")},  # kinds, also with hyphens
)
@click.argument("name")
@click.option("--kind", type=click.Choice(list(KINDS)), required=True, help="What the plugin offers.")
@click.option("--path", "parent", metavar="DIR", default=".", help="Where the package's folder is made.")
@debug_option
def new(name: str, kind: str, parent: str) -> None:
    """Write a whole package called NAME that offers one thing of a kind, into a new folder of that name.

    It can be installed, its tests pass, and it has a workflow that can be run. Change it from there: the pages
    under docs/plugins say what each kind promises.
    """
    refuse_name(name)
    package = name.replace("-", "_")
    is_new = not Path(parent).exists()
    folder = Path(parent) / package.replace("_", "-")
    files = new_files(kind, package)
    write_files(folder, files)
    stdout = out()
    if is_new:
        stdout.line(f"{parent} was not there and has been made")
    for each in files:
        stdout.line(f"{folder / each} written")
    stdout.line()
    stdout.line("next:")
    stdout.line(f"  cd {shlex.quote(str(folder))}")
    stdout.line("  pip install -e '.[test]'")
    stdout.line("  pytest")
    stdout.line(f"  treadle plugins check {package}")
