"""Conversations in Python: the loop's behaviour under the names of agentloop (seed S004, B8)."""

from __future__ import annotations

import inspect
import threading
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from treadle_loop import (
    DEFAULT_DEADLINE_SECONDS,
    DEFAULT_MAX_ITERATIONS,
    DEFAULT_MAX_TOKENS,
    MAX_TOKENS_CEILING,
    ConversationStatus,
    Deps,
    FakeClient,
    ListObserver,
    LoopBudgetExceeded,
    Message,
    ModelRequest,
    ModelResponse,
    Origin,
    RateLimited,
    Registry,
    StopReason,
    SummaryOptions,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolSpec,
    Transcript,
    TranscriptError,
    final_text,
    run_conversation,
    run_conversation_async,
    run_conversation_result,
    run_conversation_result_async,
)

NO_ARGUMENTS = {"type": "object", "properties": {}}


def calling(*names: str, stop: StopReason = StopReason.TOOL_USE, text: str = "") -> ModelResponse:
    parts: list[Any] = [TextPart(text=text)] if text else []
    parts += [ToolCallPart(id=f"c{n}", tool_name=name, arguments={}) for n, name in enumerate(names)]
    return ModelResponse(content=tuple(parts), stop_reason=stop)


def cut(text: str = "") -> ModelResponse:
    return ModelResponse(content=(TextPart(text=text),) if text else (), stop_reason=StopReason.MAX_TOKENS)


def paused(text: str, raw: Any = None, *, provider: str = "p") -> ModelResponse:
    origin = Origin(provider=provider, api="a", raw=raw) if raw is not None else None
    return ModelResponse(content=(TextPart(text=text),), stop_reason=StopReason.PAUSED, origin=origin)


def asked(text: str = "hi") -> Transcript:
    transcript = Transcript()
    transcript.add_user_message(text)
    return transcript


def one_tool(handler: Any = lambda deps: "ok", name: str = "f", **more: Any) -> Registry:
    return Registry([ToolSpec(name, "does it", NO_ARGUMENTS, handler, **more)])


def converse(client: Any, registry: Registry | None = None, **settings: Any) -> Any:
    transcript = settings.pop("transcript", None) or asked()
    return run_conversation_result(transcript, client, registry or Registry([]), Deps(), **settings)


async def converse_async(client: Any, registry: Registry | None = None, **settings: Any) -> Any:
    transcript = settings.pop("transcript", None) or asked()
    return await run_conversation_result_async(transcript, client, registry or Registry([]), Deps(), **settings)


# --- names, defaults -----------------------------------------------------------------------------------


def test_the_constants_are_those_of_agentloop() -> None:
    assert (DEFAULT_MAX_TOKENS, MAX_TOKENS_CEILING, DEFAULT_MAX_ITERATIONS) == (16_000, 64_000, 50)
    assert DEFAULT_DEADLINE_SECONDS == 600.0


@pytest.mark.parametrize("function", [run_conversation, run_conversation_result])
def test_the_signature_and_the_defaults_are_those_of_agentloop(function: Any) -> None:
    parameters = inspect.signature(function).parameters.values()
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert positional == ["transcript", "client", "registry", "deps"]
    assert {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY} == {
        "system": None,
        "max_tokens": 16_000,
        "max_iterations": 50,
        "deadline_seconds": 600.0,
        "observer": None,
        "hosted_tools": (),
        "agent_name": None,
        "conversation_id": None,
        "correlation_id": None,
        "parent_id": None,
        "summary_options": None,
    }
    twin = {run_conversation: run_conversation_async, run_conversation_result: run_conversation_result_async}
    assert inspect.signature(twin[function]).parameters == inspect.signature(function).parameters


def test_the_module_loop_has_the_functions_and_constants_too() -> None:
    from treadle_loop import loop

    assert loop.run_conversation is run_conversation
    assert loop.MAX_TOKENS_CEILING == MAX_TOKENS_CEILING
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        loop.nothing  # noqa: B018


# --- the loop ------------------------------------------------------------------------------------------


def test_the_transcript_that_was_given_is_updated_and_returned() -> None:
    transcript = asked()
    assert run_conversation(transcript, FakeClient("7"), Registry([]), Deps()) is transcript
    assert [each.role for each in transcript.messages] == ["user", "assistant"]
    assert final_text(transcript) == "7"


