"""Requests in the Messages API's JSON. Pure: no SDK, no network, no clock.

https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.messages import MediaPart, Message, ModelRequest, NamedTool, ToolMessage, ToolSpec, UserMessage
from treadle_anthropic.caching import OPTION, cache_problems, set_marks
from treadle_anthropic.models import Traits, traits_of
from treadle_anthropic.schema import input_schema, input_schema_problem
from treadle_anthropic.search import WEB_SEARCH, ignored_options, search_problems, search_tool
from treadle_anthropic.structured import Shaping, shaping_of
from treadle_anthropic.turns import THINKING, Conversation, conversation_of, media_refusal

__all__ = ["DEFAULT_MAX_TOKENS", "SAMPLING_VERSION", "Prepared", "prepare", "problems"]

DEFAULT_MAX_TOKENS = 4096
"""The reply's limit where the request has none: the API demands one. A budget for thinking comes on top."""

SAMPLING_VERSION = "2023-06-01"
"""The last version of the API that takes ``temperature``, ``top_p`` and ``top_k``. Requests with one of them name
it; the others leave the version to the SDK. https://platform.claude.com/docs/en/api/migration-2026-10-21"""

_SAMPLING = ("temperature", "top_p", "top_k")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


# --- what cannot be sent ----------------------------------------------------------------------------


def problems(request: ModelRequest, *, provider: str) -> Iterator[str]:
    """What is wrong with the request, known before anything is sent."""
    for media in _media(request.messages):
        if refusal := media_refusal(media):
            yield refusal
    yield from _tool_problems(request)
    yield from _reasoning_problems(request)
    for hosted in request.hosted_tools:
        if hosted.tool == WEB_SEARCH:
            yield from search_problems(hosted)
    if any(not each.strip() for each in request.stop_sequences):
        yield "Anthropic takes no stop sequence of white space only"
    options = request.provider_options.get(provider)
    if isinstance(options, Mapping) and OPTION in options:
        yield from cache_problems(options[OPTION])


def _media(messages: Sequence[Message]) -> Iterator[MediaPart]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield from (part for part in message.parts if isinstance(part, MediaPart))
        elif isinstance(message, ToolMessage):
            yield from (part for result in message.results for part in result.media)


def _tool_problems(request: ModelRequest) -> Iterator[str]:
    for tool in request.tools:
        if not _TOOL_NAME.fullmatch(tool.name):
            yield f"Anthropic takes no tool named '{tool.name}': letters, digits, _ and - only, 128 characters at most"
        if problem := input_schema_problem(tool.name, tool.parameters):
            yield problem
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name not in {tool.name for tool in request.tools}:
        yield f"tool_choice names '{choice.name}', which is not among the tools"
    if request.tools and (choice == "required" or isinstance(choice, NamedTool)):
        if not traits_of(request.model).takes_force:
            yield f"{request.model} takes no tool_choice that forces a tool, only auto and none"
        elif request.reasoning is not None:
            yield "Anthropic takes no tool_choice that forces a tool while the model reasons, only auto and none"


def _reasoning_problems(request: ModelRequest) -> Iterator[str]:
    if request.reasoning is None:
        return
    budget = request.reasoning.budget_tokens
    if budget is None:
        if traits_of(request.model).is_claude:
            yield "reasoning on a Claude model needs budget_tokens"
    elif request.max_tokens is not None and request.max_tokens <= budget:
        yield (
            f"max_tokens ({request.max_tokens}) must be above budget_tokens ({budget}), "
            "as a reply's reasoning counts in it"
        )


