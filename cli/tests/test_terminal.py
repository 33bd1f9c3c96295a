"""The command on a real terminal."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from rich.cells import cell_len

pty = pytest.importorskip("pty", reason="POSIX terminals")

FLOW = """\
name: demo
steps:
- {id: fetch, type: nap, seconds: 0.3, value: 1}
- {id: left, type: nap, seconds: 0.5, depends_on: [fetch],
   value: "red \\e[31malert\\a", output: text, warn: [odd, odd]}
- {id: right, type: nap, seconds: 0.2, failures: 1, wait: 1.5, depends_on: [fetch]}
- {id: bad, type: nap, permanent: true, failures: 1,
   error: "the bucket \\e]0;owned\\a is not there and has to be made first"}
- {id: after, type: nap, depends_on: [bad]}
"""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(
    program: Any,
    *args: str,
    columns: int = 80,
    env: Mapping[str, str] = {},
    stdout_too: bool = False,
) -> tuple[int, str, str]:
    """Exit code, what the terminal got, and what a pipe as stdout got."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    streams = {"stderr": theirs, "stdout": theirs if stdout_too else subprocess.PIPE}
    with program.start(*args, env={"TERM": "xterm-256color", **env}, **streams) as process:
        os.close(theirs)
        screen = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux says EIO where the other side has been closed
                break
            if not piece:
                break
            screen += piece
        out = b"" if stdout_too else process.stdout.read()
    os.close(ours)
    return process.returncode, screen.decode(), out.decode()


def last_picture(screen: str) -> list[str]:
    """The lines after the last one that was drawn over."""
    return [line.rstrip() for line in _ESCAPES.sub("", screen.rpartition("\x1b[2K")[2]).replace("\r", "").splitlines()]


def test_the_live_view_ends_as_a_summary_and_the_result_stays_apart(program: Any) -> None:
    code, screen, out = on_terminal(program, "run", program.write("flow.yaml", FLOW))
    assert code == 1
    assert out == "text: red \x1b[31malert\x07\n"
    lines = last_picture(screen)
    assert re.fullmatch(r"✓ fetch  nap  \d\.\d s", lines[0])
    assert re.fullmatch(r"✓ left   nap  \d\.\d s", lines[1])
    assert re.fullmatch(r"✓ right  nap  \d\.\d s  attempt 2", lines[2])
    assert re.fullmatch(
        r"✗ bad    nap +\d+ ms  the bucket \\x1b\]0;owned\\x07 is not there and has to be .*…", lines[3]
    )
    assert re.fullmatch(r"– after  nap +step 'bad' failed", lines[4])  # noqa: RUF001
    assert lines[5:8] == [
        "warning: step 'left': odd",
        "error: step 'bad': the bucket \\x1b]0;owned\\x07 is not there and has to be made first",
        "skipped: after: step 'bad' failed",
    ]
    assert re.fullmatch(r"treadle resume [0-9a-f]{12} goes on with it", lines[8])
    assert lines[9].startswith("failed after ")
    assert len(lines) == 10


def test_the_cursor_comes_back_and_steps_were_seen_running(program: Any) -> None:
    _, screen, _ = on_terminal(program, "run", program.write("flow.yaml", FLOW))
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h") == 1
    assert screen.index("\x1b[?25l") < screen.index("\x1b[?25h")
    assert "/5 steps" in screen
    assert "↻" in screen


def test_forty_columns_hold_every_line_of_the_view(program: Any) -> None:
    code, screen, _ = on_terminal(program, "run", program.write("flow.yaml", FLOW), columns=40)
    assert code == 1
    view = screen.partition("warning: ")[0]
    lines = [_ESCAPES.sub("", line) for line in re.split(r"[\r\n]+", view)]
    assert max(map(cell_len, lines)) <= 40
    assert "    the bucket \\x1b]0;owned\\x07 is not …" in last_picture(screen)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_plain_lines_where_the_terminal_or_its_owner_wants_them(program: Any, env: dict[str, str]) -> None:
    _, screen, _ = on_terminal(program, "run", program.write("flow.yaml", FLOW), env=env)
    assert "\x1b" not in screen
    assert "fetch: started\r\n" in screen
    assert "\\x1b]0;owned\\x07" in screen


def test_quiet_draws_nothing(program: Any) -> None:
    document = "name: x\nsteps:\n- {id: a, type: nap, seconds: 0.2, value: 1, output: x}\n"
    assert on_terminal(program, "run", program.write("flow.yaml", document), "-q") == (0, "", "x: 1\n")


def test_streamed_text_and_progress_share_a_terminal_line_by_line(program: Any) -> None:
    document = """\
name: s
config: {stream: true}
steps:
- {id: a, type: say, seconds: 0.2, pieces: ["Hel", "lo \\e[2J", "you"], output: x}
- {id: b, type: nap, seconds: 0.3}
"""
    code, screen, _ = on_terminal(program, "run", program.write("flow.yaml", document), stdout_too=True)
    lines = screen.replace("\r", "").splitlines()
    assert code == 0
    assert lines[2] == "Hello \\x1b[2Jyou"
    assert sorted(lines[:2]) == ["a: started", "b: started"]
    assert "\x1b" not in screen
    assert "x: " not in screen


def test_on_one_screen_the_result_stands_between_blank_lines(program: Any) -> None:
    document = "name: x\nsteps:\n- {id: a, type: nap, value: 1, output: x}\n"
    _, screen, _ = on_terminal(program, "run", program.write("flow.yaml", document), stdout_too=True)
    summary, *rest = last_picture(screen)
    assert summary.startswith("✓ a  nap")
    assert rest[:3] == ["", "x: 1", ""]
    assert rest[3].startswith("success after ")


def test_runs_have_headings_on_a_terminal_and_nowhere_else(program: Any) -> None:
    file = program.write("short.yaml", "name: short\nsteps:\n- {id: a, type: nap, value: 1, output: x}\n")
    ids = []
    for _ in range(2):
        assert program("run", file, "-q").code == 0
        ids.append(program("runs", "--limit", "1").out.split()[0])
    code, screen, _ = on_terminal(program, "runs", "--limit", "1", stdout_too=True)
    head, run, more = screen.replace("\r", "").splitlines()
    assert (code, head.split()) == (0, ["RUN", "STATUS", "BEGAN", "(UTC)", "COST", "WORKFLOW"])
    assert (run.split()[0], more) == (ids[1], "there are more; --limit says how many to list")
    piped = program("runs", "--limit", "1")
    assert (len(piped.out.splitlines()), piped.err) == (1, "")
    assert [line.split()[0] for line in program("runs").out.splitlines()] == ids[::-1]