def test_each_iteration_sends_a_request_with_system_tools_and_limits() -> None:
    client = FakeClient(calling("f"), "done")
    registry = one_tool()
    converse(client, registry, system="be brief", max_tokens=99)
    first, second = client.requests
    assert (first.system, first.max_tokens, first.tools) == ("be brief", 99, (registry.get("f"),))
    assert [each.role for each in second.messages] == ["user", "assistant", "user"]
    assert second.messages[2].tool_results[0].content == "ok"


def test_the_result_has_transcript_summary_and_text() -> None:
    transcript = asked()
    result = converse(FakeClient("well"), transcript=transcript, agent_name="a", conversation_id="1", parent_id="0")
    assert result.transcript is transcript
    assert result.text == "well"
    assert result.summary.status is ConversationStatus.COMPLETED
    assert (result.summary.agent_name, result.summary.conversation_id, result.summary.parent_id) == ("a", "1", "0")


@pytest.mark.parametrize("response", [cut(), calling("f", stop=StopReason.MAX_TOKENS, text="let me")])
def test_a_cut_that_is_of_no_use_is_dropped_and_asked_again_with_twice_the_tokens(response: ModelResponse) -> None:
    ran: list[int] = []
    client = FakeClient(response, response, "done")
    result = converse(client, one_tool(lambda deps: ran.append(1)), max_tokens=20_000)
    assert [each.max_tokens for each in client.requests] == [20_000, 40_000, 64_000]
    assert not ran
    assert len(result.transcript.messages) == 2
    assert result.summary.iterations == 3


def test_readable_thinking_alone_is_no_readable_content() -> None:
    thought = ModelResponse(content=(ThinkingPart(text="hm"),), stop_reason=StopReason.MAX_TOKENS)
    assert len(converse(FakeClient(thought, "done")).transcript.messages) == 2


@pytest.mark.parametrize("max_tokens", [64_000, 100_000])
def test_an_allowance_that_cannot_grow_ends_the_conversation_and_is_never_lowered(max_tokens: int) -> None:
    client = FakeClient(cut())
    with pytest.raises(LoopBudgetExceeded, match="raise max_tokens") as caught:
        converse(client, max_tokens=max_tokens)
    assert client.requests[0].max_tokens == max_tokens
    assert (caught.value.kind, caught.value.limit, caught.value.actual) == ("max_tokens", max_tokens, max_tokens)
    assert caught.value.summary is not None
    assert caught.value.summary.status is ConversationStatus.TOKEN_LIMIT


def test_a_plain_answer_that_was_cut_returns_as_truncated() -> None:
    result = converse(FakeClient(cut("the beginning")))
    assert (result.text, result.summary.status) == ("the beginning", ConversationStatus.TRUNCATED)
    assert result.summary.succeeded


def test_a_refusal_returns() -> None:
    refusal = ModelResponse(content=(TextPart(text="no"),), stop_reason=StopReason.REFUSAL)
    result = converse(FakeClient(refusal))
    assert (result.text, result.summary.status, result.summary.succeeded) == ("no", ConversationStatus.REFUSED, True)


def test_an_unknown_stop_reason_is_logged_and_ends_the_conversation(caplog: pytest.LogCaptureFixture) -> None:
    response = ModelResponse(content=(TextPart(text="hm"),), stop_reason="tired")  # type: ignore[arg-type]
    assert (response.stop_reason, response.raw_stop_reason) == (StopReason.UNKNOWN, "tired")
    assert converse(FakeClient(response)).text == "hm"
    assert "reason that is not known (tired)" in caplog.text


def test_a_paused_turn_is_continued_in_the_same_message_and_counts_as_an_iteration() -> None:
    client = FakeClient(paused("one", [{"a": 1}]), paused("two", [{"b": 2}]), "three")
    result = converse(client)
    assert [each.role for each in result.transcript.messages] == ["user", "assistant"]
    assert result.text == "one two three"
    assert result.summary.iterations == 3
    assert [each.role for each in client.requests[2].messages] == ["user", "assistant"]
    joined = client.requests[2].messages[1].origin
    assert joined is not None
    assert joined.raw == [{"a": 1}, {"b": 2}]
    assert result.transcript.messages[1].origin is None, "the last part had none, so the whole is not known"


