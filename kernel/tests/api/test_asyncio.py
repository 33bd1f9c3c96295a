"""Programs on asyncio, in threads and in notebooks: sessions, streams, and tools that need the program's own loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
import trio.lowlevel

import treadle
from treadle import Host, Step, StepOutcome, ToolContext, ToolError
from treadle._engine import RunStream, Session
from treadle._engine.asyncio_host import AsyncioRunStream, AsyncioSession
from treadle.contracts.events import StepFinished
from treadle.testing import RecordingObserver, offering, scripted


class Wait(Step):
    """Waits for ever, and says when it is ended."""

    begun: ClassVar[Callable[[], object]] = staticmethod(lambda: None)

    async def run(self, ctx):
        try:
            self.begun()
            await trio.sleep_forever()
        finally:
            ENDED.append(ctx.run_id)
        return StepOutcome()


class Interrupt(Wait):
    """Does as Ctrl-C does, and waits."""

    async def run(self, ctx):
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
        return await super().run(ctx)


ENDED: list[str] = []


@pytest.fixture
def lab(host) -> Host:
    ENDED.clear()
    return host.extended({"more": offering({"step_type": {"wait": Wait, "interrupt": Interrupt}})})


def two(lab, second="say"):
    builder = treadle.workflow("x").step("say", id="a", text="hi")
    fields = {"text": "ho"} if second == "say" else {}
    return builder.step(second, id="b", depends_on=["a"], **fields).build(lab)


def calling(host, tool_name="ask", **fields):
    args = fields.pop("tool_args", {})
    builder = treadle.workflow("x", max_retries=0, **fields.pop("config", {}))
    return builder.step("call", id="a", tool_name=tool_name, tool_args=args, **fields).build(host)


def kinds(events):
    return [type(event).__name__ for event in events]


# --- sessions -------------------------------------------------------------------------------------


def test_a_session_runs_one_workflow_after_another_and_several_at_once(host):
    provider = scripted("one", "two", "three")

    async def main() -> list[Any]:
        async with treadle.open(host=host, providers={"p": provider}) as session:
            workflow = treadle.workflow("x", provider="p").step("ask", id="a", prompt="hi").build(session.host)
            first = await session.run(workflow)
            others = await asyncio.gather(session.run(workflow), session.run(workflow))
            return sorted(each.step_results["a"].output for each in (first, *others))

    assert asyncio.run(main()) == ["one", "three", "two"]


def test_state_events_observers_and_the_id_are_passed_on(lab):
    seen, told = RecordingObserver(), []

    async def main() -> Any:
        workflow = treadle.workflow("x").state(who="you").step("say", id="a", text="{state.who}").build(lab)
        async with treadle.open(host=lab) as session:
            return await session.run(workflow, state={"who": "me"}, observers=[seen], on_event=told.append, run_id="r7")

    result = asyncio.run(main())
    assert (result.run_id, result.step_results["a"].output) == ("r7", "me")
    assert seen.events == told
    assert kinds(told)[-1] == "RunFinished"


def test_a_cancelled_task_cancels_its_run_and_no_other(lab, monkeypatch):
    async def main() -> Any:
        async with treadle.open(host=lab) as session:
            begun = asyncio.Event()
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(Wait, "begun", staticmethod(lambda: loop.call_soon_threadsafe(begun.set)))
            task = asyncio.create_task(session.run(two(lab, "wait"), run_id="doomed"))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ENDED == ["doomed"]
            return await session.run(two(lab))

    assert asyncio.run(main()).ok


def test_leaving_a_session_ends_what_still_runs_in_it(lab):
    async def main() -> None:
        async with treadle.open(host=lab) as session:
            task = asyncio.create_task(session.run(two(lab, "wait"), run_id="left"))
            async with session.stream(two(lab)) as run:
                async for _ in run:
                    pass
        with pytest.raises(RuntimeError, match=r"^the session was closed while this was under way$"):
            await task
        assert ENDED in (["left"], [])
        with pytest.raises(RuntimeError, match=r"^the session has been closed$"):
            await session.run(two(lab))

    asyncio.run(main())


def test_an_error_in_opening_or_closing_comes_out_as_itself(lab):
    class Stuck(treadle.MemoryJournal):
        def append(self, entry):
            pass

        def close(self):
            raise OSError("cannot close")

    async def main() -> None:
        with pytest.raises(OSError, match=r"^cannot close$"):
            async with treadle.open(host=lab, journal=Stuck()) as session:
                assert (await session.run(two(lab))).ok
        with pytest.raises(treadle.ConfigurationError, match="two of the tools given"):
            treadle.open(host=lab, tools=[echo, echo])

    asyncio.run(main())


def test_an_error_of_the_program_comes_out_as_itself_and_closes_the_session(lab):
    async def main() -> None:
        async with treadle.open(host=lab) as session, session.stream(two(lab, "wait"), run_id="r") as run:
            async for event in run:
                if isinstance(event, StepFinished):
                    1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(main())
    assert caught.value.__cause__ is None
    assert ENDED == ["r"]


def test_a_session_that_breaks_ends_what_runs_in_it_by_its_error(host):
    """A provider that breaks while it is open is the session's to know."""
    broken = trio.Event()

    class Fragile(scripted("hello")):  # type: ignore[misc] # a class made on the spot
        async def __aenter__(self):
            self._nursery_manager = trio.open_nursery()
            nursery = await self._nursery_manager.__aenter__()

            async def fail() -> None:
                await broken.wait()
                raise OSError("connection pool is broken")

            nursery.start_soon(fail)
            return self

        async def __aexit__(self, *details):
            return await self._nursery_manager.__aexit__(*details)

    class BreakAndWait(Step):
        async def run(self, ctx):
            broken.set()
            await trio.sleep_forever()
            return StepOutcome()

    async def main() -> None:
        extras: Any = {"providers": {"p": Fragile}, "steps": {"break": BreakAndWait}}
        async with treadle.open(host=host, **extras) as session:
            builder = treadle.workflow("x", provider="p").step("ask", id="a", prompt="hi")
            await session.run(builder.step("break", id="b", depends_on=["a"]).build(session.host))

    with pytest.raises(OSError, match=r"^connection pool is broken$"):
        asyncio.run(main())