# --- requests ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request as it goes out.

    :param betas: names for the ``anthropic-beta`` header.
    :param version: for the ``anthropic-version`` header; None leaves it to the SDK.
    :param answer_tool: the tool whose input is the reply, where one was forced for the sake of its shape.
    :param warnings: what the run's owner should know of it.
    :param has_thinking: whether thinking blocks of earlier turns are in it.
    """

    body: dict[str, Any]
    betas: tuple[str, ...] = ()
    version: str | None = None
    answer_tool: str | None = None
    warnings: tuple[str, ...] = ()
    has_thinking: bool = False


def prepare(request: ModelRequest, *, provider: str, with_thinking: bool = True) -> Prepared:
    """The request's JSON, and what goes with it.

    :param with_thinking: False leaves the thinking blocks of earlier turns out, which the API has refused.
    :raises UnsupportedError: the request holds what the API cannot say.
    """
    traits = traits_of(request.model)
    conversation = conversation_of(request.messages, provider=provider, with_thinking=with_thinking)
    shaping = shaping_of(request, traits)
    warnings: list[str] = []
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": _max_tokens(request),
        "messages": conversation.turns,
    }
    if system := [*conversation.system, *((shaping.words,) if shaping.words else ())]:
        body["system"] = "\n\n".join(system)
    thinking = _thinking(request, traits, conversation, warnings)
    if thinking is not None:
        body["thinking"] = thinking
    _set_tools(body, request, conversation, shaping, warnings)
    if shaping.format is not None:
        body["output_config"] = {"format": shaping.format}
    if request.temperature is not None:
        if not traits.takes_sampling:
            warnings.append(f"{request.model} takes no temperature; {request.temperature:g} is not sent")
        elif thinking is not None:
            warnings.append(f"Anthropic takes no temperature with reasoning; {request.temperature:g} is not sent")
        else:
            body["temperature"] = request.temperature
    if request.stop_sequences:
        body["stop_sequences"] = list(request.stop_sequences)
    betas = _add_options(body, request.provider_options.get(provider))
    if request.stream:
        body["stream"] = True
    return Prepared(
        body=body,
        betas=betas,
        version=SAMPLING_VERSION if any(name in body for name in _SAMPLING) else None,
        answer_tool=shaping.tool_name,
        warnings=tuple(warnings),
        has_thinking=any(conversation.blocks(*THINKING)),
    )


def _max_tokens(request: ModelRequest) -> int:
    if request.max_tokens is not None:
        return request.max_tokens
    budget = request.reasoning.budget_tokens if request.reasoning is not None else None
    return DEFAULT_MAX_TOKENS + (budget or 0)


def _thinking(
    request: ModelRequest, traits: Traits, conversation: Conversation, warnings: list[str]
) -> dict[str, Any] | None:
    reasoning = request.reasoning
    if reasoning is None:
        return None
    if reasoning.level is not None:
        warnings.append(f"Anthropic takes a budget for reasoning, not a level; '{reasoning.level}' is ignored")
    thinking: dict[str, Any]
    if not traits.takes_budget:
        warnings.append(f"{request.model} decides itself how much it reasons; budget_tokens only raises max_tokens")
        # Without a word about it these models send their thinking without its text.
        thinking = {"type": "adaptive", "display": "summarized"}
    elif reasoning.budget_tokens is None:
        warnings.append(f"reasoning of {request.model} is not asked for: it has no budget_tokens")
        return None
    elif conversation.answers_without_thinking():
        warnings.append("reasoning is left out: the tool calls that are answered here were made without it")
        return None
    else:
        thinking = {"type": "enabled", "budget_tokens": reasoning.budget_tokens}
    if not reasoning.capture and traits.takes_display:
        thinking["display"] = "omitted"
    return thinking


def _set_tools(
    body: dict[str, Any], request: ModelRequest, conversation: Conversation, shaping: Shaping, warnings: list[str]
) -> None:
    tools = [_tool(tool) for tool in request.tools]
    for hosted in request.hosted_tools:
        tools.append(search_tool(hosted))
        warnings.extend(f"{WEB_SEARCH}: Anthropic has no {name}; it is ignored" for name in ignored_options(hosted))
    choice: dict[str, Any] | None = None
    if shaping.tool is not None:
        tools.append(dict(shaping.tool))
        choice = {"type": "tool", "name": shaping.tool_name, "disable_parallel_tool_use": True}
    elif tools:
        choice = _tool_choice(request)
    if not tools:  # calls in the history need a `tools`, though the model may not call any more
        called = dict.fromkeys(block["name"] for block in conversation.blocks("tool_use"))
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in called]
        choice = {"type": "none"} if tools else None
    if tools:
        body["tools"] = tools
    if choice is not None:
        body["tool_choice"] = choice


def _tool(tool: ToolSpec) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": input_schema(tool.parameters)}


def _tool_choice(request: ModelRequest) -> dict[str, Any] | None:
    choice: dict[str, Any]
    if isinstance(request.tool_choice, NamedTool):
        choice = {"type": "tool", "name": request.tool_choice.name}
    else:
        choice = {"type": {"required": "any"}.get(request.tool_choice, request.tool_choice)}
    if request.parallel_tool_calls is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return None if choice == {"type": "auto"} else choice


def _add_options(body: dict[str, Any], options: Any) -> tuple[str, ...]:
    """Put in what only this API knows; the names of betas come back."""
    if not isinstance(options, Mapping):
        return ()
    given = dict(options)
    cache, betas = given.pop(OPTION, None), given.pop("betas", ())
    if isinstance(more := given.pop("tools", None), list | tuple):
        body["tools"] = [*body.get("tools", ()), *(dict(tool) for tool in more)]
    if isinstance(config := given.get("output_config"), Mapping):
        given["output_config"] = {**body.get("output_config", {}), **config}
    body.update(given)
    set_marks(body, cache)
    return tuple(betas) if isinstance(betas, list | tuple) else (str(betas),)