def test_origins_of_two_providers_are_not_joined() -> None:
    client = FakeClient(paused("one", [1]), paused("two", [2], provider="q"), "three")
    converse(client)
    assert client.requests[2].messages[1].origin is None


def test_calls_left_open_run_before_the_first_model_call() -> None:
    transcript = asked()
    transcript.add_assistant_message([ToolCallPart(id="x", tool_name="f", arguments={})])
    observer = ListObserver()
    client = FakeClient("done")
    converse(client, one_tool(), transcript=transcript, observer=observer)
    assert observer.kinds() == ["tool_start", "tool_end", "request", "response"]
    assert [each.role for each in client.requests[0].messages] == ["user", "assistant", "user"]


def test_tools_that_are_no_registry_are_refused() -> None:
    with pytest.raises(TypeError, match="tools come as a Registry"):
        run_conversation(asked(), FakeClient("x"), [], Deps())  # type: ignore[arg-type]


def test_messages_out_of_order_are_an_error_before_any_call() -> None:
    transcript = asked()
    transcript.add_assistant_message([ToolCallPart(id="x", tool_name="f", arguments={})])
    transcript.add_user_message("never mind")
    client = FakeClient("done")
    with pytest.raises(TranscriptError, match="message 2 should answer the tool calls before it: x") as caught:
        converse(client, one_tool(), transcript=transcript)
    assert client.requests == []
    assert caught.value.summary is not None
    assert caught.value.summary.status is ConversationStatus.ERROR


def test_iterations_that_are_used_up_end_the_conversation_after_the_last_tools_ran() -> None:
    transcript = asked()
    with pytest.raises(LoopBudgetExceeded, match="asked 2 times") as caught:
        converse(FakeClient(calling("f"), calling("f")), one_tool(), max_iterations=2, transcript=transcript)
    assert (caught.value.kind, caught.value.limit, caught.value.actual) == ("iterations", 2, 2)
    assert caught.value.summary is not None
    assert caught.value.summary.status is ConversationStatus.ITERATION_LIMIT
    transcript.check_invariants()
    assert len(transcript.messages) == 5


class Slow(FakeClient):
    """Takes time on trio's clock."""

    async def complete(self, request: ModelRequest) -> ModelResponse:  # type: ignore[override]
        await trio.sleep(10)
        return super().complete(request)


def test_the_deadline_is_looked_at_before_each_call_and_interrupts_none(autojump_clock: Any) -> None:
    async def run() -> None:
        client = Slow(calling("f"), calling("f"), "done")
        with pytest.raises(LoopBudgetExceeded, match="deadline of 15 s") as caught:
            await converse_async(client, one_tool(), deadline_seconds=15)
        assert len(client.requests) == 2, "the second began before it was over, and ended after it"
        assert (caught.value.kind, caught.value.limit) == ("deadline", 15)
        assert caught.value.actual >= 20
        assert caught.value.summary is not None
        assert caught.value.summary.status is ConversationStatus.DEADLINE_EXCEEDED

    trio.run(run, clock=autojump_clock)


def test_exactly_at_the_deadline_a_call_is_made_and_without_one_always(autojump_clock: Any) -> None:
    async def run() -> None:
        assert (await converse_async(Slow(calling("f"), "done"), one_tool(), deadline_seconds=10)).text == "done"
        assert (await converse_async(Slow(calling("f"), "done"), one_tool(), deadline_seconds=None)).text == "done"

    trio.run(run, clock=autojump_clock)


@pytest.fixture
def autojump_clock() -> Any:
    import trio.testing

    return trio.testing.MockClock(autojump_threshold=0)


def test_provider_errors_are_raised_as_they_are_with_a_summary() -> None:
    error = RateLimited("slow down", provider="fake", status_code=429)
    transcript = asked()
    with pytest.raises(RateLimited) as caught:
        converse(FakeClient(calling("f"), error), one_tool(), transcript=transcript)
    assert caught.value is error
    assert error.summary is not None
    assert error.summary.status is ConversationStatus.PROVIDER_ERROR
    assert (error.summary.error_type, error.summary.provider_status_code) == ("RateLimited", 429)
    assert len(transcript.messages) == 3, "what was done stays"


def test_ctrl_c_in_a_call_is_a_cancelled_conversation() -> None:
    ended: list[Any] = []

    class Observer:
        def on_conversation_end(self, summary: Any) -> None:
            ended.append(summary.status)

    with pytest.raises(KeyboardInterrupt):
        converse(FakeClient(KeyboardInterrupt()), observer=Observer())
    assert ended == [ConversationStatus.CANCELLED]