@pytest.mark.parametrize(("ours", "theirs"), [(AsyncioSession, Session), (AsyncioRunStream, RunStream)])
def test_under_asyncio_there_are_the_same_methods(ours, theirs):
    """Programs see one type. What the engine keeps for its own use is not theirs."""
    inner = {"provider", "built_provider", "tool", "role", "price", "close", "observe", "expect_price", "layers_around"}
    inner |= {"new_budget", "token_counter", "waits_for_journal"}

    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_") and name not in inner}

    assert public(ours) == public(theirs)
    for name in public(ours) - {"start"}:
        mine, its = getattr(ours, name), getattr(theirs, name)
        if callable(mine):
            assert list(inspect.signature(mine).parameters) == list(inspect.signature(its).parameters), name


def test_runs_that_are_begun_by_hand_are_refused_with_what_to_do(lab):
    async def main() -> None:
        async with treadle.open(host=lab) as session:
            with pytest.raises(RuntimeError, match=r"^session.start is for programs on trio; under asyncio await "):
                session.start(two(lab))

    asyncio.run(main())


# --- streams --------------------------------------------------------------------------------------


def test_events_come_in_order_and_then_there_is_a_result(lab):
    async def main() -> Any:
        async with treadle.open(host=lab) as session, session.stream(two(lab), run_id="r3") as run:
            with pytest.raises(RuntimeError, match=r"^the run has not ended"):
                run.result  # noqa: B018
            events = [event async for event in run]
            assert run.run_id == "r3"
            return events, run.result

    events, result = asyncio.run(main())
    assert kinds(events) == [
        "RunStarted", "StepStarted", "StepFinished", "StepStarted", "StepFinished", "RunFinished"
    ]  # fmt: skip
    assert result.ok


def test_a_stream_is_cancelled_and_goes_on_to_its_last_event(lab):
    async def main() -> Any:
        async with treadle.open(host=lab) as session, session.stream(two(lab, "wait")) as run:
            events = []
            async for event in run:
                events.append(event)
                if isinstance(event, StepFinished) and event.step_id == "a":
                    run.cancel("enough")
            return events, run.result

    events, result = asyncio.run(main())
    assert kinds(events)[-1] == "RunFinished"
    assert (result.status, result.error) == ("cancelled", "enough")


def test_leaving_a_stream_early_ends_its_run(lab):
    async def main() -> Any:
        async with treadle.open(host=lab) as session:
            async with session.stream(two(lab, "wait")) as run:
                async for event in run:
                    if isinstance(event, StepFinished):
                        break
            return run.result

    result = asyncio.run(main())
    assert (result.status, result.error) == ("cancelled", "its events were left before the end")


def test_a_reader_that_gives_up_waiting_loses_no_event(lab):
    async def main() -> Any:
        events = []
        async with treadle.open(host=lab) as session, session.stream(two(lab, "wait")) as run:
            for _ in range(200):
                try:
                    events.append(await asyncio.wait_for(anext(run), 0.001))
                except TimeoutError:
                    if len(events) == 4:  # what comes before the step that waits
                        break
            run.cancel()
            events += [event async for event in run]
        return events

    assert kinds(asyncio.run(main())) == [
        "RunStarted", "StepStarted", "StepFinished", "StepStarted", "StepFinished", "RunFinished"
    ]  # fmt: skip


