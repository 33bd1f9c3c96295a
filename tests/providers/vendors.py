"""Every vendor's wire server behind one face: what tests of all providers script their replies with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from treadle.contracts.provider import Provider
from treadle.contracts.secrets import SecretRef
from treadle_anthropic.provider import AnthropicProvider
from treadle_anthropic.settings import AnthropicSettings
from treadle_google.provider import GoogleProvider
from treadle_google.settings import GoogleSettings
from treadle_ollama.provider import OllamaProvider
from treadle_ollama.settings import OllamaSettings
from treadle_openai.provider import GenericOpenAIProvider, OpenAIProvider
from treadle_openai.settings import GenericOpenAISettings, OpenAISettings

from wire import anthropic_server, google_server, ollama_server, openai_responses, openai_server
from wire.http_server import Json, Reply, WireServer

__all__ = ["KEY", "VENDORS", "Call", "Vendor", "clear_environment"]

KEY = "sk-test-0123456789abcdef"
_VARIABLES = (
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY",
    "OPENAI_CUSTOM_HEADERS", "GENERIC_OPENAI_API_KEY", "GENERIC_OPENAI_BASE_URL", "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "GOOGLE_BASE_URL", "GEMINI_API_KEY",
    "GOOGLE_GENAI_USE_VERTEXAI", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", "OLLAMA_HOST", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "TREADLE_CONFIG",
)  # fmt: skip


def clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the machine's owner set reaches a test; the key that all tests use is there."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEST_KEY", KEY)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a reply; ``arguments`` is JSON text, good or bad."""

    name: str
    arguments: str
    call_id: str = "call_1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One provider and the server that it speaks to.

    :param environment: the variables that lead a run to the server, by a function of its URL.
    :param reply: a scripted reply: ``reply(stream, text, calls, **more)``; ``more`` is what the vendor's server has.
    :param stops: what it writes for a reply cut at the limit, a refusal and a reason that nobody knows.
    :param can_say_bad_json: whether arguments come as text.
    """

    name: str
    provider: str
    model: str
    server: type[WireServer]
    build: Callable[[str], Provider]
    environment: Callable[[str], Mapping[str, str]]
    reply: Callable[..., Reply]
    failure: Callable[..., Reply]
    stops: Mapping[str, str] = field(default_factory=dict)
    can_say_bad_json: bool = True


SECRET = SecretRef("env:TEST_KEY")


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
    parts = [*before, *([text] if text else [])]
    parts += [
        {"functionCall": {"name": each.name, "args": json.loads(each.arguments), "id": each.call_id}} for each in calls
    ]
    whole = google_server.content(*parts, finish=stop, **more)
    return google_server.Stream([whole]) if stream else Json(whole)


def _ollama(
    stream: bool, text: str = "", calls: Sequence[Call] = (), *, stop: str = "stop", counts: Any = None, **more: Any
) -> Reply:
    said = (
        {"tool_calls": [ollama_server.call(each.name, json.loads(each.arguments)) for each in calls]} if calls else {}
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


def _openai(api: str, url: str) -> Provider:
    return OpenAIProvider("openai", OpenAISettings(base_url=f"{url}/v1", api_key=SECRET, api=api))  # type: ignore[arg-type]


_CHAT_STOPS = {"length": "length", "refusal": "content_filter", "unknown": "tired"}

VENDORS: Mapping[str, Vendor] = {
    each.name: each
    for each in (
        Vendor(
            name="openai",
            provider="openai",
            model="gpt-4o-mini",
            server=openai_server.OpenAIServer,
            build=lambda url: _openai("completions", url),
            environment=lambda url: {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1"},
            reply=_chat,
            failure=openai_server.failure,
            stops=_CHAT_STOPS,
        ),
        Vendor(
            name="openai responses",
            provider="openai",
            model="gpt-5-mini",
            server=openai_server.OpenAIServer,
            build=lambda url: _openai("responses", url),
            environment=lambda url: {
                "OPENAI_API_KEY": KEY,
                "OPENAI_BASE_URL": f"{url}/v1",
                "OPENAI_API": "responses",
            },
            reply=_responses,
            failure=openai_server.failure,
            stops={"length": "max_output_tokens", "refusal": "refusal", "unknown": "tired"},
        ),
        Vendor(
            name="generic_openai",
            provider="generic_openai",
            model="some-model",
            server=openai_server.OpenAIServer,
            build=lambda url: GenericOpenAIProvider("generic_openai", GenericOpenAISettings(base_url=url)),
            environment=lambda url: {"GENERIC_OPENAI_BASE_URL": url},
            reply=_chat,
            failure=openai_server.failure,
            stops=_CHAT_STOPS,
        ),
        Vendor(
            name="anthropic",
            provider="anthropic",
            model="claude-sonnet-4-5",
            server=anthropic_server.AnthropicServer,
            build=lambda url: AnthropicProvider("anthropic", AnthropicSettings(base_url=url, api_key=SECRET)),
            environment=lambda url: {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url},
            reply=_anthropic,
            failure=anthropic_server.failure,
            stops={"length": "max_tokens", "refusal": "refusal", "unknown": "tired"},
            can_say_bad_json=False,
        ),
        Vendor(
            name="google",
            provider="google",
            model=google_server.MODEL,
            server=google_server.GoogleServer,
            build=lambda url: GoogleProvider("google", GoogleSettings(base_url=url, api_key=SECRET)),
            environment=lambda url: {"GOOGLE_API_KEY": KEY, "GOOGLE_BASE_URL": url},
            reply=_google,
            failure=google_server.failure,
            stops={"length": "MAX_TOKENS", "refusal": "SAFETY", "unknown": "TIRED"},
            can_say_bad_json=False,
        ),
        Vendor(
            name="ollama",
            provider="ollama",
            model=ollama_server.MODEL,
            server=ollama_server.OllamaServer,
            build=lambda url: OllamaProvider("ollama", OllamaSettings(base_url=url)),
            environment=lambda url: {"OLLAMA_BASE_URL": url},
            reply=_ollama,
            failure=ollama_server.failure,
            stops={"length": "length", "unknown": "tired"},
            can_say_bad_json=False,
        ),
    )
}
