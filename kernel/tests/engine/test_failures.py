"""What a failed step does to the steps after it and to the run."""

from __future__ import annotations

import sys

import pytest
import trio
from engine_doubles import Act, act, flow, host_of, run, statuses

from treadle._engine.failures import Failure
from treadle.contracts.config import RetrySettings
from treadle.errors import ConfigurationError, SandboxError, StepError, ToolError, UnavailableError


async def broken(ctx):
    raise StepError(f"{ctx.step_id} broke")


async def test_dependents_of_a_failed_step_are_skipped_and_name_it_and_all_others_finish():
    host = host_of({"bad": broken})
    steps = [act("bad"), act("next", "bad"), act("last", "next"), act("apart"), act("apart2", "apart")]
    result = await run(flow(host, *steps))
    assert statuses(result) == {
        "bad": "failed", "next": "skipped", "last": "skipped", "apart": "success", "apart2": "success",
    }  # fmt: skip
    assert result.step_results["next"].reason == "step 'bad' failed"
    assert result.step_results["last"].reason == "step 'bad' failed"
    assert result.step_results["bad"].error == "bad broke"
    assert result.step_results["bad"].error_classification == "permanent"
    assert (result.status, result.error) == ("failed", "step 'bad': bad broke")


async def test_a_step_that_calls_sys_exit_has_failed_and_others_finish(autojump_clock):
    async def leave(ctx):
        sys.exit("no more")

    async def leave_in_a_nursery(ctx):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave, ctx)
            await trio.sleep_forever()

    host = host_of({"bad": leave, "worse": leave_in_a_nursery})
    result = await run(flow(host, act("bad"), act("worse"), act("good"), config={"max_retries": 2}))
    assert statuses(result) == {"bad": "failed", "worse": "failed", "good": "success"}
    for name in ("bad", "worse"):
        step = result.step_results[name]
        assert (step.error, step.error_classification) == ("SystemExit: no more", "transient")
        assert step.attempts == 3


async def test_ctrl_c_in_a_step_passes_beside_sys_exit_too():
    async def leave(ctx):
        raise BaseExceptionGroup("", [SystemExit(1), KeyboardInterrupt()])

    with pytest.raises(BaseExceptionGroup) as caught:
        await run(flow(host_of({"bad": leave}), act("bad")))
    assert caught.value.subgroup(KeyboardInterrupt)


async def test_a_step_that_calls_sys_exit_while_it_is_cancelled_was_cancelled(autojump_clock):
    async def leave(ctx):
        async def at_the_end():
            try:
                await trio.sleep_forever()
            finally:
                sys.exit(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(at_the_end)
            nursery.start_soon(trio.sleep_forever)

    result = await run(flow(host_of({"slow": leave}), act("slow"), config={"timeout": 1}))
    assert (result.status, result.step_results["slow"].status) == ("timeout", "cancelled")
    assert any("while it was cancelled: SystemExit: 1" in each.message for each in result.warnings)


async def test_of_several_failed_ancestors_the_nearest_is_named():
    host = host_of({"far": broken, "near": broken})
    result = await run(flow(host, act("far"), act("between", "far"), act("near"), act("end", "between", "near")))
    assert result.step_results["between"].reason == "step 'far' failed"
    assert result.step_results["end"].reason == "step 'near' failed"


async def test_with_continue_dependents_of_a_failed_step_run_and_the_run_still_failed():
    seen = []

    async def look(ctx):
        seen.append((dict(ctx.state), dict(ctx.state["steps"])))

    host = host_of({"bad": broken, "next": look})
    steps = [act("bad", output="made"), act("good", value=1), act("next", "bad", "good")]
    result = await run(flow(host, *steps, config={"on_step_failure": "continue"}))
    assert statuses(result) == {"bad": "failed", "good": "success", "next": "success"}
    assert result.status == "failed"
    assert seen == [
        ({}, {"bad": {"output": None, "status": "failed"}, "good": {"output": 1, "status": "success"}}),
    ]


async def test_the_error_of_the_run_is_that_of_the_first_failed_step_of_the_document(autojump_clock):
    async def late(ctx):
        await trio.sleep(1)
        raise StepError("late")

    result = await run(flow(host_of({"a": late, "b": broken}), act("a"), act("b")))
    assert result.error == "step 'a': late"


async def test_a_time_out_is_a_failure(autojump_clock):
    async def sleep(ctx):
        await trio.sleep(100)

    result = await run(flow(host_of({"a": sleep}), act("a", timeout=2), act("b", "a"), act("c")))
    assert statuses(result) == {"a": "timeout", "b": "skipped", "c": "success"}
    assert result.step_results["a"].error == "timed out after 2 s"
    assert result.step_results["a"].error_classification == "transient"
    assert result.step_results["a"].duration_ms == pytest.approx(2000)
    assert result.step_results["b"].reason == "step 'a' failed"
    assert (result.status, result.error) == ("failed", "step 'a': timed out after 2 s")


async def test_an_error_raised_while_a_step_times_out_is_a_failure(autojump_clock):
    async def messy(ctx):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("clean-up")

    result = await run(flow(host_of({"a": messy}), act("a", timeout=2)))
    assert statuses(result) == {"a": "failed"}
    assert result.step_results["a"].error == "KeyError: 'clean-up'"


async def test_what_is_no_outcome_is_refused():
    async def run_wrongly(self, ctx):
        return None

    host = host_of()
    original = host.load("step_type", "act")
    assert issubclass(original, Act)
    original.run = run_wrongly
    result = await run(flow(host, act("a")))
    assert result.step_results["a"].error == "TypeError: a step of type 'act' must give a StepOutcome, not NoneType"


async def test_the_one_error_in_a_group_is_the_step_s_error():
    async def grouped(ctx):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broken, ctx)

    result = await run(flow(host_of({"a": grouped}), act("a")))
    assert result.step_results["a"].error == "a broke"


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (StepError("x"), False),
        (SandboxError("x"), False),
        (ConfigurationError("x"), False),
        (ToolError("x"), True),
        (StepError("x", transient=True), True),
        (UnavailableError("x", provider="p"), True),
        (OSError("x"), True),
        (trio.BrokenResourceError("x"), True),
        (RuntimeError("x"), True),
        (ValueError("x"), False),
        (KeyError("x"), False),
        (TypeError("x"), False),
        (RecursionError("x"), False),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "x"), False),
    ],
)
def test_whether_another_attempt_may_help_is_the_errors_own_word_else_faults_are_permanent(error, transient):
    failure = Failure.of(error, RetrySettings())
    assert failure.transient is transient
    assert failure.classification == ("transient" if transient else "permanent")


def test_a_foreign_error_is_shown_with_its_type_and_one_of_ours_as_it_reads():
    assert Failure.of(OSError(5, "bad disk"), RetrySettings()).message == "OSError: [Errno 5] bad disk"
    assert Failure.of(RuntimeError(), RetrySettings()).message == "RuntimeError"
    assert Failure.of(StepError("no", hint="do this"), RetrySettings()).message == "no; do this"
