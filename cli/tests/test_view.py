"""The live view as lines of text, for given events, times and sizes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from treadle import ModelRequest, Pending, StepResult, StepStatus, Usage
from treadle.contracts.events import (
    ModelCallFailed,
    ModelCallStarted,
    RunEvent,
    StepFinished,
    StepRetrying,
    StepStarted,
    TextEmitted,
    ToolCallStarted,
)
from treadle_cli.progress import Progress
from treadle_cli.view import ASCII, Line, run_lines, step_lines

RUN = "r1"


def started(step: str, attempt: int = 1) -> RunEvent:
    return StepStarted(run_id=RUN, step_id=step, attempt=attempt)


def finished(step: str, status: StepStatus, **fields: object) -> RunEvent:
    result = StepResult(step_id=step, status=status, **fields)  # type: ignore[arg-type]
    return StepFinished(run_id=RUN, step_id=step, result=result)


def progress_of(steps: Iterable[str], *events: tuple[float, RunEvent]) -> Progress:
    progress = Progress([(step, "llm_call") for step in steps], 0.0)
    for now, event in events:
        progress.apply(event, now)
    return progress


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_each_state_has_its_mark_time_and_reason() -> None:
    progress = progress_of(
        ["wait", "run", "again", "good", "bad", "left"],
        (0, started("run")),
        (0, started("again")),
        (1, StepRetrying(run_id=RUN, step_id="again", attempt=1, error="busy", wait=4.0)),
        (
            2,
            finished(
                "good",
                StepStatus.SUCCESS,
                duration_ms=1500,
                attempts=2,
                usage=Usage(input_tokens=1200, output_tokens=34),
                cost_usd=0.0012,
            ),
        ),
        (2, finished("bad", StepStatus.TIMEOUT, duration_ms=20, attempts=1, error="timed out after 1 s")),
        (2, finished("left", StepStatus.SKIPPED, reason="step 'bad' failed")),
    )
    assert texts(step_lines(progress, 3.0, 100)) == [
        "· wait   llm_call",
        "⠋ run    llm_call  3.0 s",
        "↻ again  llm_call  3.0 s                         again in 2 s: busy",
        "✓ good   llm_call  1.5 s  1,234 tokens  $0.0012  attempt 2",
        "✗ bad    llm_call  20 ms                         timed out after 1 s",
        "– left   llm_call                                step 'bad' failed",  # noqa: RUF001
    ]


def test_forty_columns_put_the_reason_beneath_and_leave_the_type_out() -> None:
    progress = progress_of(
        ["summarize_everything", "b"],
        (0, finished("summarize_everything", StepStatus.FAILED, duration_ms=2000, error="no such model; " * 5)),
        (0, finished("b", StepStatus.SKIPPED, reason="step 'summarize_everything' failed")),
    )
    assert texts(step_lines(progress, 3.0, 40)) == [
        "✗ summarize_ev…  2.0 s",
        "    no such model; no such model; no su…",
        "– b",  # noqa: RUF001
        "    step 'summarize_everything' failed",
    ]


def test_unknown_tokens_and_costs_are_marked_and_steps_that_call_no_model_have_none() -> None:
    unknown = finished("a", StepStatus.SUCCESS, usage=Usage(), cost_usd=None, duration_ms=100)
    progress = progress_of(["a", "b"], (0, unknown), (0, finished("b", StepStatus.SUCCESS, duration_ms=100)))
    assert texts(step_lines(progress, 1.0, 80)) == [
        "✓ a  llm_call  0.1 s  ? tokens  $?",
        "✓ b  llm_call  0.1 s",
    ]


def test_a_running_step_tells_what_it_is_doing() -> None:
    request = ModelRequest(model="gpt-4o-mini", messages=())
    progress = progress_of(["a", "b", "c", "d"], *((0, started(step)) for step in "abcd"))
    progress.apply(ModelCallStarted(run_id=RUN, step_id="a", provider="openai", request=request), 0)
    progress.apply(TextEmitted(run_id=RUN, step_id="b", text="hel"), 0)
    progress.apply(ToolCallStarted(run_id=RUN, step_id="c", call_id="1", tool_name="file_read"), 0)
    progress.apply(ModelCallStarted(run_id=RUN, step_id="d", provider="openai", request=request), 0)
    progress.apply(ModelCallFailed(run_id=RUN, step_id="d", provider="openai", error="busy", seconds=1), 0)
    progress.apply(started("d", 2), 0)
    assert [line.split("s  ", 1)[-1] for line in texts(step_lines(progress, 1.0, 80))] == [
        "openai gpt-4o-mini",
        "writing",
        "tool file_read",
        "attempt 2",
    ]


def test_the_last_line_counts_steps_and_time() -> None:
    progress = progress_of(["a", "b"], (0, finished("a", StepStatus.SUCCESS)))
    assert texts(run_lines(progress, 65.0, 80, 24))[-1] == "⠋ 1/2 steps  1 m 05 s"


def test_where_there_is_no_room_running_and_failed_steps_stay_and_the_rest_is_counted() -> None:
    names = [f"s{number}" for number in range(50)]
    events = [(0.0, finished(name, StepStatus.SUCCESS)) for name in names[:20]]
    events += [(0.0, started("s30")), (0.0, finished("s40", StepStatus.FAILED, error="no"))]
    shown = texts(run_lines(progress_of(names, *events), 1.0, 80, 8))
    assert len(shown) == 7
    assert [line.split()[1] for line in shown[:5]] == ["s17", "s18", "s19", "s30", "s40"]
    assert shown[5] == "  … and 17 done, 28 waiting"


def test_control_characters_of_models_and_servers_never_reach_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jgone\nnext\x9b31m"
    progress = progress_of(["a"], (0, finished("a", StepStatus.FAILED, error=evil)))
    text = "".join(texts(step_lines(progress, 1.0, 120)))
    assert "\\x1b]0;owned\\x07\\x1b[2Jgone next\\x9b31m" in text
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in text)


def test_without_unicode_the_marks_are_ascii() -> None:
    progress = progress_of(["a", "b", "c"], (0, started("b")), (0, finished("c", StepStatus.FAILED, error="x" * 90)))
    assert all("".join(line).isascii() for line in texts(run_lines(progress, 1.0, 80, 24, ASCII)))


@given(
    names=st.lists(st.text("ab日本e\u0301_", min_size=1, max_size=40), min_size=1, max_size=30, unique=True),
    statuses=st.lists(st.sampled_from([*StepStatus, None]), min_size=30, max_size=30),
    reason=st.text(max_size=80),
    width=st.integers(12, 140),
    height=st.integers(3, 40),
)
def test_no_line_is_wider_and_no_picture_higher_than_the_terminal(
    names: list[str], statuses: list[StepStatus | None], reason: str, width: int, height: int
) -> None:
    events = [
        (0.0, finished(name, status, error=reason, usage=Usage(input_tokens=10**7, output_tokens=1), cost_usd=0.00123))
        if status
        else (0.0, started(name))
        for name, status in zip(names, statuses, strict=False)
    ]
    lines = run_lines(progress_of(names, *events), 12345.0, width, height)
    assert len(lines) < height
    assert max(cell_len("".join(text for text, _ in line)) for line in lines) <= width


# --- child runs ---------------------------------------------------------------------------------


def ran(*steps: str) -> list[tuple[float, RunEvent]]:
    return [
        (0.0, event)
        for step in steps
        for event in (started(step), finished(step, StepStatus.SUCCESS, duration_ms=10, attempts=1))
    ]


def test_steps_of_child_runs_stand_under_the_step_that_runs_them() -> None:
    progress = progress_of(
        ["a", "sub", "sub.x", "z"],
        (0, started("sub")),
        (0, started("sub.draft")),
        (0, started("sub.2.check")),
        (0, started("sub.2.check.facts")),
        (0, started("sub.x")),
        (0, finished("sub.2.check.facts", StepStatus.FAILED, duration_ms=5, error="no")),
        (0, finished("elsewhere.y", StepStatus.SUCCESS)),
    )
    assert texts(step_lines(progress, 1.0, 80)) == [
        "· a          llm_call",
        "⠋ sub        llm_call  1.0 s",
        "⠋   draft              1.0 s",
        "⠋   2.check            1.0 s",
        "✗     facts             5 ms  no",
        "⠋ sub.x      llm_call  1.0 s",
        "· z          llm_call",
    ]
    assert texts(run_lines(progress, 1.0, 80, 24))[-1] == "⠋ 0/4 steps  1.0 s"


def test_where_a_step_ran_many_others_those_that_are_done_are_only_counted() -> None:
    progress = progress_of(["sub"], (0, started("sub")), *ran(*(f"sub.{number}.a" for number in range(10))))
    assert len(texts(step_lines(progress, 1.0, 80))) == 11
    more = [*ran("sub.10.a", "sub.11.in.b", "sub.11.in"), (0, started("sub.12.a"))]
    more += [(0, finished("sub.13.a", StepStatus.FAILED, duration_ms=5, error="no")), (0, started("sub.14.in"))]
    more += [*ran("sub.14.in.b"), (0, finished("sub.14.in.c", StepStatus.FAILED, duration_ms=5, error="never mind"))]
    more += [(0, finished("sub.14.in", StepStatus.SUCCESS, duration_ms=10))]
    for now, event in [*more, *ran(*(f"sub.{number}.a" for number in range(15, 1000)))]:
        progress.apply(event, now)
    assert texts(step_lines(progress, 1.0, 80)) == [
        "⠋ sub        llm_call  1.0 s  1000 steps done",
        "⠋   12.a               1.0 s",
        "✗   13.a                5 ms  no",
        "✗   14.in.c             5 ms  never mind",
    ]
    assert len(progress._steps) < 20


def test_a_child_run_that_is_repeated_begins_anew() -> None:
    progress = progress_of(
        ["sub"],
        (0, started("sub")),
        (0, started("sub.a")),
        (3, finished("sub.a", StepStatus.FAILED, duration_ms=3000, attempts=1, error="no")),
        (3, StepRetrying(run_id=RUN, step_id="sub", attempt=1, error="no", wait=1.0)),
        (4, started("sub", 2)),
        (5, started("sub.a")),
    )
    assert texts(step_lines(progress, 7.0, 80)) == ["⠋ sub  llm_call  7.0 s  attempt 2", "⠋   a            2.0 s"]


def test_what_is_done_in_child_runs_makes_room_first() -> None:
    names = ["first", "sub", "last"]
    events = [*ran("first"), (0.0, started("sub")), *ran("sub.a", "sub.b", "sub.c"), (0.0, started("sub.d"))]
    shown = texts(run_lines(progress_of(names, *events), 1.0, 80, 7))
    assert [line.split()[1] for line in shown] == ["first", "sub", "d", "last", "and", "1/3"]
    assert shown[4] == "  … and 3 done"


def test_a_paused_step_shows_its_question() -> None:
    asked = Pending(question="Ship it?", choices=("yes", "no"), step_id="gate")
    inner = Pending(question="And this?", step_id="sub.gate")
    progress = progress_of(
        ["gate", "sub"],
        (0, finished("gate", StepStatus.PAUSED, pending=(asked,))),
        (0, finished("sub.gate", StepStatus.PAUSED, pending=(inner,))),
        (0, finished("sub", StepStatus.PAUSED, pending=(inner,))),
    )
    assert [line.split("0 ms  ")[1] for line in texts(step_lines(progress, 1.0, 80))] == [
        "Ship it? (yes, no)",
        "sub.gate waits",
        "And this?",
    ]


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_run_has_a_picture(count: int) -> None:
    assert texts(run_lines(progress_of(["a"][:count]), 0.0, 80, 24))[-1].startswith("⠋ 0/")
