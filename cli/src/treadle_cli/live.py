"""Shows a run on a terminal while it goes on. Imports rich, so it is imported only for that."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from treadle.nurseries import open_nursery
from treadle_cli.output import Channel
from treadle_cli.progress import Progress
from treadle_cli.view import ASCII, UNICODE, Line, run_lines, step_lines

__all__ = ["show_live"]

_INTERVAL = 0.1


@asynccontextmanager
async def show_live(progress: Progress, stderr: Channel) -> AsyncIterator[None]:
    """Redraw the steps ten times a second on stderr; leave a summary of them when the context ends."""
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    glyphs = UNICODE if stderr.is_utf8 else ASCII

    def picture() -> Text:
        return _text(run_lines(progress, trio.current_time(), console.width, console.height, glyphs))

    live = Live(
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )

    async def redraw() -> None:
        while True:
            live.update(picture(), refresh=True)
            await trio.sleep(_INTERVAL)

    try:
        with live:
            async with open_nursery() as nursery:
                nursery.start_soon(redraw)
                try:
                    yield
                finally:
                    nursery.cancel_scope.cancel()
    finally:
        console.print(_text(step_lines(progress, trio.current_time(), console.width, glyphs=glyphs)))


def _text(lines: list[Line]) -> Text:
    text = Text(no_wrap=True, overflow="crop", end="")
    for number, line in enumerate(lines):
        text.append("\n" if number else "")
        for span, style in line:
            text.append(span, style)
    return text