def test_a_call_id_that_a_model_repeats_is_made_unique() -> None:
    client = FakeClient(calling("f"), calling("f"), "done")
    converse(client, one_tool())
    ids = [call.id for message in client.requests[2].messages for call in message.tool_calls]
    assert ids == ["c0", "c0_2"]


# --- clients and tools that are async ------------------------------------------------------------------


class OwnClient:
    """The least that a client is."""

    name = "own"
    model = "m1"

    def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(content=(TextPart(text=f"{len(request.messages)}"),), stop_reason=StopReason.END_TURN)


class OwnAsyncClient(OwnClient):
    async def complete(self, request: ModelRequest) -> ModelResponse:  # type: ignore[override]
        await trio.lowlevel.checkpoint()
        return super().complete(request)


class OwnAsyncioClient(OwnClient):
    loop = "asyncio"

    async def complete(self, request: ModelRequest) -> ModelResponse:  # type: ignore[override]
        import asyncio

        await asyncio.sleep(0)
        return super().complete(request)


@pytest.mark.parametrize("kind", [OwnClient, OwnAsyncClient, OwnAsyncioClient])
def test_a_client_of_ones_own_has_a_name_a_model_and_complete_sync_or_async(kind: type[OwnClient]) -> None:
    result = converse(kind())
    assert result.text == "1"
    assert (result.summary.provider, result.summary.model) == ("own", "m1")


def test_a_client_may_answer_with_the_kernels_response_or_a_text() -> None:
    import treadle

    class Kernel(OwnClient):
        def complete(self, request: ModelRequest) -> Any:
            message = treadle.AssistantMessage.of("from the kernel")
            return treadle.ModelResponse(
                message=message, stop_reason=treadle.StopReason.END_TURN, model="m", provider="p"
            )

    class Text(OwnClient):
        def complete(self, request: ModelRequest) -> Any:
            return "a text"

    class Nothing(OwnClient):
        def complete(self, request: ModelRequest) -> Any:
            return 3

    assert converse(Kernel()).text == "from the kernel"
    assert converse(Text()).text == "a text"
    with pytest.raises(TypeError, match="gives a ModelResponse, not int"):
        converse(Nothing())


async def answer(deps: Any) -> str:
    await trio.lowlevel.checkpoint()
    return "async"


def test_an_async_tool_runs_in_a_synchronous_conversation() -> None:
    client = FakeClient(calling("f", "f"), "done")
    converse(client, one_tool(answer))
    assert [each.content for each in client.requests[1].messages[2].tool_results] == ["async", "async"]


def test_the_async_functions_run_on_trio_and_on_asyncio() -> None:
    import asyncio

    async def on_asyncio(deps: Any) -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    async def run(registry: Registry) -> str:
        client = FakeClient(calling("f"), "done")
        transcript = await run_conversation_async(asked(), client, registry, Deps())
        assert final_text(transcript) == "done"
        return client.requests[1].messages[2].tool_results[0].content

    assert trio.run(run, one_tool(answer)) == "async"
    assert asyncio.run(run(one_tool(on_asyncio))) == threading.current_thread().name
    assert asyncio.run(run(one_tool())) == "ok"
    assert OwnAsyncioClient.loop == "asyncio"
    assert asyncio.run(converse_async(OwnAsyncioClient())).text == "1"


def test_a_synchronous_conversation_with_an_async_tool_works_under_a_running_asyncio_loop() -> None:
    import asyncio

    async def notebook() -> str:
        text: str = converse(FakeClient(calling("f"), "done"), one_tool(answer)).text
        return text

    assert asyncio.run(notebook()) == "done"


def test_a_cancelled_conversation_ends_with_that_status_and_its_client() -> None:
    ended: list[Any] = []

    class Observer:
        def on_conversation_end(self, summary: Any) -> None:
            ended.append(summary.status)

    async def run() -> None:
        with trio.move_on_after(5):
            await converse_async(Slow("done"), observer=Observer())

    import trio.testing

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert ended == [ConversationStatus.CANCELLED]


@pytest.mark.parametrize("limits", [{"max_iterations": 0}, {"max_tokens": 0}])
def test_a_limit_below_one_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="max_iterations and max_tokens are at least 1"):
        converse(FakeClient("x"), **limits)


