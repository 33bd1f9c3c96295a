"""The record of a run: every fact before what acts on it, and no run without a record."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from engine_doubles import Recorder, RecordingJournal, act, asking, flow, host_of, provider_of, request, response, run

import treadle
from treadle._engine.journal import MemoryJournal
from treadle.contracts.journal import JournalEntry
from treadle.contracts.step import StepOutcome
from treadle.contracts.tool import Tool
from treadle.messages import Completed


class Echo(Tool):
    name = "echo"
    log: list[str]

    async def call(self, arguments, context):
        self.log.append("tool runs")
        arguments["changed"] = True
        await trio.lowlevel.checkpoint()
        return arguments["text"]


async def test_every_fact_is_appended_before_anything_acts_on_it():
    log: list[str] = []

    class Interleaved(RecordingJournal):
        def append(self, entry: JournalEntry) -> None:
            super().append(entry)
            log.append(f"{entry.kind} {entry.step}".strip())

    journal = Interleaved()

    async def works(ctx):
        log.append("a runs")
        await ctx.complete(request())
        log.append("a has the reply")
        await ctx.call_tool("echo", {"text": "x"})
        log.append("a has the result")
        return 1

    async def follows(ctx):
        log.append(f"b sees {ctx.state['out']}")

    async def answer(request):
        log.append("provider answers")
        yield Completed(response())

    host = host_of(
        {"a": works, "b": follows}, provider=provider_of(answer), tools={"echo": type("E", (Echo,), {"log": log})}
    )
    await run(flow(host, act("a", output="out"), act("b", "a")), journal=journal)
    assert log == [
        "run_started",
        "step_started a", "a runs",
        "model_call_started a", "provider answers", "model_call_finished a", "a has the reply",
        "tool_call_started a", "tool runs", "tool_call_finished a", "a has the result",
        "step_finished a",
        "step_started b", "b sees 1", "step_finished b",
        "run_finished",
    ]  # fmt: skip
    assert journal.closed == 1
    assert {entry.run_id for entry in journal.kept} == {journal.kept[0].run_id}


async def test_what_is_recorded_of_a_tool_call_is_not_changed_by_the_tool():
    journal = RecordingJournal()

    async def calls(ctx):
        await ctx.call_tool("echo", {"text": "x"}, call_id="c1")

    host = host_of({"a": calls}, tools={"echo": type("E", (Echo,), {"log": []})})
    await run(flow(host, act("a")), journal=journal)
    assert [entry.data for entry in journal.kept if entry.kind.startswith("tool")] == [
        {"call_id": "c1", "tool_name": "echo", "arguments": {"text": "x"}},
        {"call_id": "c1", "result": "x"},
    ]


async def test_skipped_and_failed_steps_are_recorded_with_their_results():
    async def broken(ctx):
        raise ValueError("no")

    journal = RecordingJournal()
    await run(flow(host_of({"a": broken}), act("a"), act("b", "a")), journal=journal)
    assert journal.facts() == ["run_started", "step_started a", "step_finished a", "step_finished b", "run_finished"]
    assert [str(e.data["result"].status) for e in journal.kept if e.kind == "step_finished"] == ["failed", "skipped"]


_KINDS = [
    "run_started",
    "step_started",
    "model_call_started",
    "model_call_finished",
    "tool_call_started",
    "tool_call_finished",
    "step_finished",
    "run_finished",
]


@pytest.mark.parametrize("kind", _KINDS)
async def test_a_run_that_cannot_be_recorded_stops_with_that_error_and_repeats_nothing(kind, autojump_clock):
    """Whatever fact it is: what is paid for is never done again in silence, nor forgotten."""
    runs = 0

    async def works(ctx):
        nonlocal runs
        runs += 1
        try:
            await asking()(ctx)
            await ctx.call_tool("echo", {"text": "x"})
        except Exception as error:  # as a step may that passes errors on to a model
            return StepOutcome(value=str(error))
        return 1

    journal = RecordingJournal(lambda entry: entry.kind == kind)
    provider = provider_of()

    async def waits(ctx):
        await trio.sleep_forever()

    host = host_of(
        {"a": works, "waits": waits},
        provider=provider,
        tools={"echo": type("E", (Echo,), {"log": []})},
    )
    steps = [act("a", retry={"max_retries": 3}), act("b", "a")]
    if kind not in ("run_started", "run_finished"):
        steps.append(act("waits"))
    recorder = Recorder()
    with trio.fail_after(1000), pytest.raises(OSError, match="No space left on device"):
        await run(flow(host, *steps), journal=journal, observers=[recorder])
    assert runs <= 1
    assert provider.open_exchanges == 0
    assert journal.closed == 1
    assert "run_finished" not in journal.facts()
    assert "RunFinished" not in recorder.told()
    if kind != "run_finished":
        assert "step_started b" not in journal.facts()


async def test_a_step_that_makes_light_of_a_missing_record_does_not_hold_the_run_up():
    async def careless(ctx):
        with suppress(OSError):
            await ctx.call_tool("echo", {"text": "x"})
        await trio.sleep_forever()

    journal = RecordingJournal(lambda entry: entry.kind == "tool_call_started")
    host = host_of({"a": careless}, tools={"echo": type("E", (Echo,), {"log": []})})
    with trio.fail_after(60), pytest.raises(OSError, match="No space left"):
        await run(flow(host, act("a")), journal=journal)


async def test_nothing_is_recorded_after_a_gap():
    async def careless(ctx):
        with suppress(OSError):
            await ctx.complete(request())

    journal = RecordingJournal(lambda entry: entry.kind == "model_call_finished")
    host = host_of({"a": careless}, provider=provider_of())
    with pytest.raises(OSError, match="No space left"):
        await run(flow(host, act("a"), act("b", "a")), journal=journal)
    assert journal.facts() == ["run_started", "step_started a", "model_call_started a"]


async def test_the_session_can_be_used_after_a_run_that_could_not_be_recorded():
    full = [True]
    journal = RecordingJournal(lambda entry: full[0] and entry.kind == "step_finished")
    host = host_of()
    async with treadle.open(host=host, journal=journal) as session:
        with pytest.raises(OSError, match="No space left"):
            await session.run(flow(host, act("a")))
        full[0] = False
        assert (await session.run(flow(host, act("a")))).status == "success"


async def test_a_journal_that_is_empty_is_not_taken_for_none():
    class Sized(RecordingJournal):
        def __len__(self) -> int:
            return len(self.kept)

    journal = Sized()
    await run(flow(host_of(), act("a")), journal=journal)
    assert journal.facts()[-1] == "run_finished"


# --- in memory ------------------------------------------------------------------------------------


async def test_the_journal_in_memory_keeps_the_latest_runs_only():
    journal = MemoryJournal()
    host = host_of()
    async with treadle.open(host=host, journal=journal) as session:
        for number in range(30):
            await session.run(flow(host, act("a")), run_id=f"r{number}")
    kept = [number for number in range(30) if list(journal.entries(f"r{number}"))]
    assert kept == list(range(14, 30))
    assert [entry.kind for entry in journal.entries("r29")] == [
        "run_started", "step_started", "step_finished", "run_finished",
    ]  # fmt: skip
    assert list(journal.entries("unheard of")) == []


def test_a_run_under_way_is_kept_however_many_others_finish():
    journal = MemoryJournal()
    journal.append(JournalEntry("long", "run_started"))
    for number in range(100):
        journal.append(JournalEntry(f"r{number}", "run_started"))
        journal.append(JournalEntry(f"r{number}", "run_finished"))
    assert [entry.kind for entry in journal.entries("long")] == ["run_started"]


class Waiting(RecordingJournal):
    """Says in a log what it is told, and by what it is asked to wait."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    def append(self, entry: JournalEntry) -> None:
        super().append(entry)
        self.log.append(entry.kind)

    async def settle(self) -> None:
        await trio.lowlevel.checkpoint()
        self.log.append("settled")

    def will_settle(self) -> None:
        self.log.append("told")


