"""What a command writes to stdout: its results and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

__all__ = ["prints_on_stderr", "results_stream"]

_kept: list[TextIO] = []


@contextmanager
def prints_on_stderr() -> Iterator[None]:
    """Let ``print`` in tools, steps and plugins write to stderr while it is open; it decorates functions too.

    A command writes its results to :func:`results_stream` meanwhile:

    .. code-block:: python

        @click.command()
        @click.argument("file")
        @treadle.prints_on_stderr()
        def count(file):
            steps = treadle.load_workflow(file).steps
            click.echo(len(steps), file=treadle.results_stream())
    """
    _kept.append(results_stream())
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _kept.pop()


def results_stream() -> TextIO:
    """stdout, as it was before :func:`prints_on_stderr`. None in a program that was started without one."""
    return _kept[-1] if _kept else sys.stdout
