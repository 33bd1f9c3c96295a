"""What conversations in Python have beyond agentloop, with real providers against servers on this machine."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import treadle
from treadle_loop import (
    Agent,
    AgentLoopError,
    ConfigurationError,
    Deps,
    FallbackClient,
    ProviderError,
    Registry,
    RetryingClient,
    Settings,
    TextDelta,
    ToolSpec,
    Transcript,
    TrimmingClient,
    build_client,
    run_conversation_result,
    run_conversation_typed,
    stream_conversation,
)

from wire import anthropic_server, openai_server
from wire.anthropic_server import AnthropicServer
from wire.http_server import Bytes, Json
from wire.in_thread import serving
from wire.openai_server import OpenAIServer, Stream, completion, text_chunks

LOOK = ToolSpec("look", "looks", {"type": "object", "properties": {}}, lambda deps: "Ada is 36")


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture
def openai() -> Iterator[OpenAIServer]:
    with serving(OpenAIServer) as server:
        yield server


@pytest.fixture
def anthropic() -> Iterator[AnthropicServer]:
    with serving(AnthropicServer) as server:
        yield server


def client_of(server: Any, api: str = "completions", **more: Any) -> RetryingClient:
    if isinstance(server, AnthropicServer):
        given = {"LLM_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
    else:
        given = {"LLM_PROVIDER": "openai", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.api, "OPENAI_API": api}
    client = build_client(Settings.from_env(given), **more)
    return RetryingClient(client.client, client.policy, sleep=lambda seconds: None)


def asked(text: str = "hi") -> Transcript:
    transcript = Transcript()
    transcript.add_user_message(text)
    return transcript


# --- streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["completions", "responses"])
def test_text_arrives_as_openai_writes_it_around_a_tool(openai: OpenAIServer, api: str) -> None:
    if api == "completions":
        called = [
            openai_server.chunk(tool_calls=[{"index": 0, **openai_server.call("look")}]),
            openai_server.chunk(finish_reason="tool_calls"),
        ]
        openai.reply(Stream(called), Stream(text_chunks("Ada ", "is ", "36")))
    else:
        call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": "{}"}
        openai.reply(
            openai_server.response_stream(openai_server.response(call)),
            openai_server.response_stream(openai_server.response(openai_server.message("Ada is 36"))),
        )
    with client_of(openai, api) as client:
        with Agent([LOOK], client=client).stream("who?") as stream:
            events = list(stream)
        assert "".join(each.text for each in events if isinstance(each, TextDelta)) == stream.result.text == "Ada is 36"
        assert [each["stream"] for each in openai.bodies()] == [True, True]
        assert [type(each).__name__ for each in events][:5] == [
            "ModelRequested",
            "ModelResponded",
            "ToolStarted",
            "ToolFinished",
            "ModelRequested",
        ]
        if api == "completions":
            assert sum(isinstance(each, TextDelta) for each in events) == 3


def test_text_arrives_as_claude_writes_it(anthropic: AnthropicServer) -> None:
    with client_of(anthropic) as client, stream_conversation(asked(), client, Registry([]), Deps()) as stream:
        assert "".join(stream.text) == "hello"
    assert anthropic.last.json["stream"] is True


def test_leaving_a_stream_early_ends_the_request(openai: OpenAIServer) -> None:
    openai.reply(Stream(text_chunks("one", "two")[:2], done=False, then="hang"))
    with client_of(openai) as client:
        with Agent([], client=client).stream("hi") as stream:
            assert next(stream.text) == "one"
        assert Agent([], client=client).run("hi") == "hello", "and the client goes on"
    assert openai.disconnects == 1
    assert not [each for each in threading.enumerate() if each.name.startswith("treadle-")]


def test_a_hundred_streams_leave_nothing_behind(openai: OpenAIServer) -> None:
    with client_of(openai) as client:
        agent = Agent([], client=client)
        for n in range(100):
            with agent.stream("hi") as stream:
                if n % 2:
                    next(iter(stream))
                else:
                    assert "".join(stream.text) == "hello"
        assert client.client._portal._nursery.child_tasks == frozenset()
    assert not [each for each in threading.enumerate() if each.name.startswith("treadle-")]


# --- shapes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["completions", "responses"])
def test_openai_is_told_the_schema_where_there_are_no_tools(openai: OpenAIServer, api: str) -> None:
    said = '{"name": "Ada", "age": 36}'
    openai.reply(
        Json(completion(said) if api == "completions" else openai_server.response(openai_server.message(said)))
    )
    with client_of(openai, api) as client:
        assert Agent([], client=client).run("who?", output_type=Person) == Person(name="Ada", age=36)
    body = openai.last.json
    schema = body["response_format"]["json_schema"] if api == "completions" else body["text"]["format"]
    assert (schema["name"], schema["schema"]["required"]) == ("Person", ["name", "age"])


def test_claude_is_told_it_too_and_reasked(anthropic: AnthropicServer) -> None:
    replies = ['{"name": "Ada"}', '{"name": "Ada", "age": 36}']
    anthropic.reply(*(Json(anthropic_server.message(anthropic_server.text(each))) for each in replies))
    with client_of(anthropic) as client:
        result = run_conversation_typed(asked(), client, Registry([]), Deps(), Person)
    assert result.output == Person(name="Ada", age=36)
    assert "age: Field required" in json.dumps(anthropic.last.json["messages"][-1])


def test_with_tools_the_answer_is_a_call_on_both(openai: OpenAIServer, anthropic: AnthropicServer) -> None:
    openai.reply(
        Json(completion(None, tool_calls=[openai_server.call("look")])),
        Json(completion(None, tool_calls=[openai_server.call("final_result", '{"name": "Ada", "age": 36}')])),
    )
    answer = {"name": "Ada", "age": 36}
    anthropic.reply(
        Json(anthropic_server.message(anthropic_server.tool_use("look"), stop_reason="tool_use")),
        Json(anthropic_server.message(anthropic_server.tool_use("final_result", answer), stop_reason="tool_use")),
        Json(anthropic_server.message(anthropic_server.text("bye"))),
    )
    for server in (openai, anthropic):
        with client_of(server) as client:
            agent, transcript = Agent([LOOK], client=client), asked("who?")
            assert agent.converse_result(transcript, output_type=Person).output == Person(name="Ada", age=36)
            choice = server.bodies()[0]["tool_choice"]
            assert choice == "required" or choice["type"] == "any"
            transcript.add_user_message("bye")
            assert agent.converse_result(transcript).text in ("hello", "bye")
        assert "final_result" not in json.dumps(server.last.json), "nothing is left of it"


# --- prices --------------------------------------------------------------------------------------------


def test_replies_have_their_price_and_the_conversation_their_sum(openai: OpenAIServer) -> None:
    told = {**completion()["usage"], "prompt_tokens_details": {"cached_tokens": 0}}
    openai.reply(
        Json(completion(None, tool_calls=[openai_server.call("look")], usage=told)),
        Json(completion("done", usage=told)),
    )
    with client_of(openai) as client:
        summary = Agent([LOOK], client=client).run_result("hi").summary
    # gpt-4o-mini: 0.15 and 0.60 dollars for a million tokens, in genai-prices; 9 and 3 tokens a reply.
    assert summary.usage.cost_usd == pytest.approx(2 * (9 * 0.15 + 3 * 0.6) / 1e6)


def test_prices_of_ones_own(openai: OpenAIServer) -> None:
    class Dear:
        def price(self, *, provider: str, model: str, usage: Any, kind: str = "", base_url: str | None = None) -> float:
            assert (provider, model, kind, base_url) == ("openai", openai_server.MODEL, "openai", openai.api)
            return float(usage.input_tokens)

    for prices, cost in (
        (Dear(), 9.0),
        ([Dear()], 9.0),
        ({"gpt-4o-mini": {"input": 1e6, "output": 0}}, 9.0),
        ((), None),
    ):
        with client_of(openai, prices=prices) as client:
            assert Agent([], client=client).run_result("hi").summary.usage.cost_usd == cost


def test_what_nobody_knows_is_unknown_and_so_is_its_sum(openai: OpenAIServer) -> None:
    whole = completion("done")
    openai.reply(
        Json(completion(None, tool_calls=[openai_server.call("look")])), Json({**whole, "model": "nobodys-model"})
    )
    with client_of(openai) as client:
        result = Agent([LOOK], client=client).run_result("hi")
    assert result.summary.usage.cost_usd is None
    assert result.summary.usage.input_tokens == 18


def test_prices_that_cannot_be_are_told_and_cost_no_reply(
    openai: OpenAIServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="prices= takes a mapping of prices, or price sources"):
        client_of(openai, prices="cheap")
    with caplog.at_level(logging.WARNING), client_of(openai, prices={"m": {"input": -1}}) as client:
        result = Agent([], client=client).run_result("hi")
    assert (result.text, result.summary.usage.cost_usd) == ("hello", None)
    assert "costs are not known: prices.m.input" in caplog.text
    monkeypatch.setattr(treadle, "default_host", lambda: treadle.Host.of({}))
    from treadle_loop.conversations.pricing import Prices

    with pytest.raises(ConfigurationError, match="nothing is installed that reads prices=; pip install treadle-prices"):
        Prices({"m": {"input": 1}})


# --- fallback ------------------------------------------------------------------------------------------


def test_another_vendor_answers_and_gets_nothing_of_the_first_ones_own(
    openai: OpenAIServer, anthropic: AnthropicServer
) -> None:
    anthropic.reply(
        Json(
            anthropic_server.message(
                anthropic_server.thinking("hm"), anthropic_server.tool_use("look"), stop_reason="tool_use"
            )
        ),
        anthropic_server.failure("no", status=400),
    )
    with FallbackClient([client_of(anthropic), client_of(openai)]) as client:
        result = Agent([LOOK], client=client).run_result("who?")
        assert (result.text, result.summary.provider, result.summary.model) == ("hello", "openai", openai_server.MODEL)
        assert "signature" not in json.dumps(openai.last.json)
        origins = [each.origin for each in result.transcript.messages if each.role == "assistant"]
        assert origins[0] is not None
        assert (origins[0].provider, origins[0].api) == ("anthropic", "messages")
        result.transcript.add_user_message("and?")
        Agent([LOOK], client=client).converse(result.transcript)
    assert "signature" in json.dumps(anthropic.last.json), "the first one gets its own back"


def test_the_error_of_all_has_every_attempt_of_every_vendor(openai: OpenAIServer, anthropic: AnthropicServer) -> None:
    anthropic.reply(*[anthropic_server.failure("busy", status=529)] * 3)
    openai.reply(openai_server.failure("no", status=401))
    with FallbackClient([client_of(anthropic), client_of(openai)]) as client, pytest.raises(ProviderError) as caught:
        Agent([], client=client).run("hi")
    assert [(each.provider, each.error_type, each.phase, each.request_sent) for each in caught.value.attempt_log] == [
        *[("anthropic", "ProviderUnavailable", "status", True)] * 3,
        ("openai", "AuthError", "status", True),
    ]
    assert caught.value.summary is not None
    assert caught.value.summary.error_attempts_sent == 4


def test_a_stream_that_breaks_after_its_first_text_is_nobody_elses(
    openai: OpenAIServer, anthropic: AnthropicServer
) -> None:
    openai.reply(Stream(text_chunks("one", "two")[:2], done=False, then="cut"))
    with FallbackClient([client_of(openai), client_of(anthropic)]) as client:
        read: list[str] = []
        with Agent([], client=client).stream("hi") as stream, pytest.raises(AgentLoopError):
            read.extend(stream.text)
    assert read[0] == "one"
    assert (len(openai.requests), anthropic.requests) == (1, [])
    openai.reply(openai_server.failure("no", status=401))
    with (
        FallbackClient([client_of(openai), client_of(anthropic)]) as client,
        Agent([], client=client).stream("hi") as stream,
    ):
        assert "".join(stream.text) == "hello"
    assert len(anthropic.requests) == 1


# --- trimming ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_pairs", "summarize_oldest"])
def test_the_installed_policies_make_room_and_vendors_take_what_is_left(
    anthropic: AnthropicServer, openai: OpenAIServer, policy: str
) -> None:
    transcript = Transcript()
    for n in range(5):
        transcript.add_user_message(f"question {n} " + "word " * 40)
        transcript.add_assistant_message("answer " * 30)
    transcript.add_user_message("and now?")
    for server in (anthropic, openai):
        kept = Transcript.model_validate_json(transcript.model_dump_json())
        with client_of(server) as client:
            agent = Agent([], client=client, system="be brief", token_budget=200, trim_policy=policy)
            assert agent.converse_result(kept).text == "hello"
        sent = [each for each in server.last.json["messages"] if each["role"] != "system"]
        assert len(sent) < len(transcript.messages)
        assert (sent[0]["role"], sent[-1]["role"]) == ("user", "user")
        assert ("Summary of the conversation so far" in json.dumps(server.last.json)) == (policy == "summarize_oldest")
        assert len(kept.messages) == 12


def test_everything_together(openai: OpenAIServer, anthropic: AnthropicServer) -> None:
    anthropic.reply(anthropic_server.failure("no", status=401))
    both = FallbackClient([client_of(anthropic), client_of(openai)])
    openai.reply(
        Stream(
            [
                openai_server.chunk(
                    tool_calls=[{"index": 0, **openai_server.call("final_result", '{"name": "A", "age": 1}')}]
                ),
                openai_server.chunk(finish_reason="tool_calls"),
                openai_server.chunk(usage={**completion()["usage"], "prompt_tokens_details": {"cached_tokens": 0}}),
            ]
        )
    )
    with TrimmingClient(both, 100) as client, Agent([LOOK], client=client).stream("hi", output_type=Person) as stream:
        list(stream)
    assert stream.result.output == Person(name="A", age=1)
    assert stream.result.summary.usage.cost_usd is not None


def test_without_the_packages_that_are_optional_it_says_what_to_install(tmp_path: Path) -> None:
    program = tmp_path / "alone.py"
    program.write_text(
        "import treadle\n"
        "from treadle._plugins.catalogue import Catalogue\n"
        "host = treadle.Host(catalogue=Catalogue.discover())\n"
        "treadle.default_host = lambda: host\n"
        "from treadle_loop import Agent, FakeClient\n"
        "assert Agent([], client=FakeClient('x')).run('hi') == 'x'\n"
        "try:\n"
        "    Agent([], client=FakeClient('x'), token_budget=10)\n"
        "except ValueError as error:\n"
        "    print(error)\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pip install treadle-conversation" in done.stdout


def test_broken_wires_are_not_asked_again_after_text(openai: OpenAIServer) -> None:
    openai.reply(Bytes(b"<html>"), Json(completion("mended")))
    with client_of(openai) as client:
        assert run_conversation_result(asked(), client, Registry([]), Deps()).summary.provider_retries == 1