async def test_a_journal_may_wait_before_anything_acts_on_what_was_appended():
    log: list[str] = []

    async def works(ctx):
        await ctx.complete(request())
        log.append("a has the reply")
        await ctx.call_tool("echo", {"text": "x"})
        log.append("a has the result")
        with suppress(treadle.ToolError):
            await ctx.call_tool("echo", {})
        log.append("a has the error")

    async def follows(ctx):
        log.append("b begins")

    class Logged(Echo):
        async def call(self, arguments, context):
            log.append("tool")
            return await super().call(arguments, context)

    steps = {"a": works, "b": follows}
    host = host_of(steps, provider=provider_of(), tools={"echo": type("E", (Logged,), {"log": []})})
    await run(flow(host, act("a"), act("b", depends_on=["a"])), journal=Waiting(log))
    assert log == [
        *("told", "run_started", "step_started"),
        *("model_call_started", "settled", "model_call_finished", "settled", "a has the reply"),
        *("tool_call_started", "settled", "tool", "tool_call_finished", "settled", "a has the result"),
        *("tool_call_started", "settled", "tool", "tool_call_finished", "settled", "a has the error"),
        *("step_finished", "step_started", "settled", "b begins"),
        *("step_finished", "run_finished", "settled"),
    ]


async def test_a_journal_that_says_that_all_is_kept_is_not_waited_for():
    log: list[str] = []

    async def works(ctx):
        await ctx.complete(request())

    journal = Waiting(log)
    journal.is_settled = True
    await run(flow(host_of({"a": works}, provider=provider_of()), act("a")), journal=journal)
    assert "settled" not in log


async def test_a_journal_that_cannot_settle_ends_the_run_whoever_catches_it():
    class Full(RecordingJournal):
        async def settle(self) -> None:
            raise OSError("disk full")

    async def careless(ctx):
        with suppress(Exception):
            await ctx.complete(request())
        return "went on"

    host = host_of({"a": careless}, provider=provider_of())
    with pytest.raises(OSError, match="disk full"):
        await run(flow(host, act("a", output="out")), journal=Full())


async def test_a_reply_that_is_being_kept_is_not_lost_to_a_cancellation(autojump_clock):
    kept: list[str] = []

    class Slow(RecordingJournal):
        async def settle(self) -> None:
            if self.kept[-1].kind == "model_call_finished":
                await trio.sleep(5)
                kept.append("kept")

    async def works(ctx):
        await ctx.complete(request())

    host = host_of({"a": works}, provider=provider_of())
    await run(flow(host, act("a", timeout=1)), journal=Slow())
    assert kept == ["kept"]
