"""Every vendor's wire server behind one face: what tests of all providers script their replies with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from treadle.contracts.provider import Provider, ProviderSettings
from treadle.contracts.secrets import SecretRef
from treadle.errors import ProviderError, ResponseError, UnavailableError
from treadle.messages import (
    ModelRequest,
    UserMessage,
)
from treadle_anthropic.provider import AnthropicProvider
from treadle_anthropic.settings import AnthropicSettings
from treadle_google.provider import GoogleProvider
from treadle_google.settings import GoogleSettings
from treadle_ollama.provider import OllamaProvider
from treadle_ollama.settings import OllamaSettings
from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_openai.settings import GenericOpenAISettings, OpenAISettings

from wire import anthropic_server, google_server, ollama_server, openai_responses, openai_server
from wire.fixtures import KEY
from wire.http_server import Json, Reply, Streamed, WireServer

__all__ = [
    "EMBEDDING",
    "EVERY",
    "KEY",
    "SECRET",
    "VENDORS",
    "Call",
    "Vendor",
    "ask",
]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a reply; ``arguments`` is JSON text, good or bad."""

    name: str
    arguments: str
    call_id: str = "call_1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One provider and the server that it speaks to.

    :param kind: its class, and ``settings`` the class of its settings.
    :param path: what follows the server's address in the base URL.
    :param fixed: settings that make it this one of the provider's several.
    :param key: the variable that its key is in where nothing else is set; ``needs_key`` says whether it must be.
    :param more_environment: variables that lead a run to it, besides its address and its key.
    :param reply: a scripted reply: ``reply(stream, text, calls, **more)``; ``more`` is what the vendor's server has.
    :param begun: the pieces of a stream that has said these texts and has not ended.
    :param streamed: a stream of such pieces.
    :param thought: ``more`` of a reply that was thought about.
    :param error_piece: an error in the middle of a stream, with these words.
    :param error_kind: what such an error becomes.
    :param vectors: a reply with these vectors, None where it has no embeddings.
    :param garbled: what is said of a piece that is not JSON.
    :param request_id: the header of a request's id.
    :param stops: what it writes for a reply cut at the limit, a refusal and a reason that nobody knows.
    :param can_say_bad_json: whether arguments come as text.
    """

    name: str
    provider: str
    model: str
    server: type[WireServer]
    kind: Callable[[str, Any], Provider]
    settings: type[ProviderSettings]
    path: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    key: str
    needs_key: bool = True
    more_environment: Mapping[str, str] = field(default_factory=dict)
    reply: Callable[..., Reply]
    failure: Callable[..., Reply]
    begun: Callable[..., list[Any]]
    streamed: Callable[..., Streamed]
    thought: Callable[[str], Mapping[str, Any]]
    error_piece: Callable[[str], Any]
    error_kind: type[ProviderError] = UnavailableError
    vectors: Callable[[Any], Reply] | None
    garbled: str
    request_id: str | None = None
    stops: Mapping[str, str] = field(default_factory=dict)
    can_say_bad_json: bool = True

    def __str__(self) -> str:
        return self.name

    def build(self, url: str, **settings: Any) -> Provider:
        """The provider, led to a server at this address, with the key that all tests use."""
        given = {"base_url": url + self.path, "api_key": SECRET, **self.fixed, **settings}
        return self.kind(self.provider, self.settings(**given))

    def environment(self, url: str) -> Mapping[str, str]:
        """The variables that lead a run to the server."""
        address = f"{self.provider.upper()}_BASE_URL"
        return {address: url + self.path, **({self.key: KEY} if self.needs_key else {}), **self.more_environment}


SECRET = SecretRef("env:TEST_KEY")


def ask(vendor: Vendor, said: str = "hi", **fields: Any) -> ModelRequest:
    """A request of its model."""
    return ModelRequest(**{"model": vendor.model, "messages": (UserMessage.of(said),), **fields})


def _chat(stream: bool, text: str = "", calls: Sequence[Call] = (), *, stop: str | None = None, **more: Any) -> Reply:
    said = [openai_server.call(each.name, each.arguments, each.call_id) for each in calls]
    finish = stop or ("tool_calls" if calls else "stop")
    if not stream:
        whole = openai_server.completion(text or None, tool_calls=said, finish_reason=finish, **more)
        return Json(whole, headers={"x-request-id": "req_1"})
    usage = more.pop("usage", None) or {"prompt_tokens": 9, "completion_tokens": 3}
    pieces = [openai_server.chunk(content=piece) for piece in _halves(text)]
    for index, each in enumerate(said):
        named = {**each, "index": index, "function": {"name": each["function"]["name"], "arguments": ""}}
        pieces.append(openai_server.chunk(tool_calls=[named]))
        pieces += [
            openai_server.chunk(tool_calls=[{"index": index, "function": {"arguments": piece}}])
            for piece in _halves(each["function"]["arguments"])
        ]
    ending = [openai_server.chunk(finish_reason=finish), openai_server.chunk(usage=usage)]
    return openai_server.Stream([openai_server.chunk(**more), *pieces, *ending], headers={"x-request-id": "req_1"})


def _responses(
    stream: bool, text: str = "", calls: Sequence[Call] = (), *, stop: str | None = None, before: Any = (), **more: Any
) -> Reply:
    items = [*before, *([openai_responses.message(text)] if text else [])]
    items += [openai_responses.function_call(each.name, each.arguments, each.call_id) for each in calls]
    if stop == "refusal":
        items = [openai_responses.message(refusal=text)]
    elif stop:
        more |= {"status": "incomplete", "incomplete_details": {"reason": stop}}
    whole = openai_responses.response(*items, **more)
    headers = {"x-request-id": "req_1"}
    return openai_server.response_stream(whole, headers=headers) if stream else Json(whole, headers=headers)


def _anthropic(
    stream: bool, text: str = "", calls: Sequence[Call] = (), *, stop: str | None = None, before: Any = (), **more: Any
) -> Reply:
    blocks = [*before, *([text] if text else [])]
    blocks += [anthropic_server.tool_use(each.name, json.loads(each.arguments), each.call_id) for each in calls]
    whole = anthropic_server.message(*blocks, stop_reason=stop, **more)
    headers = {"request-id": "req_1"}
    return (
        anthropic_server.Stream(anthropic_server.events_of(whole), headers=headers)
        if stream
        else Json(whole, headers=headers)
    )


def _google(
    stream: bool, text: str = "", calls: Sequence[Call] = (), *, stop: str = "STOP", before: Any = (), **more: Any
) -> Reply:
    said = [
        {"functionCall": {"name": each.name, "args": json.loads(each.arguments), "id": each.call_id}} for each in calls
    ]
    if not stream:
        return Json(google_server.content(*before, *([text] if text else []), *said, finish=stop, **more))
    pieces = [google_server.candidate(each) for each in (*before, *_halves(text))]
    return google_server.Stream([*pieces, google_server.content(*said, finish=stop, **more)])


def _ollama(
    stream: bool, text: str = "", calls: Sequence[Call] = (), *, stop: str = "stop", counts: Any = None, **more: Any
) -> Reply:
    said = (
        {"tool_calls": [ollama_server.call(each.name, json.loads(each.arguments), id=each.call_id) for each in calls]}
        if calls
        else {}
    )
    if not stream:
        return Json(ollama_server.reply_json(text, reason=stop, **said, **more))
    lines = [ollama_server.line(piece) for piece in _halves(text)]
    return ollama_server.Lines(
        [*([ollama_server.line(**said, **more)] if said or more else []), *lines, ollama_server.done(stop)]
    )


def _halves(text: str) -> list[str]:
    middle = (len(text) + 1) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _responses_begun(*texts: str) -> list[Any]:
    *begun, _done, _completed = openai_responses.response_events(
        openai_responses.response(openai_responses.message("")), pieces=1
    )
    event = openai_responses.event
    return [*begun, *(event("response.output_text.delta", output_index=0, delta=text) for text in texts)]


def _anthropic_begun(*texts: str) -> list[Any]:
    start, ping, block, *_ = anthropic_server.events_of(anthropic_server.message("x"))
    kind = {"type": "content_block_delta", "index": 0}
    return [start, ping, block, *({**kind, "delta": {"type": "text_delta", "text": text}} for text in texts)]


_CHAT: Mapping[str, Any] = {
    "server": openai_server.OpenAIServer,
    "reply": _chat,
    "failure": openai_server.failure,
    "begun": lambda *texts: [openai_server.chunk(content=text) for text in texts],
    "streamed": lambda pieces, **more: openai_server.Stream(pieces, done=False, **more),
    "thought": lambda said: {"reasoning_content": said},
    "error_piece": lambda said: {"error": {"message": said, "code": 503}},
    "vectors": lambda rows: Json(openai_server.vectors(rows or ())),
    "garbled": "sent an event that is not JSON",
    "request_id": "x-request-id",
    "stops": {"length": "length", "refusal": "content_filter", "unknown": "tired"},
}
_OPENAI: Mapping[str, Any] = {
    **_CHAT,
    "provider": "openai",
    "kind": OpenAIProvider,
    "settings": OpenAISettings,
    "path": "/v1",
    "key": "OPENAI_API_KEY",
}

VENDORS: Mapping[str, Vendor] = {
    each.name: each
    for each in (
        Vendor(name="openai", model="gpt-4o-mini", fixed={"api": "completions"}, **_OPENAI),
        Vendor(
            **{
                **_OPENAI,
                "name": "openai responses",
                "model": "gpt-5-mini",
                "fixed": {"api": "responses"},
                "more_environment": {"OPENAI_API": "responses"},
                "reply": _responses,
                "begun": _responses_begun,
                "thought": lambda said: {"before": [openai_responses.reasoning(said)]},
                "error_piece": lambda said: openai_responses.event("error", code="server_error", message=said),
                "stops": {"length": "max_output_tokens", "refusal": "refusal", "unknown": "tired"},
            }
        ),
        Vendor(
            name="generic_openai",
            provider="generic_openai",
            model="some-model",
            kind=GenericOpenAIProvider,
            settings=GenericOpenAISettings,
            key="GENERIC_OPENAI_API_KEY",
            needs_key=False,
            **_CHAT,
        ),
        Vendor(
            name="anthropic",
            provider="anthropic",
            model="claude-sonnet-4-5",
            server=anthropic_server.AnthropicServer,
            kind=AnthropicProvider,
            settings=AnthropicSettings,
            key="ANTHROPIC_API_KEY",
            reply=_anthropic,
            failure=anthropic_server.failure,
            begun=_anthropic_begun,
            streamed=anthropic_server.Stream,
            thought=lambda said: {"before": [anthropic_server.thinking(said)]},
            error_piece=lambda said: {"type": "error", "error": {"type": "overloaded_error", "message": said}},
            vectors=None,
            garbled="sent an event that is not JSON",
            request_id="request-id",
            stops={"length": "max_tokens", "refusal": "refusal", "unknown": "tired"},
            can_say_bad_json=False,
        ),
        Vendor(
            name="google",
            provider="google",
            model=google_server.MODEL,
            server=google_server.GoogleServer,
            kind=GoogleProvider,
            settings=GoogleSettings,
            key="GOOGLE_API_KEY",
            reply=_google,
            failure=google_server.failure,
            begun=lambda *texts: [google_server.candidate(text) for text in texts],
            streamed=google_server.Stream,
            thought=lambda said: {"before": [{"text": said, "thought": True, "thoughtSignature": "s"}]},
            error_piece=lambda said: {"error": {"code": 503, "message": said, "status": "UNAVAILABLE"}},
            vectors=lambda rows: Json({"embeddings": rows and [{"values": row} for row in rows]}),
            garbled="sent an event that is not JSON",
            stops={"length": "MAX_TOKENS", "refusal": "SAFETY", "unknown": "TIRED"},
            can_say_bad_json=False,
        ),
        Vendor(
            name="ollama",
            provider="ollama",
            model=ollama_server.MODEL,
            server=ollama_server.OllamaServer,
            kind=OllamaProvider,
            settings=OllamaSettings,
            key="OLLAMA_API_KEY",
            needs_key=False,
            reply=_ollama,
            failure=ollama_server.failure,
            begun=lambda *texts: [ollama_server.line(text) for text in texts],
            streamed=ollama_server.Lines,
            thought=lambda said: {"thinking": said},
            error_piece=lambda said: {"error": said},
            error_kind=ResponseError,
            vectors=lambda rows: Json({"model": "e", "embeddings": rows}),
            garbled="sent a line that is not JSON",
            stops={"length": "length", "unknown": "tired"},
            can_say_bad_json=False,
        ),
    )
}
EVERY = pytest.mark.parametrize("vendor", VENDORS.values(), ids=str)
EMBEDDING = pytest.mark.parametrize("vendor", [each for each in VENDORS.values() if each.vectors], ids=str)
