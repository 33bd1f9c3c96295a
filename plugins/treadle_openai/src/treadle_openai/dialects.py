"""The two APIs that a conversation can be held in, and what each of them can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from treadle.contracts.provider import Features
from treadle.messages import ModelResponse
from treadle_http.history import History
from treadle_openai import checks, convert, responses
from treadle_openai.responses_stream import ResponsesStream
from treadle_openai.stream import StreamedReply
from treadle_openai.streamed import OpenAIStream

__all__ = ["COMPLETIONS", "RESPONSES", "Dialect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How requests and replies are written in one API.

    :param path: under the base URL.
    :param body: the JSON of a request.
    :param history: keeps what was made of messages for a provider of that name.
    :param body_without_reasoning: the same without encrypted reasoning of earlier turns, None where it holds none.
    :param reply: the response in the JSON of a whole reply.
    :param stream: puts a streamed reply together.
    :param problems: what of a request cannot be sent.
    :param ignored: what of a request is left out.
    """

    path: str
    features: Features
    body: Callable[..., dict[str, Any]]
    history: Callable[[str], History]
    body_without_reasoning: Callable[[Mapping[str, Any]], dict[str, Any] | None]
    reply: Callable[..., ModelResponse]
    stream: type[OpenAIStream]
    problems: Callable[..., Iterator[str]]
    ignored: Callable[..., Iterator[str]]


COMPLETIONS = Dialect(
    path="chat/completions",
    features=Features(
        streaming=True,
        tools=True,
        tool_choice=True,
        output_schemas=True,
        json_objects=True,
        reasoning=True,
        embeddings=True,
        media=frozenset({"image", "audio"}),
        media_by_url=frozenset({"image"}),
    ),
    body=convert.request_body,
    history=lambda provider: History(partial(convert.messages_of, provider=provider)),
    body_without_reasoning=lambda body: None,
    reply=convert.response_of,
    stream=StreamedReply,
    problems=checks.chat_problems,
    ignored=checks.ignored,
)

RESPONSES = Dialect(
    path="responses",
    features=Features(
        streaming=True,
        tools=True,
        tool_choice=True,
        output_schemas=True,
        json_objects=True,
        reasoning=True,
        embeddings=True,
        media=frozenset({"image", "pdf"}),
        media_by_url=frozenset({"image", "pdf"}),
        hosted_tools=frozenset({checks.WEB_SEARCH}),
    ),
    body=responses.request_body,
    history=lambda provider: History(partial(responses.items_of, provider=provider)),
    body_without_reasoning=responses.without_reasoning,
    reply=responses.response_of,
    stream=ResponsesStream,
    problems=checks.responses_problems,
    ignored=checks.ignored_by_responses,
)
