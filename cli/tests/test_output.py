"""Writing to streams that lack characters, readers or space."""

from __future__ import annotations

import io

import pytest

from treadle import TreadleError
from treadle_cli.output import Channel, ReaderGone, one_line, printable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error
        self.tries = 0

    def write(self, text: str) -> int:
        self.tries += 1
        raise self.error


@pytest.mark.parametrize("code", [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)])
def test_a_control_character_becomes_visible(code: int) -> None:
    assert printable(f"a{chr(code)}b") == ("ab" if code == 0x0D else f"a\\x{code:02x}b")


def test_tabs_line_feeds_and_every_other_character_stay() -> None:
    assert printable("a\tb\r\nc é 日本 \u202f🎉") == "a\tb\nc é 日本 \u202f🎉"


def test_one_line_has_no_line_feed() -> None:
    assert one_line(" a\n\n b\x1b ") == "a b\\x1b"


def test_a_terminal_gets_no_control_characters_unless_raw() -> None:
    stream = Terminal()
    channel = Channel(stream, "stdout", required=True)
    channel.write("\x1b[31mred")
    channel.write("\x1b[31mred", raw=True)
    assert stream.getvalue() == "\\x1b[31mred\x1b[31mred"


def test_a_pipe_gets_every_byte() -> None:
    stream = io.StringIO()
    Channel(stream, "stdout", required=True).write("\x1b[31mred")
    assert stream.getvalue() == "\x1b[31mred"


def test_a_reader_that_has_gone_ends_the_program_by_stdout_and_not_by_stderr() -> None:
    with pytest.raises(ReaderGone):
        Channel(Broken(BrokenPipeError()), "stdout", required=True).write("x")
    stream = Broken(BrokenPipeError())
    channel = Channel(stream, "stderr", required=False)
    channel.write("x")
    channel.write("y")
    assert stream.tries == 1


def test_a_full_disk_is_an_error_with_its_cause() -> None:
    with pytest.raises(TreadleError) as caught:
        Channel(Broken(OSError(28, "No space left on device")), "stdout", required=True).write("x")
    assert str(caught.value) == "stdout cannot be written: No space left on device"


def test_a_stream_that_was_closed_from_the_start_takes_everything() -> None:
    channel = Channel(None, "stdout", required=True)
    channel.line("x")
    assert not channel.is_terminal
