"""Conversations that are read while they run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from treadle_loop import (
    Agent,
    BudgetWarning,
    CallRepeated,
    ConversationFinished,
    Deps,
    FakeClient,
    ListObserver,
    ModelRequest,
    ModelRequested,
    ModelResponded,
    ModelResponse,
    ModelRetried,
    RateLimited,
    Registry,
    ReplyDiscarded,
    RetryingClient,
    RetryPolicy,
    StopReason,
    SummaryOptions,
    TextDelta,
    TextPart,
    ToolCallPart,
    ToolFinished,
    ToolSpec,
    ToolStarted,
    Transcript,
    stream_conversation,
    stream_conversation_async,
)
from treadle_loop.conversations.listening import ON_TEXT

CALL = ModelResponse(content=(ToolCallPart(id="1", tool_name="f", arguments={}),))
TOOL = ToolSpec("f", "does it", {"type": "object", "properties": {}}, lambda deps: "ok")


class Typing(FakeClient):
    """Writes its text in pieces, as a client over a provider does. A failure comes after the first piece."""

    def complete(self, request: ModelRequest) -> ModelResponse:
        tell = ON_TEXT.get()
        response = self._left[0]
        if tell is not None and isinstance(response, str):
            for piece in response.split(" "):
                tell(piece)
        elif tell is not None and isinstance(response, Exception):
            tell("begun")
        return super().complete(request)


def asked() -> Transcript:
    transcript = Transcript()
    transcript.add_user_message("hi")
    return transcript


def kinds(*events: Any) -> list[str]:
    return [type(each).__name__ for each in events]


def test_events_come_in_the_order_in_which_things_happen_and_the_result_after_the_last() -> None:
    stream = stream_conversation(asked(), Typing(CALL, "one two"), Registry([TOOL]), Deps())
    with pytest.raises(RuntimeError, match="before the stream has been read to its end"):
        stream.result  # noqa: B018
    with stream:
        events = list(stream)
    assert kinds(*events) == [
        "ModelRequested",
        "ModelResponded",
        "ToolStarted",
        "ToolFinished",
        "ModelRequested",
        "TextDelta",
        "TextDelta",
        "ModelResponded",
        "ConversationFinished",
    ]
    match events:
        case [
            ModelRequested(),
            ModelResponded(),
            ToolStarted(call),
            ToolFinished(_, result),
            ModelRequested(request),
            TextDelta("one"),
            TextDelta("two"),
            ModelResponded(response),
            ConversationFinished(finished),
        ]:
            assert (call.tool_name, result.content, len(request.messages)) == ("f", "ok", 3)
            assert response.text == "one two"
            assert finished is stream.result
    assert stream.result.text == "one two"
    assert list(stream) == []


def test_the_text_alone() -> None:
    with Agent([TOOL], client=Typing(CALL, "one two")).stream("hi") as stream:
        assert list(stream.text) == ["one", "two"]
    assert stream.result.summary.iterations == 2


def test_text_of_a_client_that_cannot_stream_comes_in_one_piece() -> None:
    stream = Agent([], client=FakeClient("one two")).stream("hi")
    assert list(stream.text) == ["one two"], "and no `with` is needed to read to the end"


def test_a_transcript_is_gone_on_with_in_place_and_an_answer_may_have_a_shape() -> None:
    transcript = asked()
    final = ModelResponse(content=(ToolCallPart(id="9", tool_name="final_result", arguments={"value": 3}),))
    with Agent([], client=FakeClient(final)).stream(transcript, output_type=int, conversation_id="c") as stream:
        list(stream)
    assert (stream.result.output, stream.result.summary.conversation_id) == (3, "c")
    assert stream.result.transcript is transcript


def test_warnings_stalls_retries_and_dropped_replies_are_told() -> None:
    cut = ModelResponse(content=(), stop_reason=StopReason.MAX_TOKENS)
    busy = RateLimited("busy", provider="p")
    client = RetryingClient(FakeClient(busy, CALL, CALL, cut, "done"), sleep=lambda seconds: None)
    options = SummaryOptions(stall_threshold=2, warn_at=(0.2,))
    stream = stream_conversation(asked(), client, Registry([TOOL]), Deps(), max_iterations=5, summary_options=options)
    events = [each for each in stream if isinstance(each, BudgetWarning | CallRepeated | ModelRetried | ReplyDiscarded)]
    assert kinds(*events) == ["ModelRetried", "BudgetWarning", "CallRepeated", "ReplyDiscarded"]
    retried = events[0]
    assert isinstance(retried, ModelRetried)
    assert (retried.attempt, retried.error) == (1, busy)


def test_what_ends_the_conversation_is_raised_where_the_stream_is_read() -> None:
    error = RateLimited("busy", provider="p")
    read: list[str] = []
    with Agent([TOOL], client=FakeClient(CALL, error)).stream("hi") as stream, pytest.raises(RateLimited) as caught:
        read.extend(type(each).__name__ for each in stream)
    assert caught.value is error
    assert read == ["ModelRequested", "ModelResponded", "ToolStarted", "ToolFinished", "ModelRequested"]
    assert error.summary is not None
    with pytest.raises(RuntimeError, match="no result"):
        stream.result  # noqa: B018
    assert list(stream) == []


def test_a_reply_whose_text_has_begun_is_not_asked_for_again() -> None:
    client = RetryingClient(
        Typing(RateLimited("busy", provider="p"), "done"), RetryPolicy(), sleep=lambda seconds: None
    )
    stream = Agent([], client=client).stream("hi")
    with pytest.raises(RateLimited) as caught:
        list(stream)
    assert caught.value.attempts == 1


def test_the_programs_own_observer_sees_it_too() -> None:
    observer = ListObserver()
    with Agent([], client=Typing("a b"), observer=observer).stream("hi") as stream:
        assert list(stream.text) == ["a", "b"]
    assert observer.kinds() == ["request", "response"]


class Endless:
    """Never answers, and says how it ended."""

    name, model = "endless", "m"

    def __init__(self, loop: str | None = None) -> None:
        self.loop = loop
        self.ended: list[str] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            if self.loop == "asyncio":
                await asyncio.sleep(1000)
            await trio.sleep_forever()
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise
        raise AssertionError


@pytest.mark.parametrize(("loop", "how"), [(None, "Cancelled"), ("asyncio", "CancelledError")])
def test_leaving_early_cancels_the_call_and_leaves_no_thread(loop: str | None, how: str) -> None:
    client = Endless(loop)
    with Agent([], client=client).stream("hi") as stream:
        assert isinstance(next(stream), ModelRequested)
    assert client.ended == [how]
    assert list(stream) == []
    stream.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("treadle-stream")]


def test_closing_a_stream_ends_it_for_who_reads_in_another_thread() -> None:
    stream = Agent([], client=Endless()).stream("hi")
    assert isinstance(next(stream), ModelRequested)
    read: list[Any] = []
    reader = threading.Thread(target=lambda: read.extend(stream))
    reader.start()
    stream.close()
    reader.join(20)
    assert not reader.is_alive()
    assert read == []


def test_a_client_on_asyncio_streams_from_a_synchronous_program() -> None:
    class Own:
        name, model, loop = "own", "m", "asyncio"

        async def complete(self, request: ModelRequest) -> ModelResponse:
            await asyncio.sleep(0)
            return ModelResponse(content=(TextPart(text="done"),))

    with Agent([], client=Own()).stream("hi") as stream:
        assert list(stream.text) == ["done"]


async def reading(make: Callable[[], Any]) -> list[str]:
    async with make() as stream:
        found = kinds(*[each async for each in stream])
    assert stream.result.text == "one two"
    async with make() as stream:
        assert [each async for each in stream.text] == ["one", "two"]
    return found


async def test_leaving_ends_it_for_who_reads_in_another_task() -> None:
    async def read(stream: Any) -> None:
        assert kinds(*[each async for each in stream]) == ["ModelRequested"]

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery, Agent([], client=Endless()).stream_async("hi") as stream:
            nursery.start_soon(read, stream)
            await trio.testing.wait_all_tasks_blocked(0.05)


def streamed() -> Any:
    return stream_conversation_async(asked(), Typing(CALL, "one two"), Registry([TOOL]), Deps())


def of_an_agent() -> Any:
    return Agent([TOOL], client=Typing(CALL, "one two")).stream_async("hi")


@pytest.mark.parametrize("make", [streamed, of_an_agent])
@pytest.mark.parametrize(
    "run", [trio.run, lambda function, *given: asyncio.run(function(*given))], ids=["trio", "asyncio"]
)
def test_the_same_with_async_on_trio_and_on_asyncio(run: Any, make: Any) -> None:
    assert run(reading, make) == [
        "ModelRequested",
        "ModelResponded",
        "ToolStarted",
        "ToolFinished",
        "ModelRequested",
        "TextDelta",
        "TextDelta",
        "ModelResponded",
        "ConversationFinished",
    ]


@pytest.mark.parametrize(
    "run", [trio.run, lambda function, *given: asyncio.run(function(*given))], ids=["trio", "asyncio"]
)
def test_async_errors_are_raised_where_it_is_read_and_leaving_early_cancels(run: Any) -> None:
    async def failing() -> None:
        async with Agent([], client=FakeClient(RateLimited("busy", provider="p"))).stream_async("hi") as stream:
            with pytest.raises(RateLimited):
                [each async for each in stream]
        client = Endless(None if run is trio.run else "asyncio")
        async with Agent([], client=client).stream_async("hi") as stream:
            async for event in stream:
                assert isinstance(event, ModelRequested)
                break
            await (trio if run is trio.run else asyncio).sleep(0.01)  # type: ignore[attr-defined]  # both have it
        assert client.ended == ["Cancelled" if run is trio.run else "CancelledError"]
        with pytest.raises(RuntimeError, match="`async with`"):
            await anext(Agent([], client=FakeClient("x")).stream_async("hi"))

    run(failing)
