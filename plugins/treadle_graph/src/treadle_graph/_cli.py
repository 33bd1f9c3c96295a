"""``treadle visualize``: a workflow as a picture."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import treadle
from treadle import ConfigurationError, TreadleError

if TYPE_CHECKING:
    from treadle import Host
    from treadle_graph.graph import WorkflowGraph

__all__ = ["visualize"]


@click.command(short_help="Draw a workflow as text, Mermaid, DOT or SVG.")
@click.argument("file", metavar="FILE")
@click.option(
    "-f",
    "--format",
    "format_",
    type=click.Choice(["ascii", "mermaid", "dot", "svg"]),
    default="ascii",
    show_default=True,
    help="ascii draws with lines where the terminal has them.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of stdout.")
@click.option("--tools", metavar="FILE", multiple=True, help="Tools of one's own: a file, or module:name. Repeatable.")
@click.option(
    "--without",
    metavar="PLUGIN",
    multiple=True,
    help="Leave a plugin out, by its name in `treadle plugins`. Repeatable.",
)
@treadle.prints_on_stderr()
def visualize(file: str, format_: str, output: str | None, tools: Sequence[str], without: Sequence[str]) -> None:
    """Draw the steps of a workflow file and what they wait for.

    The file is checked first: warnings are printed on stderr, and a file with errors is refused as `treadle validate`
    does it. Nothing runs, and no other program is needed.
    """
    from treadle_graph.graph import WorkflowGraph
    from treadle_graph.text import visible

    host = _host(without, tools)
    workflow = treadle.load_workflow(file, host=host)
    for warning in (*host.warnings, *workflow.warnings):
        click.echo(visible(str(warning)), err=True)
    graph = WorkflowGraph.of(workflow)
    try:
        drawing = _draw(graph, format_, to_file=output is not None)
    except ValueError as error:  # too large
        raise ConfigurationError(f"{file}: {error}") from error
    if output is None or output == "-":
        _print(drawing)
    else:
        _write(drawing, output, file)


def _host(without: Sequence[str], tools: Sequence[str]) -> Host:
    """What the main program says; on its own, everything installed as the nearest settings file says."""
    make: Callable[[Sequence[str]], Host] | None = click.get_current_context().meta.get("treadle.host")
    host = treadle.deployed_host(without=without) if make is None else make(without)
    return host.with_tools(tools, origin="--tools") if tools else host


def _draw(graph: WorkflowGraph, format_: str, *, to_file: bool) -> str:
    if format_ == "mermaid":
        return graph.to_mermaid()
    if format_ == "dot":
        return graph.to_dot()
    if format_ == "svg":
        return graph.to_svg()
    if to_file:
        return graph.to_text()
    return graph.to_text(width=shutil.get_terminal_size().columns, ascii_only=not _has_lines())


def _has_lines() -> bool:
    """Whether stdout can show what lines are made of."""
    from treadle_graph.terminal import UNICODE

    try:
        UNICODE.all.encode(getattr(treadle.results_stream(), "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _print(drawing: str) -> None:
    try:
        click.echo(drawing, nl=False, file=treadle.results_stream())
    except BrokenPipeError:  # whoever read it has seen enough, which the main program deals with
        raise
    except OSError as error:
        raise TreadleError(f"stdout cannot be written: {error.strerror or error}") from error


def _write(drawing: str, output: str, source: str) -> None:
    target = Path(output)
    try:
        if target.exists() and target.samefile(source):
            raise ConfigurationError(f"-o {output} is the workflow itself", hint="name another file")
        target.write_text(drawing, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:  # ValueError: the name holds a NUL
        raise ConfigurationError(f"{output} cannot be written: {getattr(error, 'strerror', None) or error}") from error