def test_what_is_no_transcript_client_or_text_is_told_so() -> None:
    with pytest.raises(TypeError, match="goes on with a Transcript, not with str"):
        run_conversation("hi", FakeClient(), Registry([]), Deps())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a client has name, model and complete\(request\); str has no name"):
        run_conversation(asked(), "gpt", Registry([]), Deps())
    with pytest.raises(TypeError, match="a text or a list of parts, not int"):
        asked(3)  # type: ignore[arg-type]


def test_a_response_that_broke_off_with_an_error_is_a_providers_error() -> None:
    from treadle_loop import ProviderError

    broken = ModelResponse(content=(TextPart(text="I"),), stop_reason=StopReason.ERROR)
    with pytest.raises(ProviderError, match="broke its reply off with an error"):
        converse(FakeClient(broken))


# --- budgets, stalling, timeline -----------------------------------------------------------------------


class Everything:
    """Keeps every hook that is called."""

    def __init__(self) -> None:
        self.events: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *facts: self.events.append((name, facts))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [facts for each, facts in self.events if each == name]


def test_the_order_of_an_iteration_is_warnings_request_call_response() -> None:
    observer = Everything()
    options = SummaryOptions(warn_at=(0.5,))
    converse(FakeClient(calling("f"), "done"), one_tool(), observer=observer, max_iterations=2, summary_options=options)
    assert [name for name, _ in observer.events] == [
        "on_conversation_start",
        "on_request",
        "on_response",
        "on_tool_start",
        "on_tool_end",
        "on_budget_warning",
        "on_request",
        "on_response",
        "on_conversation_end",
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"stall_threshold": 1}, {"warn_at": (0.5, 0.2)}, {"warn_at": (0.5, 0.5)}, {"warn_at": (0,)}, {"warn_at": (1.1,)}],
)
def test_summary_options_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SummaryOptions(**wrong)


def test_each_fraction_of_a_budget_is_warned_of_once() -> None:
    observer = Everything()
    responses = [calling("f") for _ in range(9)]
    converse(
        FakeClient(*responses, "done"),
        one_tool(),
        observer=observer,
        max_iterations=10,
        summary_options=SummaryOptions(warn_at=(0.2, 0.8)),
    )
    assert observer.of("on_budget_warning") == [("iterations", 2.0, 10), ("iterations", 8.0, 10)]


def test_the_deadline_is_warned_of_too(autojump_clock: Any) -> None:
    observer = Everything()

    async def run() -> None:
        await converse_async(
            Slow(calling("f"), "done"),
            one_tool(),
            observer=observer,
            deadline_seconds=20,
            summary_options=SummaryOptions(warn_at=(0.5,)),
        )

    trio.run(run, clock=autojump_clock)
    assert [(kind, limit) for kind, _, limit in observer.of("on_budget_warning")] == [("deadline", 20)]


def test_like_calls_are_told_once_at_the_threshold_and_the_run_goes_on() -> None:
    observer = Everything()

    def response(n: int) -> ModelResponse:
        arguments = {"a": 1, "b": 2} if n % 2 else {"b": 2, "a": 1}
        return ModelResponse(content=(ToolCallPart(id=f"i{n}", tool_name="f", arguments=arguments),))

    result = converse(
        FakeClient(*map(response, range(4)), "done"),
        one_tool(lambda deps, a, b: "x"),
        observer=observer,
        summary_options=SummaryOptions(stall_threshold=3),
    )
    assert [(call.tool_name, count) for call, count in observer.of("on_stall")] == [("f", 3)]
    assert (result.summary.stalled, result.summary.max_repeated_tool_calls) == (True, 4)
    assert result.text == "done"


def test_calls_with_unreadable_arguments_are_compared_by_their_text() -> None:
    def response(n: int, raw: str) -> ModelResponse:
        part = ToolCallPart(id=f"i{n}", tool_name="f", raw_arguments=raw, parse_error="no JSON")
        return ModelResponse(content=(part,))

    client = FakeClient(response(1, "["), response(2, "["), response(3, "{"), "done")
    assert converse(client, one_tool()).summary.max_repeated_tool_calls == 2


