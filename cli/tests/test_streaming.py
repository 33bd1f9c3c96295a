"""Streamed text of several steps on one stdout."""

from __future__ import annotations

import io

import pytest

from treadle import RunEvent, StepResult, StepStatus
from treadle.contracts.events import StepFinished, StepRetrying, StepStarted, TextEmitted
from treadle_cli.lines import EventLines
from treadle_cli.output import Channel
from treadle_cli.streaming import TextStream


def text(step: str, piece: str) -> RunEvent:
    return TextEmitted(run_id="r", step_id=step, text=piece)


def begin(step_id: str) -> StepStarted:
    return StepStarted(run_id="r", step_id=step_id, attempt=1)


def end(step: str) -> RunEvent:
    return StepFinished(run_id="r", step_id=step, result=StepResult(step_id=step, status=StepStatus.SUCCESS))


def retry(step: str) -> RunEvent:
    return StepRetrying(run_id="r", step_id=step, attempt=1, error="busy", wait=1)


def streamed(*events: RunEvent) -> str:
    stream = io.StringIO()
    shown = TextStream(Channel(stream, "stdout", required=True), lambda: None)
    for event in events:
        shown.observe(event)
    return stream.getvalue()


def test_pieces_are_written_as_they_come_and_end_in_one_line_feed() -> None:
    assert streamed(text("a", "Hel"), text("a", "lo"), end("a")) == "Hello\n"
    assert streamed(text("a", "Hello\n"), end("a")) == "Hello\n"


def test_parallel_texts_come_whole_one_after_the_other() -> None:
    assert streamed(
        text("a", "A1"), text("b", "B1"), text("c", "C1"), text("a", "A2"), end("c"), text("b", "B2"), end("a"),
        text("b", "B3"), end("b"),
    ) == "A1A2\nB1B2B3\nC1\n"  # fmt: skip


def test_the_next_step_has_the_floor_as_soon_as_the_one_before_it_has_settled() -> None:
    assert streamed(text("a", "A"), text("b", "B1"), end("a"), text("b", "B2")) == "A\nB1B2"


def test_text_of_a_failed_attempt_that_waited_is_not_written() -> None:
    assert streamed(text("a", "A"), text("b", "wrong"), retry("b"), text("b", "right"), end("b"), end("a")) == (
        "A\nright\n"
    )


def test_a_retry_begins_on_a_line_of_its_own() -> None:
    assert streamed(text("a", "wrong"), retry("a"), text("a", "right"), end("a")) == "wrong\nright\n"


def test_it_knows_which_values_have_been_written() -> None:
    shown = TextStream(Channel(io.StringIO(), "stdout", required=True), lambda: None)
    for event in (text("a", "Thinking. "), text("a", "Hello\n"), text("b", "x"), retry("b")):
        shown.observe(event)
    assert shown.wrote("a", "Hello")
    assert not shown.wrote("a", "Thinking.")
    assert not shown.wrote("a", {"k": 1})
    assert not shown.wrote("a", "")
    assert not shown.wrote("b", "x")
    assert not shown.wrote("never", "x")


@pytest.mark.parametrize(("one_screen", "expected"), [(True, "Hello\na: success after 0 ms\n"), (False, None)])
def test_on_one_screen_lines_wait_until_a_text_is_whole(one_screen: bool, expected: str | None) -> None:
    screen, other = io.StringIO(), io.StringIO()
    shown = TextStream(Channel(screen, "stdout", required=True), lambda: None)
    stderr = Channel(screen if one_screen else other, "stderr", required=False)
    lines = EventLines(stderr, lambda: one_screen and shown.is_mid_text)
    for event in (begin("a"), text("a", "Hel"), retry("b"), text("a", "lo"), end("a")):
        shown.observe(event)
        lines.observe(event)
    if expected is None:
        assert screen.getvalue() == "Hello\n"
        assert other.getvalue() == "a: started\nb: attempt 1 failed, again in 1.0 s: busy\na: success after 0 ms\n"
    else:
        assert (
            screen.getvalue() == "a: started\nHello\nb: attempt 1 failed, again in 1.0 s: busy\na: success after 0 ms\n"
        )


@pytest.mark.parametrize(
    ("kept", "told"),
    [(2, "a0: success after 0 ms\na1: success after 0 ms\n"), (6, "6 steps had finished before\n")],
)
def test_of_many_steps_that_an_earlier_process_has_finished_the_number_is_told(kept: int, told: str) -> None:
    screen = io.StringIO()
    lines = EventLines(Channel(screen, "stderr", required=False), lambda: False)
    for event in (*(end(f"a{n}") for n in range(kept)), begin("b"), end("b")):
        lines.observe(event)
    assert screen.getvalue() == f"{told}b: started\nb: success after 0 ms\n"
