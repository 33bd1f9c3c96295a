"""``treadle schema``: the JSON Schema of what one writes, for editors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import treadle
from treadle import ConfigurationError, TreadleError
from treadle_cli.options import debug_option, host_options, host_without, tools_option
from treadle_cli.output import err, out

__all__ = ["schema"]

_FILES = {"workflow": "treadle.schema.json", "settings": "treadle-settings.schema.json"}
_HERE = ""


@click.command(short_help="Print the JSON Schema of workflow files, for editors.")
@click.argument("kind", metavar="[workflow|settings]", type=click.Choice(list(_FILES)), default="workflow")
@click.option(
    "--write",
    "beside",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_HERE,
    help="Write the schema beside FILE, or into this directory, and print the line that belongs on top of FILE.",
)
@click.option("-o", "--output", metavar="FILE", help="Write the schema to FILE; - is stdout.")
@tools_option
@host_options
@debug_option
def schema(kind: str, beside: str | None, output: str | None, tools: Sequence[str], without: Sequence[str]) -> None:
    """Print a JSON Schema (2020-12) of workflow files, or of treadle.yaml, as this installation understands them.

    An editor with the YAML language server completes and checks by it: `treadle schema --write flow.yaml` makes
    treadle.schema.json beside flow.yaml and prints the comment that tells the editor. What a broken plugin would
    offer is left out, and named on stderr. Write it again when plugins have changed.
    """
    if beside is not None and output is not None:
        raise click.UsageError("--write chooses the file itself; give either --write or -o")
    if beside and not Path(beside).is_file():
        hint = f"; the kind comes first: treadle schema {beside} --write" if beside in _FILES else ""
        raise click.UsageError(f"{beside}: no such file{hint}")
    stdout, stderr = out(), err()
    described = _described(kind, without, tools)
    if beside is not None:
        name = _FILES[kind]
        written = Path(beside).parent / name
        _write(written, described)
        stderr.line(f"{written} written; put this line on top of {beside or 'each file that it is for'}:")
        stdout.line(f"# yaml-language-server: $schema={name}")
    elif output is not None and output != "-":
        _write(Path(output), described)
        stderr.line(f"{output} written")
    else:
        stdout.write(json.dumps(described, indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)


def _described(kind: str, without: Sequence[str], tools: Sequence[str]) -> dict[str, Any]:
    stderr = err()

    def left_out(error: TreadleError) -> None:
        stderr.line(f"left out: {error}")

    if kind == "settings":  # of everything installed, and whatever the settings say now: they may be under repair
        return treadle.settings_schema(treadle.Host.discover(without=without), left_out=left_out)
    return treadle.workflow_schema(host_without(without, tools=tools), left_out=left_out)


def _write(file: Path, described: dict[str, Any]) -> None:
    """:raises ConfigurationError: it cannot be written."""
    text = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror or error}") from error