def test_the_timeline_has_a_record_for_each_turn_the_dropped_ones_too() -> None:
    client = FakeClient(cut(), calling("f", "nope"), "done")
    summary = converse(client, one_tool(), summary_options=SummaryOptions(timeline=True)).summary
    assert [(turn.index, turn.discarded, turn.stop_reason) for turn in summary.timeline] == [
        (1, True, "max_tokens"),
        (2, False, "tool_use"),
        (3, False, "end_turn"),
    ]
    assert summary.timeline[1].tools == ("f", "<unregistered>")
    assert summary.timeline[1].tool_errors == 1
    assert converse(FakeClient("x")).summary.timeline == ()


def test_a_call_that_failed_ends_the_timeline_with_its_error() -> None:
    error = RateLimited("no", provider="p", status_code=429, phase="status", request_sent=True, request_id="r1")
    with pytest.raises(RateLimited):
        converse(FakeClient(error), summary_options=SummaryOptions(timeline=True))
    summary = error.summary
    assert summary is not None
    assert [turn.error_type for turn in summary.timeline] == ["RateLimited"]
    assert (summary.error_phase, summary.error_request_sent, summary.error_request_id) == ("status", True, "r1")
    assert summary.error_attempts_sent == 1
    assert [(each.error_type, each.phase, each.request_sent, each.count) for each in summary.failed_attempts] == [
        ("RateLimited", "status", True, 1)
    ]


def test_nothing_of_what_was_said_is_in_the_summary() -> None:
    secret = "swordfish"
    client = FakeClient(
        ModelResponse(content=(ToolCallPart(id=secret, tool_name=secret, arguments={secret: secret}),)), secret
    )
    result = converse(client, one_tool(), transcript=asked(secret), summary_options=SummaryOptions(timeline=True))
    assert secret not in result.summary.model_dump_json()


def test_a_thousand_synchronous_conversations_leave_nothing_behind() -> None:
    before = set(threading.enumerate())
    for _ in range(1000):
        converse(FakeClient(calling("f", "f", "f"), "done"), one_tool(timeout_seconds=60))
    assert set(threading.enumerate()) <= before


def test_messages_and_parts_survive_what_the_loop_does_to_them() -> None:
    thinking = ThinkingPart(text="hm", signature="s", provider="own", model="m", raw={"x": [1]})
    origin = Origin(provider="own", api="chat", model="m", raw=[{"type": "text"}])
    response = ModelResponse(content=(thinking, TextPart(text="hi")), origin=origin)
    result = converse(FakeClient(response))
    assert result.transcript.messages[1] == Message(role="assistant", content=response.content, origin=origin)


calls = st.builds(
    lambda name, call_id, bad: ToolCallPart(
        id=call_id, tool_name=name, raw_arguments="[" if bad else None, parse_error="no JSON" if bad else None
    ),
    st.sampled_from(["f", "nope"]),
    st.sampled_from(["a", "b", "c"]),
    st.booleans(),
)
responses = st.builds(
    lambda text, asks, stop: ModelResponse(content=(TextPart(text=text), *asks), stop_reason=stop),
    st.sampled_from(["", "well"]),
    st.lists(calls, max_size=3),
    st.sampled_from([StopReason.END_TURN, StopReason.MAX_TOKENS, StopReason.PAUSED, StopReason.REFUSAL]),
)


@settings(deadline=None, max_examples=50)
@given(
    script=st.lists(responses, min_size=1, max_size=5), cap=st.integers(1, 5), max_tokens=st.sampled_from([9, 64_000])
)
def test_whatever_a_model_replies_both_ways_to_run_give_the_same_and_a_transcript_that_can_be_sent(
    script: list[ModelResponse], cap: int, max_tokens: int
) -> None:
    ends: list[Any] = []
    for run in (
        run_conversation_result,
        lambda *given, **more: trio.run(partial(run_conversation_result_async, *given, **more)),
    ):
        client, transcript = FakeClient(*script, *["end"] * cap), asked()
        try:
            end: Any = run(
                transcript, client, one_tool(), Deps(), max_iterations=cap, max_tokens=max_tokens
            ).summary.status
        except LoopBudgetExceeded as error:
            end = error.kind
        transcript.check_invariants()
        assert len(client.requests) <= cap
        for request in client.requests:
            Transcript(messages=list(request.messages)).check_invariants()
        ends.append((end, transcript.messages, len(client.requests)))
    assert ends[0] == ends[1]
