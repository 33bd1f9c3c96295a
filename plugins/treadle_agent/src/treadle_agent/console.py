"""Stdin and stdout as a chat uses them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import click

__all__ = ["Console"]


class Console:
    """Reads lines and writes text. Reading a line cannot be broken off: one that nobody waits for any more is for
    whoever asks next.
    """

    def __init__(self) -> None:
        self._is_terminal = sys.stdin.isatty()
        self._readline = _readline() if self._is_terminal else None
        self._coming: Future[str] | None = None

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Leave the terminal as it was: editing of a line that is broken off by the end would leave it without echo."""
        if not self._is_terminal:
            yield
            return
        try:
            import termios
        except ImportError:  # Windows has no such state
            yield
            return
        before = termios.tcgetattr(sys.stdin.fileno())
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)

    def read(self, prompt: str) -> str:
        """A line; blocks.

        :raises EOFError: there are no more.
        """
        if self._coming is None:
            self._coming = _line(prompt if self._is_terminal else "")
        else:
            self.write(f"{prompt}{self.typed()}")
        coming = self._coming
        try:
            return coming.result()
        finally:
            if self._coming is coming:
                self._coming = None

    def write(self, text: str) -> None:
        """Text as it is."""
        click.echo(text, nl=False)

    def typed(self) -> str:
        """What is typed and not entered yet; nothing without line editing, where Ctrl-C drops it."""
        return "" if self._readline is None else str(self._readline.get_line_buffer())

    def ask(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call may run; not where there is nobody to ask."""
        if not self._is_terminal:
            return False
        self.write(f"\n  {tool} {json.dumps(arguments, ensure_ascii=False)}\n")
        try:
            return self.read("  allow this call? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:  # Ctrl-D is no yes
            self.write("\n")
            return False


def _readline() -> ModuleType | None:
    """Line editing and history for ``input``, where Python has it."""
    try:
        import readline
    except ImportError:
        return None
    return readline


def _line(prompt: str) -> Future[str]:
    """The next line, when it is there."""
    coming: Future[str] = Future()

    def read() -> None:
        try:
            line = input(prompt)
        except BaseException as error:
            coming.set_exception(error)
        else:
            coming.set_result(line)

    threading.Thread(target=read, name="treadle chat", daemon=True).start()
    return coming
