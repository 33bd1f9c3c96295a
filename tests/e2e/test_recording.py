"""Runs recorded and replayed, from Python: what is recorded of each kind of call, and that a replay gives the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle
from treadle import (
    AssistantMessage,
    EmbedResponse,
    Host,
    ReasoningPart,
    StopReason,
    TextPart,
    ToolCallPart,
    UnavailableError,
    Usage,
)
from treadle._plugins.objects import offering
from treadle.testing import reply, scripted
from treadle_replay import FileRecorder, RecordingJournal, RecordingMismatchError
from treadle_replay.calls import Calls, ModelCall

RAN: list[str] = []


@treadle.tool
async def look(at: str) -> str:
    """Look at something."""
    RAN.append(at)
    return f"saw {at} ({len(RAN)})"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RAN.clear()


@pytest.fixture(scope="module")
def installed() -> Host:
    return Host.discover()


def put(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def on_disk() -> str:
    return Path("rec.json").read_text(encoding="utf-8")


def calls(*asked: tuple[str, dict[str, Any]], text: str = "") -> Any:
    parts = [ToolCallPart(call_id=f"c{n}", tool_name=name, arguments=given) for n, (name, given) in enumerate(asked)]
    message = AssistantMessage(parts=(*([TextPart(text=text)] if text else []), *parts))
    return reply("", message=message, stop_reason=StopReason.TOOL_USE, finish_reason="tool_calls")


async def record(installed: Host, flow: Any, *replies: Any, tools: bool = False, runs: int = 1, **how: Any) -> Any:
    """The result of the last run, and what the recording holds."""
    provider = how.pop("provider", None) or scripted(*replies)
    journal = RecordingJournal("rec.json", tools=tools)
    async with treadle.open(host=installed, providers={"it": provider}, tools=[look], journal=journal) as session:
        workflow = treadle.build_workflow({"name": "f", "config": {"provider": "it"}, **flow}, host=session.host)
        for _ in range(runs):
            result = await session.run(workflow, **how)
    return result, json.loads(on_disk())


async def replay(installed: Host, flow: Any, *, runs: int = 1, recorded: Any = None, **how: Any) -> Any:
    """The result of the last run, and what was recorded and not asked for."""
    strict = how.pop("strict", True)
    async with treadle.open(host=installed, tools=[look]) as session:
        host = session.host
    playback = FileRecorder().play(recorded or Path("rec.json"), host, strict=strict, **how.pop("play", {}))
    async with treadle.open(host=playback.host) as session:
        workflow = treadle.build_workflow({"name": "f", "config": {"provider": "it"}, **flow}, host=session.host)
        for _ in range(runs):
            result = await session.run(workflow, **how)
    return result, playback.unused()


def entries(recording: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in recording.items() if not key.startswith("_")}


ASK = {"id": "ask", "type": "llm_call", "prompt": "About {state.topic}", "output": "a"}
TOOLS = {"id": "ask", "type": "llm_call", "prompt": "Look", "tools": [{"name": "look"}], "output": "a"}


async def test_a_call_is_recorded_under_its_step_with_what_was_asked_and_answered(installed):
    flow = {"state": {"topic": "tides"}, "steps": [ASK]}
    answer = reply("Water.", cost_usd=0.5, usage=Usage(input_tokens=3, output_tokens=2))
    _, recording = await record(installed, flow, answer)
    assert (recording["_format"], recording["_version"]) == ("treadle", 3)
    entry = recording["ask"]
    assert entry.pop("latency_ms") >= 0
    assert len(entry.pop("request_hash")) == 64
    assert entry == {
        "content": "Water.",
        "cost_usd": 0.5,
        "finish_reason": "stop",
        "model": "scripted-1",
        "provider": "scripted",
        "request": {
            "extra": {},
            "max_tokens": None,
            "messages": [{"role": "user", "content": "About tides"}],
            "model": "scripted-1",
            "temperature": None,
        },
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "reasoning_tokens": None,
            "cache_read_tokens": None,
            "cache_write_tokens": None,
            "cache_write_1h_tokens": None,
        },
    }
    result, unused = await replay(installed, flow)
    assert result.final_state == {"topic": "tides", "a": "Water."}
    step = result.step_results["ask"]
    assert (step.provider, step.model, step.cost_usd, step.usage) == ("scripted", "scripted-1", 0.5, answer.usage)
    assert unused == []


async def test_a_tool_loop_is_a_list_of_calls_each_with_what_its_request_adds(installed):
    flow = {"steps": [TOOLS]}
    asked = [calls(("look", {"at": "sky"}), text="Let me see"), calls(("look", {"at": "sea"})), reply("Blue.")]
    result, recording = await record(installed, flow, *asked)
    first, second, third = recording["ask"]
    assert (first["content"], first["tool_calls"]) == (
        "Let me see",
        [{"id": "c0", "name": "look", "arguments": {"at": "sky"}}],
    )
    assert "content" not in second
    assert [line["role"] for line in third["request"]["more_messages"]] == ["assistant", "tool"]
    assert "extra" not in third["request"]
    assert RAN == ["sky", "sea"]
    RAN.clear()
    again, unused = await replay(installed, flow)
    assert again.final_state == result.final_state
    assert RAN == ["sky", "sea"], "tools run again unless they were recorded"
    assert unused == []


async def test_recorded_tools_do_not_run_again_and_tool_steps_do(installed):
    step = {"id": "own", "type": "tool", "tool_name": "look", "tool_args": {"at": "here"}, "output": "b"}
    flow = {"steps": [TOOLS, {**step, "depends_on": ["ask"]}]}
    asked = [calls(("look", {"at": "sky"}), ("look", {"at": "sky"})), reply("Blue.")]
    result, recording = await record(installed, flow, *asked, tools=True)
    assert [each["name"] for each in recording["_tools"]["ask"]] == ["look", "look"]
    assert sorted(each["result"] for each in recording["_tools"]["ask"]) == ["saw sky (1)", "saw sky (2)"]
    assert "own" not in recording["_tools"]
    assert RAN == ["sky", "sky", "here"]
    RAN[:] = ["one", "two"]
    again, unused = await replay(installed, flow)
    assert RAN == ["one", "two", "here"]
    assert again.final_state == result.final_state
    assert unused == []


async def test_a_recorded_tool_fails_as_it_failed(installed):
    @treadle.tool
    async def look(at: str) -> str:
        """Look at something."""
        raise OSError("it is dark")

    flow = {"steps": [TOOLS]}
    journal = RecordingJournal("rec.json", tools=True)
    provider = scripted(calls(("look", {"at": "sky"})), reply("Dark."))
    async with treadle.open(host=installed, providers={"it": provider}, tools=[look], journal=journal) as session:
        workflow = treadle.build_workflow({"name": "f", "config": {"provider": "it"}, **flow}, host=session.host)
        await session.run(workflow)
    (kept,) = json.loads(on_disk())["_tools"]["ask"]
    assert (kept["error"], kept["error_type"]) == ("it is dark", "OSError")
    result, _ = await replay(installed, flow)
    assert result.ok, result.step_results["ask"].error
    assert result.final_state == {"a": "Dark."}, "the model heard the same words, or its request would have changed"
    assert RAN == []


async def test_a_changed_result_of_a_tool_is_named_and_how_to_keep_it(installed):
    flow = {"steps": [TOOLS]}
    await record(installed, flow, calls(("look", {"at": "sky"})), reply("Blue."))
    result, _ = await replay(installed, flow)  # the tool counts its calls
    assert result.step_results["ask"].error == (
        "the reply for 'ask' was recorded for another request: message 3 (result of a tool): 'saw sky (1)' -> "
        "'saw sky (2)'; record it again with --record-tools, and tools are not run when it is replayed"
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stream_is_recorded_as_one_text_and_replayed_either_way(installed, stream):
    flow = {"state": {"topic": "x"}, "steps": [ASK], "config": {"provider": "it", "stream": True}}
    result, recording = await record(installed, flow, reply("a b  c"))
    assert recording["ask"]["content"] == "a b  c"
    flow["config"] = {"provider": "it", "stream": stream}
    again, _ = await replay(installed, flow)
    assert again.final_state == result.final_state


async def test_what_a_model_thought_stays_out_and_its_opaque_blocks_are_kept(installed):
    block = {"type": "thinking", "thinking": "the user is rude", "signature": "EqQBCkYIBRgC"}
    parts = (ReasoningPart(text="the user is rude", provider_data={"anthropic": [block]}), TextPart(text="Hi."))
    _, recording = await record(
        installed, {"state": {"topic": "x"}, "steps": [ASK]}, reply("", message=AssistantMessage(parts=parts))
    )
    assert "rude" not in json.dumps(recording)
    kept = recording["ask"]["parts"][0]["provider_data"]["anthropic"][0]
    assert kept == {"type": "thinking", "thinking": "", "signature": "EqQBCkYIBRgC"}
    result, _ = await replay(installed, {"state": {"topic": "x"}, "steps": [ASK]})
    assert result.final_state["a"] == "Hi."


async def test_embeddings_are_recorded_a_line_each_and_played(installed):
    class Embedding(scripted()):  # type: ignore[misc]
        features = treadle.Features(embeddings=True)

        async def embed(self, request: Any) -> EmbedResponse:
            vectors = tuple((float(len(text)), 0.25) for text in request.inputs)
            return EmbedResponse(vectors=vectors, usage=Usage(input_tokens=4), model="e-1", provider="it", cost_usd=0.1)

    flow = {"state": {"texts": ["a", "bcd"]}, "steps": [
        {"id": "index", "type": "embed", "model": "e", "inputs": "state.texts", "output": "vectors"}
    ]}  # fmt: skip
    result, recording = await record(installed, flow, provider=Embedding)
    assert recording["index"]["embeddings"] == [[1.0, 0.25], [3.0, 0.25]]
    assert "[1.0, 0.25],\n" in on_disk()
    again, unused = await replay(installed, flow)
    assert again.final_state == result.final_state == {"texts": ["a", "bcd"], "vectors": [[1.0, 0.25], [3.0, 0.25]]}
    assert again.step_results["index"].cost_usd == 0.1
    assert unused == []
    flow["state"] = {"texts": ["a", "bcx"]}
    changed, _ = await replay(installed, flow)
    assert changed.step_results["index"].error == (
        "the reply for 'index' was recorded for another request: input 2: 'bcd' -> 'bcx'; record it again"
    )


async def test_agents_as_tools_have_keys_of_their_own(installed, tmp_path):
    put("clerk.yaml", "name: clerk\ndescription: Asks.\nsystem_prompt: Help.\n")
    put("desk.yaml", "name: desk\nsystem_prompt: Work.\ntools: [{name: clerk, agent: clerk.yaml}]\n")
    flow = {"steps": [{"id": "answer", "type": "agent", "agent": "desk.yaml", "prompt": "Go", "output": "a"}]}
    asks = calls(("clerk", {"message": "one"}), ("clerk", {"message": "two"}))
    result, recording = await record(installed, flow, asks, reply("yes"), reply("no"), reply("done"))
    assert sorted(entries(recording)) == ["answer", "answer::clerk#1", "answer::clerk#2"]
    again, unused = await replay(installed, flow)
    assert (again.final_state, unused) == (result.final_state, [])


async def test_the_summary_of_a_conversation_has_a_key_of_its_own(installed):
    said = [{"role": role, "content": f"{role} {n} " * 20} for n in range(6) for role in ("user", "assistant")]
    chat = {"messages": said, "token_budget": 100, "trim_policy": "summarize_oldest"}
    flow = {"state": {"chat": chat}, "steps": [{**ASK, "prompt": "And?", "conversation": "state.chat"}]}
    result, recording = await record(installed, flow, reply("They spoke."), reply("So be it."))
    assert {key: entry["content"] for key, entry in entries(recording).items()} == {
        "ask": "So be it.",
        "ask::summarize": "They spoke.",
    }
    again, unused = await replay(installed, flow)
    assert (again.final_state, unused) == (result.final_state, [])


class Nest(treadle.Step):
    """Runs two workflows below it."""

    async def run(self, ctx):
        child = {"name": "c", "config": {"provider": "it"}, "steps": [{**ASK, "prompt": "{state.topic}"}]}
        made = [await ctx.run_child(child, key=key, state={"topic": key}) for key in ("x", "y")]
        return treadle.StepOutcome(value=[each.final_state["a"] for each in made])


async def test_calls_of_child_runs_have_dotted_keys(installed):
    host = installed.extended({"nest": offering(
        {"step_type": {"nest": Nest}})})  # fmt: skip
    flow = {"steps": [{"id": "sub", "type": "nest", "output": "all"}]}
    result, recording = await record(host, flow, reply("one"), reply("two"))
    assert {key: entry["content"] for key, entry in entries(recording).items()} == {
        "sub.x.ask": "one",
        "sub.y.ask": "two",
    }
    again, unused = await replay(host, flow)
    assert (again.final_state, unused) == (result.final_state, [])
    put("rec.json", '{"ask": ["uno", "due"]}')
    by_own_id, _ = await replay(host.extended({"it": offering({"provider": {"it": scripted()}})}), flow)
    assert by_own_id.final_state == {"all": ["uno", "due"]}, "a file by hand may call a child's step by its own id"


async def test_structured_output_and_its_second_try_are_replayed(installed):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    flow = {"state": {"topic": "x"}, "steps": [{**ASK, "response_schema": {"type": "json_schema", "schema": schema}}]}
    result, recording = await record(installed, flow, reply('{"n": "many"}'), reply('{"n": 3}'))
    assert len(recording["ask"]) == 2
    again, unused = await replay(installed, flow)
    assert again.final_state["a"] == result.final_state["a"] == {"n": 3}
    assert unused == []


async def test_several_runs_of_a_session_are_played_one_after_the_other(installed):
    flow = {"state": {"topic": "x"}, "steps": [ASK]}
    result, recording = await record(installed, flow, reply("one"), reply("two"), runs=2)
    assert [each["content"] for each in recording["ask"]] == ["one", "two"]
    again, _ = await replay(installed, flow, runs=2)
    assert again.final_state == result.final_state
    _, unused = await replay(installed, flow)
    assert unused == ["'ask' (1 of 2 replies)"]


async def test_an_attempt_that_a_failing_call_ended_is_kept_and_not_played(installed, autojump_clock):
    flow = {"steps": [{**TOOLS, "retry": {"max_retries": 1}}]}
    asked = [calls(("look", {"at": "sky"})), UnavailableError("busy", provider="it"), calls(("look", {"at": "sea"}))]
    result, recording = await record(installed, flow, *asked, reply("Wet."))
    assert result.final_state == {"a": "Wet."}
    assert [each.get("abandoned", False) for each in recording["ask"]] == [True, False, False]
    RAN[:] = ["sky"]  # the tool counts
    again, unused = await replay(installed, flow)
    assert (again.final_state, again.step_results["ask"].attempts, unused) == (result.final_state, 1, [])


async def test_an_attempt_whose_reply_was_at_fault_is_played_as_it_was(installed, autojump_clock):
    flow = {"state": {"topic": "x"}, "steps": [{**ASK, "retry": {"max_retries": 1}}]}
    cut = reply("", stop_reason=StopReason.ERROR, finish_reason="error")
    result, _ = await record(installed, flow, cut, reply("ok"))
    again, _ = await replay(installed, flow)
    assert again.final_state == result.final_state
    assert again.step_results["ask"].attempts == result.step_results["ask"].attempts


async def test_what_is_redacted_is_not_recorded_and_anything_may_stand_there_when_it_is_replayed(installed):
    flow = {
        "state": {"topic": "x", "name": "Wilhelmina"},
        "state_schema": {"name": {"redact": True}},
        "steps": [{**ASK, "prompt": "Greet {state.name}, about {state.topic}"}],
    }
    _, recording = await record(installed, flow, reply("Hello."))
    assert "Wilhelmina" not in on_disk()
    assert recording["ask"]["request"]["messages"][0]["content"] == "Greet <REDACTED>, about x"
    for name in ("Wilhelmina", "Ann"):
        result, _ = await replay(installed, flow, state={"name": name})
        assert result.step_results["ask"].output == "Hello."
    result, _ = await replay(installed, flow, state={"name": "Ann", "topic": "y"})
    assert (
        "the prompt (message 1): 'Greet <REDACTED>, about x' -> 'Greet Ann, about y'"
        in result.step_results["ask"].error
    )


async def test_a_redacted_reply_is_not_played(installed):
    flow = {"state": {"topic": "x"}, "state_schema": {"a": {"redact": True}}, "steps": [ASK]}
    _, recording = await record(installed, flow, reply("a secret"))
    assert recording["ask"]["content"] == "<REDACTED>"
    result, _ = await replay(installed, flow)
    assert result.step_results["ask"].error == "the reply was redacted when it was recorded; write one in its place"


async def test_the_fallback_that_answered_is_named_again(installed, monkeypatch, tmp_path):
    put("treadle.yaml", "provider: one\nproviders: {one: {kind: p1}, two: {kind: p2, fallback: true}}\n")
    broken = scripted(UnavailableError("down", provider="one"))
    plugin = offering({"provider": {"p1": broken, "p2": scripted(reply("Hi.", provider="two", model="big"))}})
    host = Host.discover(settings=treadle.load_settings("treadle.yaml")).extended({"two": plugin})
    flow = {"name": "f", "config": {"model": "m"}, "state": {"topic": "x"}, "steps": [ASK]}
    async with treadle.open(host=host, journal=RecordingJournal("rec.json")) as session:
        first = await session.run(treadle.build_workflow(flow, host=host))
    assert first.step_results["ask"].provider == "two"
    playback = FileRecorder().play(Path("rec.json"), host, strict=True)
    async with treadle.open(host=playback.host) as session:
        second = await session.run(treadle.build_workflow(flow, host=playback.host))
    assert second.ok, second.step_results["ask"].error
    assert (second.step_results["ask"].provider, second.step_results["ask"].model) == ("two", "big")


async def test_a_miss_fails_strictly_and_is_given_a_default_where_that_is_allowed(installed):
    flow = {"state": {"topic": "x"}, "steps": [ASK]}
    await record(installed, flow, reply("Hi."))
    flow["steps"] = [{**ASK, "id": "asked"}]
    result, unused = await replay(installed, flow)
    assert isinstance(result.step_results["asked"].exception, RecordingMismatchError)
    assert result.step_results["asked"].error == (
        "provider 'it' is strict and has no reply for 'asked'; there are replies for ask"
    )
    assert unused == ["'ask' (1 reply)"]
    allowed, _ = await replay(installed, flow, play={"default_fallback": True})
    assert allowed.final_state["a"] == "Mock response"
    assert [each.message for each in allowed.warnings] == [
        "there is no reply for 'asked' in rec.json; a default was given"
    ]
    flow["steps"] = [{**ASK, "prompt": "Else"}]
    changed, _ = await replay(installed, flow, play={"default_fallback": True})
    assert not changed.ok, "what has changed is no miss"


async def test_without_strictness_a_change_is_a_warning(installed):
    flow = {"state": {"topic": "x"}, "steps": [ASK]}
    await record(installed, flow, reply("Hi."))
    result, _ = await replay(installed, flow, strict=False, state={"topic": "y"})
    assert result.final_state["a"] == "Hi."
    assert [(each.step_id, each.message) for each in result.warnings] == [
        ("ask", "the reply for 'ask' was recorded for another request: the prompt (message 1): 'About x' -> 'About y'")
    ]


async def test_the_record_of_a_run_is_a_recording(installed):
    flow = {"steps": [TOOLS]}
    provider = scripted(calls(("look", {"at": "sky"})), reply("Blue."))
    async with treadle.open(host=installed, providers={"it": provider}, tools=[look]) as session:
        workflow = treadle.build_workflow({"name": "f", "config": {"provider": "it"}, **flow}, host=session.host)
        result = await session.run(workflow, run_id="r1")
        kept = list(session.journal.entries("r1"))
    RAN.clear()
    again, unused = await replay(installed, flow, recorded=kept)
    assert (again.final_state, unused) == (result.final_state, [])


async def test_a_call_is_on_disk_before_its_step_goes_on(installed):
    seen: list[bool] = []

    class Watching(treadle.Step):
        async def run(self, ctx):
            message = treadle.UserMessage.of("x")
            await ctx.complete(treadle.ModelRequest(model="m", messages=(message,), key=self.id))
            seen.append("Hi." in on_disk())
            return treadle.StepOutcome()

    host = installed.extended({"w": offering({"step_type": {"watching": Watching}})})
    await record(host, {"steps": [{"id": "w", "type": "watching"}]}, reply("Hi."))
    assert seen == [True]


async def test_a_run_that_is_cancelled_while_a_reply_is_written_keeps_the_reply(installed, monkeypatch):
    from treadle_replay.file import RecordingFile

    begun, add = trio.Event(), RecordingFile.add

    def slow(self: RecordingFile, made: Any) -> None:
        trio.from_thread.run_sync(begun.set)
        add(self, made)

    monkeypatch.setattr(RecordingFile, "add", slow)
    journal = RecordingJournal("rec.json")
    async with treadle.open(host=installed, providers={"it": scripted(reply("Hi."))}, journal=journal) as session:
        flow = {"name": "f", "config": {"provider": "it"}, "state": {"topic": "x"}, "steps": [ASK]}
        run = session.start(treadle.build_workflow(flow, host=session.host))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.execute)
            await begun.wait()
            run.cancel()
    assert json.loads(on_disk())["ask"]["content"] == "Hi."


async def test_a_recording_that_cannot_be_written_ends_the_run(installed, monkeypatch):
    from treadle_replay.errors import RecordingError
    from treadle_replay.file import RecordingFile

    def full(self: RecordingFile, made: Any) -> None:
        raise RecordingError("rec.json: cannot be written: No space left on device")

    monkeypatch.setattr(RecordingFile, "add", full)
    with pytest.raises(RecordingError, match="No space left"):
        await record(installed, {"state": {"topic": "x"}, "steps": [ASK]}, reply("Hi."))


def test_nothing_is_kept_of_a_run_that_is_over():
    made = Calls(tools=True)
    request, answer = treadle.ModelRequest(model="m", messages=(), key="a"), reply("x")
    entry = treadle.JournalEntry
    kinds = [
        entry("r", "step_started", "a", 1),
        entry("r", "model_call_started", "a", 1, 1, {"request": request, "provider": "p"}, at=1.0),
        entry("r", "model_call_finished", "a", 1, 1, {"response": answer}, at=1.5),
        entry("r", "run_finished"),
    ]
    (call,) = [each for kind in kinds for each in made.add(kind)]
    assert isinstance(call, ModelCall)
    assert (call.key, call.latency_ms) == ("a", 500.0)
    assert (made._started, made._attempts) == ({}, {})


TEXTS = st.text(alphabet='ab {}\n"\\ü€😀', max_size=8)
STEPS = st.lists(st.lists(TEXTS, min_size=1, max_size=3), min_size=1, max_size=4)


@settings(deadline=None, max_examples=15)
@given(STEPS, st.booleans(), st.booleans())
def test_a_recorded_run_replayed_comes_to_the_same_state_and_asks_nobody(loops, stream, keep_tools):
    """Each step is a tool loop; every step's prompt holds what the step before it was answered."""

    async def both() -> None:
        host = Host.discover()
        steps, replies = [], []
        for number, texts in enumerate(loops):
            before = f"{{state.out{number - 1}}}" if number else "go"
            steps.append({
                "id": f"s{number}", "type": "llm_call", "prompt": f"Step {number}: {before}", "stream": stream,
                "tools": [{"name": "look"}], "output": f"out{number}",
                "depends_on": [f"s{number - 1}"] if number else [],
            })  # fmt: skip
            replies += [calls(("look", {"at": text}), text=text) for text in texts[:-1]] + [reply(texts[-1])]
        RAN.clear()
        provider = scripted(*replies)
        first, _ = await record(host, {"steps": steps}, tools=keep_tools, provider=provider)
        assert first.ok
        asked, ran = len(provider.requests), len(RAN)
        RAN.clear()
        second, unused = await replay(host, {"steps": steps})
        assert (second.final_state, unused) == (first.final_state, [])
        assert len(provider.requests) == asked
        assert len(RAN) == (0 if keep_tools else ran)

    Path("rec.json").unlink(missing_ok=True)
    trio.run(both)
