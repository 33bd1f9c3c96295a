"""Writing to stdout and stderr: results on the one, everything else on the other."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

from treadle import TreadleError
from treadle.printing import results_stream

__all__ = [
    "Channel",
    "ReaderGone",
    "abandon_stdout",
    "err",
    "one_line",
    "out",
    "prepare_streams",
    "printable",
]


class ReaderGone(Exception):
    """Whoever read stdout has closed it."""

    exit_code = 141  # what a shell reports of a program that SIGPIPE ended


# The control characters of ASCII and Latin-1, except tab and line feed. With them a text could move the cursor,
# rename the window or paste into the shell.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    r"""Text that is safe on a terminal: control characters become visible (``\x1b``), carriage returns go."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text.replace("\r", ""))


def one_line(text: str) -> str:
    """Text on one line, safe on a terminal."""
    return printable(" ".join(text.split()))


class Channel:
    """One of the two streams.

    :param required: whether the program is of no use without it. If it is not, a reader that has gone is ignored.
    """

    def __init__(self, stream: TextIO | None, name: str, *, required: bool) -> None:
        self._stream = stream  # None where the program was started with the stream closed
        self._name = name
        self._required = required
        self.is_terminal = stream is not None and stream.isatty()

    def write(self, text: str, *, raw: bool = False) -> None:
        """Write and flush. On a terminal, control characters are made visible unless ``raw``.

        :raises ReaderGone: the reader of a required stream has closed it.
        :raises TreadleError: it cannot be written, for instance because the disk is full.
        """
        if self._stream is None or not text:
            return
        if self.is_terminal and not raw:
            text = printable(text)
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            self._abandon()
            if not self._required:
                return
            if isinstance(error, BrokenPipeError):
                raise ReaderGone from error
            raise TreadleError(f"{self._name} cannot be written: {error.strerror or error}") from error

    def line(self, text: str = "") -> None:
        """Write a line."""
        self.write(f"{text}\n")

    @property
    def is_utf8(self) -> bool:
        """Whether every character can be written."""
        encoding = getattr(self._stream, "encoding", None) or ""
        return encoding.lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig")

    def _abandon(self) -> None:
        """Write no more, and let the interpreter's own flush at exit find an open file."""
        stream, self._stream = self._stream, None
        _point_nowhere(stream)


def _point_nowhere(stream: TextIO | None) -> None:
    if stream in (sys.__stdout__, sys.__stderr__) and stream is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def abandon_stdout() -> None:
    """Write no more to stdout, whose reader has gone, the interpreter's own flush at exit included."""
    _point_nowhere(sys.stdout)


def out() -> Channel:
    """Where results go."""
    return Channel(results_stream(), "stdout", required=True)


def err() -> Channel:
    """Where everything else goes."""
    return Channel(sys.stderr, "stderr", required=False)


def prepare_streams() -> None:
    r"""Let no text crash the program: what an encoding lacks is written as ``\xe9`` or ``\u2713``."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