def test_an_error_of_the_run_ends_its_reader(lab):
    class Full(treadle.MemoryJournal):
        def append(self, entry):
            if entry.kind == "step_finished":
                raise OSError("disk full")

        def close(self):
            pass

    async def main() -> None:
        async with treadle.open(host=lab, journal=Full()) as session, session.stream(two(lab)) as run:
            async for _ in run:
                pass

    with pytest.raises(OSError, match=r"^disk full$"):
        asyncio.run(main())


def test_a_file_with_problems_is_refused_where_the_stream_is_entered(lab, tmp_path):
    async def main() -> None:
        async with treadle.open(host=lab) as session:
            with pytest.raises(treadle.DocumentError, match="no such file"):
                async with session.stream(tmp_path / "f.yaml"):
                    pass
            assert (await session.run(two(lab))).ok

    asyncio.run(main())


# --- tools that need the program's loop -----------------------------------------------------------


@treadle.tool
async def echo(text: str) -> str:
    return text


def test_the_function_runs_on_the_loop_of_the_program(host):
    place: list[Any] = []
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    @treadle.tool(loop="asyncio")
    async def ask(text: str) -> str:
        await asyncio.sleep(0)
        place.extend([asyncio.get_running_loop(), threading.current_thread(), variable.get()])
        return text.upper()

    async def main() -> Any:
        variable.set("the caller's")
        result = await treadle.run(calling(host.extended({}), tool_args={"text": "hi"}), tools=[ask])
        assert place == [asyncio.get_running_loop(), threading.current_thread(), "the caller's"]
        async with treadle.open(host=host, tools=[ask]) as session:
            again = await session.run(calling(session.host, tool_args={"text": "ho"}))
        return result.step_results["a"].output, again.step_results["a"].output

    assert asyncio.run(main()) == ("HI", "HO")


def test_its_error_and_its_warning_are_the_steps(host):
    @treadle.tool(loop="asyncio")
    async def ask(ctx: ToolContext) -> str:
        ctx.warn("careful")
        raise LookupError("lost")

    async def main() -> Any:
        return await treadle.run(calling(host), tools=[ask])

    result = asyncio.run(main())
    assert result.step_results["a"].error == "tool 'ask' failed: LookupError: lost"
    assert [each.message for each in result.warnings] == ["careful"]


def test_a_tool_that_takes_too_long_is_cancelled_on_the_loop(host):
    seen: list[str] = []

    @treadle.tool(loop="asyncio", timeout=0.05)
    async def ask() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            seen.append("cancelled, and cleaned up")
            raise

    async def main() -> Any:
        return await treadle.run(calling(host), tools=[ask])

    result = asyncio.run(main())
    assert result.step_results["a"].error.startswith("tool 'ask' timed out after 0.05 s")
    assert seen == ["cancelled, and cleaned up"]


def test_a_program_that_cancels_its_run_cancels_the_tool(host):
    seen: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        @treadle.tool(loop="asyncio")
        async def ask() -> None:
            begun.set()
            try:
                await asyncio.sleep(600)
            finally:
                seen.append("ended")

        task = asyncio.create_task(treadle.run(calling(host), tools=[ask]))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert seen == ["ended"]


def test_a_tool_whose_task_the_program_cancels_has_failed(host):
    @treadle.tool(loop="asyncio")
    async def ask() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(600)

    async def main() -> Any:
        return await treadle.run(calling(host), tools=[ask])

    step = asyncio.run(main()).step_results["a"]
    assert (step.status, step.error) == ("failed", "its task was cancelled by the program")


def test_without_such_a_loop_the_call_is_refused_with_what_to_do(host):
    @treadle.tool(loop="asyncio")
    async def ask() -> None:
        raise AssertionError("it is not called")

    told = (
        "tool 'ask' runs on the asyncio loop of its program, and this run was not started from one; "
        "start it by await treadle.run(...) or treadle.open() under asyncio"
    )

    async def in_a_notebook() -> Any:
        return treadle.run_sync(workflow, tools=[ask])

    workflow = calling(host, retry={"max_retries": 3})
    for result in (treadle.run_sync(workflow, tools=[ask]), asyncio.run(in_a_notebook())):
        step = result.step_results["a"]
        assert (step.error, step.error_classification, step.attempts) == (told, "permanent", 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"loop": "curio"}, "tool 'plain': loop is 'asyncio' or not given, not 'curio'; without it, async means trio"),
        ({"loop": "asyncio"}, "tool 'plain': loop='asyncio' is for async functions; any other runs in a thread"),
    ],
)
def test_what_cannot_run_there_is_refused_where_it_is_made(options, told):
    def plain() -> None:
        return None

    with pytest.raises(TypeError) as caught:
        treadle.tool(**options)(plain)
    assert str(caught.value) == told


