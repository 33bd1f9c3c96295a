"""What cannot be sent, and what is left out of a request: known before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from treadle.messages import HostedTool, MediaPart, Message, ModelRequest, NamedTool, ToolMessage, UserMessage
from treadle_openai.models import is_reasoning_model, takes_effort, takes_parallel_calls
from treadle_openai.schema import schema_problems

__all__ = [
    "AUDIO_FORMATS",
    "NAME_LIMIT",
    "WEB_SEARCH",
    "chat_media_refusal",
    "chat_problems",
    "ignored",
    "ignored_by_responses",
    "responses_media_refusal",
    "responses_problems",
]

NAME_LIMIT = 64
"""Longest name of a speaker, tool or schema."""

WEB_SEARCH = "web_search"

AUDIO_FORMATS: Mapping[str, str] = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/vnd.wave": "wav",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}
_STOP_LIMIT = 4  # most stop sequences of Chat Completions
_DOMAIN_LIMIT = 100  # most domains of a web search's list
_TOOL_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{NAME_LIMIT}}}")
_DOMAIN = re.compile(r"[^\s/:?#@]+\.[^\s/:?#@]+")
_DOMAIN_LISTS = ("allowed_domains", "blocked_domains")
_SEARCH_OPTIONS = (*_DOMAIN_LISTS, "dynamic_filtering", "max_uses", "search_context_size", "user_location")


def chat_problems(request: ModelRequest, *, is_openai: bool) -> Iterator[str]:
    """What is wrong with a request to Chat Completions.

    :param is_openai: OpenAI's own limits apply; a compatible server may have none of them.
    """
    for media in _media(request.messages):
        if refusal := chat_media_refusal(media):
            yield refusal
    for hosted in request.hosted_tools:
        yield f"Chat Completions has no hosted tool '{hosted.tool}'"
    if is_openai and len(request.stop_sequences) > _STOP_LIMIT:
        yield f"OpenAI takes at most {_STOP_LIMIT} stop sequences, not {len(request.stop_sequences)}"
    yield from _tool_problems(request, is_openai=is_openai)


def responses_problems(request: ModelRequest, *, is_openai: bool) -> Iterator[str]:
    """What is wrong with a request to the Responses API; see :func:`chat_problems`."""
    for media in _media(request.messages):
        if refusal := responses_media_refusal(media):
            yield refusal
    for hosted in request.hosted_tools:
        if hosted.tool == WEB_SEARCH:
            yield from _search_problems(hosted)
        else:
            yield f"the Responses API is used without the hosted tool '{hosted.tool}'"
    yield from _tool_problems(request, is_openai=is_openai)


def _tool_problems(request: ModelRequest, *, is_openai: bool) -> Iterator[str]:
    if isinstance(request.tool_choice, NamedTool) and request.tool_choice.name not in {t.name for t in request.tools}:
        yield f"tool_choice names '{request.tool_choice.name}', which is not among the tools"
    for tool in request.tools:
        if is_openai and not _TOOL_NAME.fullmatch(tool.name):
            yield (
                f"OpenAI takes no tool named '{tool.name}': "
                f"letters, digits, _ and - only, {NAME_LIMIT} characters at most"
            )
        for problem in schema_problems(tool.parameters, is_openai=is_openai):
            yield f"the schema of tool '{tool.name}' is wrong at {problem}"


def _search_problems(hosted: HostedTool) -> Iterator[str]:
    for name in hosted.options:
        if name not in _SEARCH_OPTIONS:
            yield f"web_search has no option '{name}'; there are {', '.join(_SEARCH_OPTIONS)}"
    if all(hosted.options.get(name) for name in _DOMAIN_LISTS):
        yield "web_search takes allowed_domains or blocked_domains, not both"
    for name in _DOMAIN_LISTS:
        domains = hosted.options.get(name)
        if domains is None:
            continue
        if not isinstance(domains, list | tuple) or not all(isinstance(each, str) for each in domains):
            yield f"web_search: {name} is a list of domains"
            continue
        if len(domains) > _DOMAIN_LIMIT:
            yield f"web_search: {name} holds at most {_DOMAIN_LIMIT} domains, not {len(domains)}"
        for domain in domains:
            if not _DOMAIN.fullmatch(domain):
                yield f"web_search: {name} holds '{domain}', which is no domain such as example.com"


def _media(messages: Sequence[Message]) -> Iterator[MediaPart]:
    for message in messages:
        if type(message) is UserMessage:
            yield from (part for part in message.parts if isinstance(part, MediaPart))
        elif type(message) is ToolMessage:
            yield from (part for result in message.results for part in result.media)


def chat_media_refusal(media: MediaPart) -> str | None:
    """Why Chat Completions does not take an attachment, None where it does."""
    if media.type == "pdf":
        return "Chat Completions takes no pdf attachments"
    if media.type == "audio" and media.data is None:
        return "Chat Completions takes audio as bytes, not by URL"
    if media.type == "audio" and media.media_type not in AUDIO_FORMATS:
        return f"Chat Completions takes WAV and MP3 audio, not {media.media_type}"
    return None


def responses_media_refusal(media: MediaPart) -> str | None:
    """Why the Responses API does not take an attachment, None where it does."""
    return "the Responses API takes no audio attachments" if media.type == "audio" else None


def ignored(request: ModelRequest) -> Iterator[str]:
    """What a request asks for that OpenAI's model does not take, and that is left out of what is sent."""
    model = request.model
    reasoning = request.reasoning
    if request.temperature is not None and is_reasoning_model(model):
        yield f"temperature is ignored: {model} takes none"
    if reasoning is not None and reasoning.budget_tokens is not None:
        yield "thinking.budget_tokens is ignored: OpenAI takes a level"
    if reasoning is not None and reasoning.level and not takes_effort(model):
        yield f"thinking.level is ignored: {model} takes none"
    if request.tools and request.parallel_tool_calls is not None and not takes_parallel_calls(model):
        yield f"parallel_tool_calls is ignored: {model} does not take it"


def ignored_by_responses(request: ModelRequest) -> Iterator[str]:
    """The same for the Responses API, which takes less."""
    yield from ignored(request)
    if request.stop_sequences:
        yield "stop_sequences are ignored: the Responses API takes none"
    if any(hosted.options.get("dynamic_filtering") is not None for hosted in request.hosted_tools):
        yield "web_search: dynamic_filtering is ignored: the Responses API has none"
