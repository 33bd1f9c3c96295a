"""What always holds, whatever a model replies; for both drivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import (
    AssistantMessage,
    ModelRequest,
    ModelResponse,
    StopReason,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from treadle_loop.asks import RunTools
from treadle_loop.drivers import drive, drive_sync
from treadle_loop.loop import LoopSettings, Outcome, converse

from loops.world import World, call, said, tool

NUMBERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
TOOLS = {"f": tool("f", NUMBERS), "g": tool("g", parallel_safe=False), "h": tool("h", NUMBERS, max_calls=2)}

ids = st.sampled_from(["a", "b", "c"])
names = st.sampled_from(["f", "g", "h", "nope"])
good = st.builds(call, names, st.sampled_from([{}, {"n": 1}, {"n": "2"}, {"n": "x"}, {"m": 1}]), ids)
bad = st.builds(
    lambda name, call_id: call(name, None, call_id, raw_arguments="[", parse_error="the arguments are not JSON"),
    names,
    ids,
)
texts = st.sampled_from(["", "well", "ünïcödé 🙂"])


@st.composite
def replies(draw: st.DrawFn) -> ModelResponse:
    calls: list[ToolCallPart] = []
    for each in draw(st.lists(good | bad, max_size=3)):
        # Within a reply, providers have made ids unique.
        calls.append(
            each
            if each.call_id not in {other.call_id for other in calls}
            else call(each.tool_name, {}, f"z{len(calls)}")
        )
    text = draw(texts)
    stop = draw(st.sampled_from([None, None, None, StopReason.MAX_TOKENS, StopReason.UNKNOWN]))
    if not calls and draw(st.booleans()) and text:
        stop = StopReason.PAUSED
    return said(*([text] if text else []), *calls, stop=stop)


def execute(each: ToolCallPart) -> ToolResultPart:
    return ToolResultPart(call_id=each.call_id, tool_name=each.tool_name, content=f"did {each.arguments}")


Model = Callable[[ModelRequest], ModelResponse]


def in_plain_code(
    model: Callable[[ModelRequest], ModelResponse], how: LoopSettings, ran: list[ToolCallPart]
) -> Outcome:
    def run_tools(ask: RunTools) -> list[ToolResultPart]:
        ran.extend(ask.calls)
        return [execute(each) for each in ask.calls]

    request = ModelRequest(model="m", messages=(UserMessage.of("go"),), max_tokens=10)
    return drive_sync(converse(request, how), complete=model, run_tools=run_tools)


def on_trio(model: Model, how: LoopSettings, ran: list[ToolCallPart]) -> Outcome:
    async def complete(request: ModelRequest) -> ModelResponse:
        await trio.lowlevel.checkpoint()
        return model(request)

    async def run_tool(each: ToolCallPart) -> ToolResultPart:
        ran.append(each)
        await trio.lowlevel.checkpoint()
        return execute(each)

    request = ModelRequest(model="m", messages=(UserMessage.of("go"),), max_tokens=10)
    return trio.run(lambda: drive(converse(request, how), complete=complete, run_tool=run_tool))


def check_sendable(messages: tuple[Any, ...], *, open_end: bool = False) -> None:
    """Every call has exactly one result, in order, right after it; ids are unique."""
    seen: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            call_ids = [each.call_id for each in message.tool_calls]
            assert len(set(call_ids)) == len(call_ids)
            assert not seen & set(call_ids)
            seen |= set(call_ids)
            if index == len(messages) - 1:
                assert open_end
                continue
            after = messages[index + 1]
            assert isinstance(after, ToolMessage)
            assert [each.call_id for each in after.results] == call_ids
        elif isinstance(message, ToolMessage):
            assert isinstance(messages[index - 1], AssistantMessage)


@settings(deadline=None)
@given(
    script=st.lists(replies(), min_size=1, max_size=6),
    cap=st.integers(1, 6),
    ceiling=st.sampled_from([None, 15, 100]),
    answer=st.booleans(),
    note=st.booleans(),
)
def test_the_laws_hold(script: list[ModelResponse], cap: int, ceiling: int | None, answer: bool, note: bool) -> None:
    how = LoopSettings(
        max_iterations=cap, tools=TOOLS, max_tokens_ceiling=ceiling, answer_at_cap=answer, note_remaining=note
    )
    outcomes = []
    for runner in (in_plain_code, on_trio):
        requests: list[ModelRequest] = []
        ran: list[ToolCallPart] = []

        def model(request: ModelRequest, requests: list[ModelRequest] = requests) -> ModelResponse:
            requests.append(request)
            return script[(len(requests) - 1) % len(script)]

        outcome = runner(model, how, ran)
        assert len(requests) <= cap + answer
        for request in requests:
            check_sendable(request.messages)
        check_sendable(outcome.messages, open_end=outcome.stop == "iterations")
        for each in ran:
            assert each.arguments is not None
            assert each.tool_name in TOOLS
            assert each.arguments.keys() <= {"n"} or each.tool_name == "g"
            assert isinstance(each.arguments.get("n", 0), int) or each.tool_name == "g"
        assert sum(each.tool_name == "h" for each in ran) <= 2
        assert outcome.messages[0] == UserMessage.of("go")
        outcomes.append((outcome.stop, outcome.messages, outcome.iterations))
    assert outcomes[0] == outcomes[1], "both drivers do the same"


def test_two_calls_of_a_reply_run_at_once_on_trio_and_begin_in_order() -> None:
    begun: list[str] = []

    async def run() -> float:
        def run_tool(each: ToolCallPart) -> Any:
            begun.append(each.call_id)

            async def running() -> ToolResultPart:
                await trio.sleep(5)
                return execute(each)

            return running()

        script = [said(*(call("f", {}, f"c{n}") for n in range(5))), said("done")]

        async def complete(request: ModelRequest) -> ModelResponse:
            return script.pop(0)

        start = trio.current_time()
        request = ModelRequest(model="m", messages=(UserMessage.of("go"),))
        await drive(
            converse(request, LoopSettings(max_iterations=3, tools=TOOLS)), complete=complete, run_tool=run_tool
        )
        return trio.current_time() - start

    clock = trio.testing.MockClock(autojump_threshold=0)
    assert trio.run(run, clock=clock) == 5
    assert begun == [f"c{n}" for n in range(5)]


def test_an_error_of_the_world_ends_the_loop_as_itself() -> None:
    world = World(f=lambda: 1)
    with pytest.raises(IndexError, match="pop from empty list"):
        world.converse()
