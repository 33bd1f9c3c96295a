"""Results on stdout, and what others print elsewhere."""

from __future__ import annotations

import sys

import pytest

import treadle


def test_what_others_print_goes_to_stderr_and_results_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    @treadle.prints_on_stderr()
    def command() -> None:
        print("noise")
        with treadle.prints_on_stderr():  # one command that calls another
            print("more noise")
            print("inner", file=treadle.results_stream())
        print("outer", file=treadle.results_stream())

    command()
    print("after")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("inner\nouter\nafter\n", "noise\nmore noise\n")


def test_without_it_results_go_to_stdout_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert treadle.results_stream() is sys.stdout


def test_an_error_puts_stdout_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    with pytest.raises(ValueError, match="x"), treadle.prints_on_stderr():
        raise ValueError("x")
    assert (sys.stdout, treadle.results_stream()) == (before, before)
