"""Sending what fits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import trio

import treadle
from treadle import Trimmed, UserMessage
from treadle_loop import (
    Agent,
    ConfigurationError,
    Deps,
    FakeClient,
    ModelRequest,
    ModelResponse,
    Registry,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    Transcript,
    TrimmingClient,
    Usage,
    run_conversation,
)

KNOWN = Usage(input_tokens=10, output_tokens=1, cost_usd=0.5)


class Count:
    """A token for each message."""

    def count(self, messages: Sequence[Any], *, model: str) -> int:
        return len(messages)


class DropFirst:
    """Drops the oldest until the rest fits; folds it with a model where that is wanted."""

    def __init__(self, *, folds: bool = False, breaks: str | None = None) -> None:
        self.folds, self.breaks = folds, breaks

    async def trim(self, groups: Any, *, budget: int, summary: Any, count: Any, complete: Any) -> Trimmed:
        await trio.lowlevel.checkpoint() if self.breaks is None and not self.folds else None
        lead = [each for each in groups if isinstance(each[0], treadle.SystemMessage)]
        rest = [each for each in groups if each not in lead]
        gone = []
        noted = 1 if self.folds or summary else 0
        while count([m for g in (*lead, *rest) for m in g]) + noted > budget and len(rest) > 1:
            gone.append(rest.pop(0))
        if self.breaks == "order":
            rest.reverse()
        elif self.breaks == "newest":
            rest.pop()
        elif self.breaks == "text":
            rest[0] = (replace(rest[0][0], parts=(treadle.TextPart(text="made up"),)),)
        if self.folds:
            said = "; ".join(m.text for g in gone for m in g if isinstance(m, UserMessage))
            asked = treadle.ModelRequest(
                model="", messages=(treadle.SystemMessage(text="sum up"), UserMessage.of(f"{summary}|{said}"))
            )
            summary = (await complete(asked)).text
        return Trimmed(groups=(*lead, *rest), summary=summary)


def trimming(client: Any, budget: int, **how: Any) -> TrimmingClient:
    return TrimmingClient(client, budget, trim_policy=DropFirst(**how), token_counter=Count())


def talk(turns: int) -> Transcript:
    transcript = Transcript()
    for n in range(turns):
        transcript.add_user_message(f"q{n}")
        transcript.add_assistant_message(f"a{n}")
    transcript.add_user_message("now")
    return transcript


def texts(request: ModelRequest) -> list[str]:
    return [each.text for each in request.messages]


def test_what_fits_is_sent_as_it_is() -> None:
    client = FakeClient("done")
    request = ModelRequest(messages=tuple(talk(1).messages), system="s")
    trimming(client, 4).complete(request)
    assert client.requests[0] is request


def test_where_there_are_no_messages_there_is_nothing_to_trim() -> None:
    request = ModelRequest(messages=(), system="a long one")
    assert TrimmingClient(FakeClient("done"), 1).complete(request).text == "done"


def test_what_is_too_much_is_not_sent_and_the_transcript_stays_whole() -> None:
    client, transcript = FakeClient("done"), talk(3)
    run_conversation(transcript, trimming(client, 4), Registry([]), Deps(), system="s")
    assert texts(client.requests[0]) == ["q2", "a2", "now"]
    assert client.requests[0].system == "s"
    assert len(transcript.messages) == 8


def test_a_call_and_its_results_are_not_parted() -> None:
    transcript = talk(0)
    transcript.add_assistant_message([ToolCallPart(id="1", tool_name="f", arguments={})])
    transcript.add_tool_results([ToolResultPart(call_id="1", tool_name="f", content="ok")])
    transcript.add_user_message("and?")
    client = FakeClient("done")
    run_conversation(transcript, trimming(client, 2), Registry([]), Deps())
    assert texts(client.requests[0]) == ["and?"]


def test_in_a_loop_of_tools_every_request_fits() -> None:
    call = ModelResponse(content=(ToolCallPart(id="1", tool_name="f", arguments={}),))
    client = FakeClient(call, "done")
    tool = ToolSpec("f", "d", {"type": "object", "properties": {}}, lambda deps: "ok")
    agent = Agent([tool], client=trimming(client, 3))
    assert agent.converse_result(talk(2)).text == "done"
    assert [len(each.messages) for each in client.requests] == [3, 3]


def test_a_summary_is_asked_of_the_client_stands_behind_the_system_prompt_and_is_charged() -> None:
    summed = ModelResponse(content=(TextPart(text="SUM"),), usage=KNOWN)
    client = FakeClient(summed, ModelResponse(content=(TextPart(text="done"),), usage=KNOWN))
    result = Agent([], client=trimming(client, 3, folds=True), system="s").converse_result(talk(2))
    folding, sent = client.requests
    assert (folding.system, texts(folding)) == ("sum up", ["None|q0; q1"])
    assert (sent.system, texts(sent)) == ("s\n\nSummary of the conversation so far: SUM", ["now"])
    assert (result.summary.usage.input_tokens, result.summary.usage.cost_usd) == (20, 1.0)


def test_a_summary_is_made_once_for_a_conversation_and_again_when_there_is_more_to_fold() -> None:
    client = FakeClient("SUM1", "one", "two", "SUM2", "three")
    agent = Agent([], client=trimming(client, 5, folds=True))
    for transcript in (talk(3), talk(3)):  # the same conversation, as when it is taken up again
        agent.converse(transcript)
    assert [each.system for each in client.requests] == ["sum up", *["Summary of the conversation so far: SUM1"] * 2]
    assert texts(client.requests[2]) == ["a1", "q2", "a2", "now"]
    transcript.add_user_message("more")
    agent.converse(transcript)
    folding, sent = client.requests[3:]
    assert texts(folding) == ["SUM1|q2"]
    assert (sent.system, texts(sent)) == (
        "Summary of the conversation so far: SUM2",
        ["a2", "now", "two", "more"],
    )
    alone = FakeClient("alone")
    Agent([], client=trimming(alone, 5, folds=True)).run("hi")
    assert alone.requests[0].system is None


def test_the_summarys_text_is_not_streamed() -> None:
    client = FakeClient("SUM", "done")
    with Agent([], client=trimming(client, 3, folds=True)).stream(talk(2)) as stream:
        assert list(stream.text) == ["done"]


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        ("order", "trim policy 'DropFirst' changed or moved messages; it may only leave some out"),
        ("text", "changed or moved"),
        ("newest", "left out the newest message, which is to be answered"),
    ],
)
def test_a_policy_that_does_what_none_may_is_an_error_before_the_call(breaks: str, message: str) -> None:
    client = FakeClient("done")
    with pytest.raises(ConfigurationError, match=message):
        Agent([], client=trimming(client, 3, breaks=breaks)).converse(talk(3))
    assert client.requests == []


def test_what_is_too_much_all_the_same_is_sent_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeClient("done")
    with caplog.at_level(logging.WARNING):
        Agent([], client=trimming(client, 1), system="s").converse(talk(1))
    assert "fake: about 2 tokens of 1 after 'DropFirst' made room; they are sent all the same" in caplog.text
    assert texts(client.requests[0]) == ["now"]


class Own:
    """An async client."""

    name, model = "own", "o1"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        return ModelResponse(content=(TextPart(text="SUM"),))


def test_async_clients_are_trimmed_too() -> None:
    for run in (trio.run, lambda function, *given: asyncio.run(function(*given))):
        own = Own()
        agent = Agent([], client=trimming(own, 3, folds=True))
        assert run(agent.run_async, "hi") == "SUM"
        run(agent.converse_async, talk(2))
        assert [len(each.messages) for each in own.requests] == [1, 1, 2]
    assert Agent([], client=trimming(Own(), 3, folds=True)).converse_result(talk(2)).text == "SUM"


def test_a_synchronous_conversation_is_trimmed_also_under_a_loop_that_stands_still() -> None:
    async def main() -> int:
        client = FakeClient("done")
        run_conversation(talk(2), trimming(client, 3), Registry([]), Deps())
        return len(client.requests[0].messages)

    assert trio.run(main) == asyncio.run(main()) == 3


def test_what_is_not_there_is_told_when_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(treadle, "default_host", lambda: treadle.Host.of({}))
    with pytest.raises(ConfigurationError, match="drop_oldest"):
        TrimmingClient(FakeClient("x"), 10)
    with pytest.raises(ConfigurationError, match=r"a trim_policy has the method trim\(\); int has none"):
        TrimmingClient(FakeClient("x"), 10, trim_policy=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="token_budget is a number of tokens, at least 1, not 0"):
        Agent([], client=FakeClient("x"), token_budget=0)