async def test_a_loop_that_has_ended_is_an_error_of_the_tool():
    loop = asyncio.new_event_loop()
    loop.close()
    from treadle._bridges.loops import call_on

    async def never() -> None:
        raise AssertionError("it is not called")

    with pytest.raises(ToolError, match=r"^the program's asyncio loop has ended$"):
        await call_on(loop, never)


# --- programs that wait ---------------------------------------------------------------------------


def test_run_sync_works_under_a_running_loop_as_in_a_notebook(host):
    async def cell() -> Any:
        return treadle.run_sync(two(host)).status, threading.active_count()

    before = threading.active_count()
    assert asyncio.run(cell()) == ("success", before)

    async def bad() -> Any:
        return treadle.run_sync("no-such-file.yaml")

    with pytest.raises(treadle.DocumentError, match="no such file"):
        asyncio.run(bad())


def test_ctrl_c_while_a_notebook_waits_ends_the_run_first(lab):
    async def cell() -> None:
        with pytest.raises(KeyboardInterrupt):
            treadle.run_sync(two(lab, "interrupt"))

    loop = asyncio.new_event_loop()  # asyncio.run has a handler of its own, a notebook has not
    try:
        loop.run_until_complete(cell())
    finally:
        loop.close()
    assert len(ENDED) == 1


async def test_run_sync_under_trio_is_refused_with_what_to_do(host):
    with pytest.raises(RuntimeError, match=r"^run_sync would bring .* to a stop; write await treadle.run\(\.\.\.\)$"):
        treadle.run_sync(two(host))


def test_many_threads_run_at_once(host):
    results: list[Any] = []
    workflow = two(host)
    threads = [threading.Thread(target=lambda: results.append(treadle.run_sync(workflow))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.status for each in results] == ["success"] * 8


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted by /proc")
def test_two_hundred_runs_leave_no_thread_no_task_and_no_descriptor(lab):
    @treadle.tool(loop="asyncio")
    async def ask() -> str:
        await asyncio.sleep(0)
        return "yes"

    def left() -> tuple[int, int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), len(asyncio.all_tasks())

    async def cancelled() -> None:
        task = asyncio.create_task(treadle.run(two(lab, "wait")))
        await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def main() -> None:
        await treadle.run(two(lab))
        await cancelled()
        before = left()
        for _ in range(40):
            await treadle.run(calling(lab), tools=[ask])
            await treadle.run(calling(lab, tool_name="none"), tools=[ask])
            treadle.run_sync(two(lab))
            await cancelled()
            async with treadle.open(host=lab) as session:
                await session.run(two(lab))
                async with session.stream(two(lab, "wait")) as run:
                    await anext(run)
        assert left() == before

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())


@pytest.mark.parametrize("program", ["trio", "asyncio"])
@pytest.mark.parametrize("kind", ["sleep", "yield", "queue", "class"])
def test_a_tool_for_asyncio_is_told_what_to_do_once_and_not_tried_again(lab, program, kind):
    calls = []

    @treadle.tool
    async def ask(seconds: float = 0.1 if kind == "sleep" else 0) -> str:
        """Ask."""
        calls.append(seconds)
        if kind == "queue":
            await asyncio.Queue().get()
        await asyncio.sleep(seconds)  # with 0 it needs no loop, and only gives way
        return "never"

    class Ask(treadle.BaseTool):
        name, description = "ask", "Ask."

        async def execute(self) -> str:
            calls.append(0.1)
            return await asyncio.to_thread(str)

    async def main() -> Any:
        async with treadle.open(host=lab, tools=[Ask if kind == "class" else ask]) as session:
            return await session.run(calling(session.host, retry={"max_retries": 2}))

    result = trio.run(main) if program == "trio" else asyncio.run(main())
    step = result.step_results["a"]
    assert step.error.startswith(
        "tool 'ask' is written for asyncio, and there is no asyncio loop where it runs; trio runs"
    )
    assert (step.error_classification, len(calls)) == ("permanent", 1)


@pytest.mark.parametrize("seconds", [0, 0.1])
def test_so_is_a_tool_for_trio_that_says_it_runs_on_asyncio(lab, seconds):
    @treadle.tool(loop="asyncio")
    async def ask() -> str:
        """Ask."""
        await trio.lowlevel.checkpoint()
        return "never"

    async def main() -> Any:
        async with treadle.open(host=lab, tools=[ask]) as session:
            return await session.run(calling(session.host))

    step = asyncio.run(main()).step_results["a"]
    assert step.error.startswith("tool 'ask' is written for trio, and runs where there is none; leave loop=")
    assert step.error_classification == "permanent"
