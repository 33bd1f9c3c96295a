"""A run's events as an async iterator."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import treadle
from treadle import DocumentError, Host, Step, StepOutcome
from treadle.contracts.events import StepFinished, TextEmitted
from treadle.testing import RecordingObserver, offering


class Wait(Step):
    """Waits for ever."""

    async def run(self, ctx):
        await trio.sleep_forever()
        return StepOutcome()


class Chatter(Step):
    """Emits many pieces of text."""

    async def run(self, ctx):
        for number in range(3000):
            ctx.emit_text(f"{number},")
        return StepOutcome(value="done")


@pytest.fixture
def lab(host) -> Host:
    return host.extended({"more": offering({"step_type": {"wait": Wait, "chatter": Chatter}})})


def two(lab, second="say"):
    builder = treadle.workflow("x").step("say", id="a", text="hi")
    if second == "say":
        return builder.step("say", id="b", text="ho", depends_on=["a"]).build(lab)
    return builder.step(second, id="b", depends_on=["a"]).build(lab)


def kinds(events):
    return [type(event).__name__ for event in events]


async def test_events_come_in_order_and_then_there_is_a_result(lab):
    async with treadle.open(host=lab) as session, session.stream(two(lab)) as run:
        events = [event async for event in run]
        assert run.result.ok
    assert kinds(events) == [
        "RunStarted", "StepStarted", "StepFinished", "StepStarted", "StepFinished", "RunFinished"
    ]  # fmt: skip
    assert {event.run_id for event in events} == {run.run_id}
    assert events[-1].result is run.result


async def test_events_come_while_the_run_is_under_way(lab):
    async with treadle.open(host=lab) as session, session.stream(two(lab, "wait")) as run:
        async for event in run:
            if isinstance(event, StepFinished) and event.step_id == "a":
                with pytest.raises(RuntimeError, match=r"^the run has not ended; iterate its events to the end"):
                    run.result  # noqa: B018
                run.cancel("enough")
        assert (run.result.status, run.result.error) == ("cancelled", "enough")


async def test_leaving_early_ends_the_run_and_keeps_what_was_made(lab):
    async with treadle.open(host=lab) as session:
        async with session.stream(two(lab, "wait")) as run:
            async for event in run:
                if isinstance(event, StepFinished):
                    break
        assert (run.result.status, run.result.error) == ("cancelled", "its events were left before the end")
        assert [each.status.value for each in run.result.step_results.values()] == ["success", "cancelled"]
        assert run.result.warnings == ()


async def test_leaving_at_once_ends_the_run(lab):
    async with treadle.open(host=lab) as session:
        async with session.stream(two(lab)) as run:
            pass
        assert run.result.status == "cancelled"


async def test_an_error_of_the_reader_comes_out_as_itself(lab):
    async def read():
        async with treadle.open(host=lab) as session, session.stream(two(lab, "wait")) as run:
            async for _ in run:
                1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError) as caught:
        await read()
    assert caught.value.__cause__ is None


async def test_an_error_of_the_run_comes_out_as_itself(lab):
    class Full(treadle.MemoryJournal):
        def append(self, entry):
            if entry.kind == "step_finished":
                raise OSError("disk full")

        def close(self):
            pass

    async def read():
        async with treadle.open(host=lab, journal=Full()) as session, session.stream(two(lab)) as run:
            async for _ in run:
                pass
            return run.result

    with pytest.raises(OSError, match=r"^disk full$"):
        await read()


async def test_a_cancellation_from_outside_goes_through(lab):
    with trio.CancelScope() as scope:
        async with treadle.open(host=lab) as session, session.stream(two(lab, "wait")) as run:
            async for event in run:
                if isinstance(event, StepFinished):
                    scope.cancel()
    assert scope.cancelled_caught


async def test_a_slow_reader_gets_all_of_the_text(lab):
    async with treadle.open(host=lab) as session, session.stream(two(lab, "chatter")) as run:
        await trio.testing.wait_all_tasks_blocked()
        texts = [event.text async for event in run if isinstance(event, TextEmitted)]
    assert "".join(texts) == "".join(f"{number}," for number in range(3000))
    assert len(texts) < 3000


async def test_a_file_with_problems_is_refused_before_anything_runs(lab, tmp_path):
    async with treadle.open(host=lab) as session:
        with pytest.raises(DocumentError, match="no such file"):
            session.stream(tmp_path / "f.yaml")


async def test_state_observers_and_the_id_are_passed_on(lab):
    seen = RecordingObserver()
    workflow = treadle.workflow("x").state(who="you").step("say", id="a", text="{state.who}").build(lab)
    async with (
        treadle.open(host=lab) as session,
        session.stream(workflow, state={"who": "me"}, observers=[seen], run_id="r7") as run,
    ):
        events = [event async for event in run]
    assert run.result.step_results["a"].output == "me"
    assert run.result.run_id == "r7"
    assert seen.events == events
