"""What observers are told, in which order, and that none of them can slow a run down or break it."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from engine_doubles import Recorder, act, asking, flow, host_of, pick, provider_of, run

from treadle._engine.observers import _BOUND, Hub
from treadle.contracts.events import RunFinished, RunStarted, RunWarning, StepFinished, StepStarted, TextEmitted


async def test_a_run_is_told_from_its_beginning_to_its_end_in_order():
    recorder = Recorder()
    host = host_of({"a": asking(stream=True)}, provider=provider_of())
    workflow = flow(host, act("a"), pick("r", "a", choices=["b"]), act("b", "r"))
    result = await run(workflow, observers=[recorder], run_id="mine")
    assert recorder.told() == [
        "RunStarted",
        "StepStarted a", "ModelCallStarted a", "TextEmitted a", "TextEmitted a", "ModelCallFinished a",
        "StepFinished a", "StepStarted r", "StepFinished r", "StepFinished b",
        "RunFinished",
    ]  # fmt: skip
    first, last = recorder.events[0], recorder.events[-1]
    assert first == RunStarted(run_id="mine", workflow_name="flow", steps=("a", "r", "b"))
    assert last == RunFinished(run_id="mine", result=result)
    assert {event.run_id for event in recorder.events} == {"mine"}
    finished = [event for event in recorder.events if isinstance(event, StepFinished)]
    assert all(event.result is result.step_results[event.step_id] for event in finished)


async def test_a_function_an_observer_and_an_installed_one_all_hear_the_same():
    installed: list[Recorder] = []

    def make() -> Recorder:
        installed.append(Recorder())
        return installed[-1]

    heard: list[Any] = []
    given = Recorder()
    workflow = flow(host_of(observers={"o": make}), act("a"))
    await run(workflow, observers=[given], on_event=heard.append)
    await run(workflow)
    assert given.events == heard == installed[0].events
    assert len(installed) == 2, "an installed observer is made for each run"
    assert len(installed[1].events) == 4


async def test_a_slow_observer_hears_everything_and_does_not_slow_the_run_down(autojump_clock):
    ends: dict[str, float] = {}

    class Slow(Recorder):
        async def observe(self, event: Any) -> None:
            await trio.sleep(100)
            await super().observe(event)

    async def nap(ctx):
        await trio.sleep(1)
        ends[ctx.step_id] = trio.current_time()

    slow = Slow()
    start = trio.current_time()
    await run(flow(host_of({"a": nap, "b": nap}), act("a"), act("b", "a")), observers=[slow])
    assert {name: end - start for name, end in ends.items()} == {"a": 1, "b": 2}
    assert [kind.split()[0] for kind in slow.told()] == [
        "RunStarted", "StepStarted", "StepFinished", "StepStarted", "StepFinished", "RunFinished",
    ]  # fmt: skip


async def test_when_its_queue_is_full_text_is_joined_and_nothing_is_lost(autojump_clock):
    pieces = _BOUND * 3
    told_while_stuck = []

    class Stuck(Recorder):
        async def observe(self, event: Any) -> None:
            if not self.events:
                await trio.sleep(60)
            await super().observe(event)

    async def talks(ctx):
        for number in range(pieces):
            ctx.emit_text(f"{ctx.step_id}{number} ")
            if number % 100 == 0:
                ctx.warn(str(number))
                await trio.lowlevel.checkpoint()
        told_while_stuck.append(ctx.step_id)

    observer = Stuck()
    host = host_of({"a": talks, "b": talks})
    await run(flow(host, act("a"), act("b"), act("c", "a", "b")), observers=[observer])
    for step_id in ("a", "b"):
        of_step = [event for event in observer.events if getattr(event, "step_id", None) == step_id]
        text = [event.text for event in of_step if isinstance(event, TextEmitted)]
        assert "".join(text) == "".join(f"{step_id}{number} " for number in range(pieces))
        assert len(text) < pieces, "some of it is joined"
        assert isinstance(of_step[-1], StepFinished), "no text comes after its step has finished"
        warned = [int(event.message) for event in of_step if isinstance(event, RunWarning)]
        assert warned == list(range(0, pieces, 100)), "nothing but text is joined"
        # Text and warnings of one step keep their order.
        heard = ""
        for event in of_step:
            if isinstance(event, TextEmitted):
                heard += event.text
            elif isinstance(event, RunWarning):
                assert heard.endswith(f"{step_id}{event.message} ")
    assert [event.step_id for event in observer.events if isinstance(event, StepStarted)] == ["a", "b", "c"]
    assert isinstance(observer.events[-1], RunFinished)
    assert sorted(told_while_stuck) == ["a", "b"]


async def test_joined_text_is_told_as_soon_as_the_observer_has_time_and_not_only_when_its_step_ends(autojump_clock):
    heard_it_all = trio.Event()

    class Late(Recorder):
        async def observe(self, event: Any) -> None:
            if not self.events:
                await trio.sleep(60)
            await super().observe(event)
            if isinstance(event, TextEmitted) and event.text.endswith("the end"):
                heard_it_all.set()

    async def talks(ctx):
        for _ in range(_BOUND * 2):
            ctx.emit_text("word ")
        ctx.emit_text("the end")
        await heard_it_all.wait()

    with trio.fail_after(1000):
        result = await run(flow(host_of({"a": talks}), act("a")), observers=[Late()])
    assert result.status == "success"


async def test_nothing_is_queued_for_an_observer_that_failed():
    class Broken(Recorder):
        async def observe(self, event: Any) -> None:
            raise KeyError("oops")

    hub = Hub("r", [Broken(), Recorder()])
    async with trio.open_nursery() as nursery:
        hub.start(nursery)
        hub.send(StepStarted(run_id="r", step_id="a", attempt=1))
        await trio.testing.wait_all_tasks_blocked()
        assert [type(queue.observer) for queue in hub._queues] == [Recorder]
        hub.close()


async def test_an_observer_that_raises_hears_no_more_and_the_others_are_told_whose_fault_it_was():
    class Broken(Recorder):
        async def observe(self, event: Any) -> None:
            await super().observe(event)
            raise KeyError("oops")

    broken, sound = Broken(), Recorder()
    result = await run(flow(host_of(), act("a"), act("b", "a")), observers=[broken, sound])
    assert result.status == "success"
    assert len(broken.events) == 1
    warnings = [event for event in sound.events if isinstance(event, RunWarning)]
    assert [event.message for event in warnings] == [
        "observer Broken failed and hears no more of this run: KeyError: 'oops'"
    ]
    assert isinstance(sound.events[-1], RunFinished)


async def test_nothing_is_heard_after_the_end_even_when_another_observer_fails_on_the_very_last_event(autojump_clock):
    class FailsAtTheEnd(Recorder):
        async def observe(self, event: Any) -> None:
            if isinstance(event, RunFinished):
                raise KeyError("oops")

    class Slow(Recorder):
        async def observe(self, event: Any) -> None:
            await trio.sleep(1)
            await super().observe(event)

    slow = Slow()
    await run(flow(host_of(), act("a")), observers=[FailsAtTheEnd(), slow])
    assert [type(event).__name__ for event in slow.events][-2:] == ["RunWarning", "RunFinished"]


async def test_a_function_that_raises_is_a_failed_observer():
    def fail(event: Any) -> None:
        raise ValueError("no")

    sound = Recorder()
    result = await run(flow(host_of(), act("a")), observers=[sound], on_event=fail)
    assert result.status == "success"
    assert "observer CallbackObserver failed" in next(e.message for e in sound.events if isinstance(e, RunWarning))


async def test_with_nobody_to_hear_no_event_is_made():
    assert not Hub("r", []).active
    assert Hub("r", [Recorder()]).active


async def test_the_run_is_not_over_before_everything_has_been_told(autojump_clock):
    class Slow(Recorder):
        async def observe(self, event: Any) -> None:
            await trio.sleep(1)
            await super().observe(event)

    slow = Slow()
    await run(flow(host_of(), act("a")), observers=[slow])
    assert isinstance(slow.events[-1], RunFinished)
