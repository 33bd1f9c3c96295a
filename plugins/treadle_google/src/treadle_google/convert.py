"""Requests in the JSON of Gemini's API. Pure: no SDK, no network, no clock.

https://ai.google.dev/api/generate-content, https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from treadle.errors import UnsupportedError
from treadle.messages import (
    AssistantMessage,
    AssistantPart,
    EmbedRequest,
    HostedToolPart,
    MediaPart,
    Message,
    ModelRequest,
    NamedTool,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from treadle_google.schema import dialect_problems, gemini_schema
from treadle_http.dialects import SchemaRefused

__all__ = ["API_NAME", "embed_body", "has_signatures", "ignored", "options_of", "plain", "problems", "request_body"]

API_NAME = "google"
"""Under which ``provider_data`` is kept."""

_STOP_LIMIT = 5
_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_TOP_LEVEL = frozenset({"cachedContent", "generationConfig", "labels", "safetySettings", "serviceTier", "store"})
"""What the API takes beside ``generationConfig``; every other option is one of its."""
_OURS = frozenset({"candidateCount", "contents", "model", "systemInstruction", "toolConfig", "tools"})
"""What a request says by itself, and no option may say otherwise. There is one candidate."""

_BEFORE_3 = re.compile(r"(?:models/)?gemini-[12]\b")
_NEEDS_SIGNATURES = re.compile(r"(?:models/)?gemini-(?![12]\b)\d")
_NO_SIGNATURE = "skip_thought_signature_validator"
"""The vendor's stand-in for the signature of a call that another model made."""
_OPENING = "(The conversation begins.)"
"""A conversation has to begin with a user's turn."""


# --- what cannot be sent, and what is not ------------------------------------------------------------


def options_of(request: ModelRequest, provider: str) -> Mapping[str, Any]:
    """The request's options for this provider, by its name here or by ``google``."""
    options = request.provider_options.get(provider) or request.provider_options.get(API_NAME) or {}
    return options if isinstance(options, Mapping) else {}


def problems(request: ModelRequest, *, provider: str) -> Iterator[str]:
    """What is wrong with the request, known before anything is sent."""
    for media in _media(request.messages):
        if media.data is None:
            yield f"Gemini takes {media.type} attachments as bytes, not by URL"
    for hosted in request.hosted_tools:
        yield f"provider '{provider}' has no hosted tool '{hosted.tool}'"
    if isinstance(request.tool_choice, NamedTool) and request.tool_choice.name not in {t.name for t in request.tools}:
        yield f"tool_choice names '{request.tool_choice.name}', which is not among the tools"
    if len(request.stop_sequences) > _STOP_LIMIT:
        yield f"Gemini takes at most {_STOP_LIMIT} stop sequences, not {len(request.stop_sequences)}"
    for tool in request.tools:
        if not _TOOL_NAME.fullmatch(tool.name):
            yield (
                f"Gemini takes no tool named '{tool.name}': a letter or _, then letters, digits, _ . : and - only, "
                "128 characters at most"
            )
        for problem in dialect_problems(tool.parameters):
            yield f"tool '{tool.name}': {problem}"
    if request.output is not None and request.output.schema is not None:
        try:
            gemini_schema(request.output.schema, "schema")
        except SchemaRefused as error:
            yield f"the shape '{request.output.name}': {error}"
    options = options_of(request, provider)
    for name in sorted(_OURS & set(options)):
        yield f"the option '{name}' is no option: the request says it"
    if not isinstance(options.get("generationConfig", {}), Mapping):
        yield "the option 'generationConfig' is a mapping"


def ignored(request: ModelRequest) -> tuple[str, ...]:
    """What the request asks for and the API has no way to say."""
    if request.tools and request.parallel_tool_calls is False:
        return ("parallel_tool_calls is ignored: Gemini has none",)
    return ()


def _media(messages: Sequence[Message]) -> Iterator[MediaPart]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield from (part for part in message.parts if isinstance(part, MediaPart))
        elif isinstance(message, ToolMessage):
            yield from (part for result in message.results for part in result.media)


# --- requests ---------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """The value with dicts and lists for every mapping and sequence in it, as the SDK's encoder wants them."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def request_body(request: ModelRequest, *, provider: str, signatures: bool = True) -> dict[str, Any]:
    """The JSON of a request.

    :param signatures: send back the signatures that came with earlier replies.
    :raises UnsupportedError: the request holds what the API cannot say.
    """
    system = [message.text for message in request.messages if isinstance(message, SystemMessage) and message.text]
    stand_in = _NO_SIGNATURE if _NEEDS_SIGNATURES.match(request.model) else None
    body: dict[str, Any] = {"contents": _Contents(provider, signatures, stand_in).of(request.messages)}
    config: dict[str, Any] = {}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(tool, provider) for tool in request.tools]}]
        if choice := _calling(request):
            body["toolConfig"] = {"functionCallingConfig": choice}
    if request.output is not None:
        if request.tools and _BEFORE_3.match(request.model):
            # Before Gemini 3 the API refuses both at once. Whoever asked checks the reply in any case.
            system.append(_shape_in_words(request.output.schema))
        else:
            config["responseMimeType"] = "application/json"
            if request.output.schema is not None:
                config["responseSchema"] = _compiled(request.output.schema, "schema", provider)
    if system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    if request.stop_sequences:
        config["stopSequences"] = list(request.stop_sequences)
    if request.reasoning is not None:
        thinking: dict[str, Any] = {"includeThoughts": request.reasoning.capture}
        if request.reasoning.budget_tokens is not None:
            thinking["thinkingBudget"] = request.reasoning.budget_tokens
        if request.reasoning.level is not None:
            thinking["thinkingLevel"] = request.reasoning.level
        config["thinkingConfig"] = thinking
    for name, value in options_of(request, provider).items():
        if name == "generationConfig" and isinstance(value, Mapping):
            config.update(plain(value))
        elif name in _TOP_LEVEL:
            body[name] = plain(value)
        elif name not in _OURS:
            config[name] = plain(value)
    if config:
        body["generationConfig"] = config
    return body


def _declaration(tool: ToolSpec, provider: str) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": tool.name, "description": tool.description}
    parameters = _compiled(tool.parameters, f"tool '{tool.name}': parameters", provider)
    if "anyOf" in parameters:
        parameters = _one_object(parameters["anyOf"])
    if parameters.get("properties"):  # the API refuses an object without any
        declared["parameters"] = parameters
    return declared


def _one_object(choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several objects as one, as a function's parameters have to be: with what any has, and what all require."""
    named = {name: each for choice in choices for name, each in choice.get("properties", {}).items()}
    required = [name for name in named if all(name in choice.get("required", ()) for choice in choices)]
    return {"type": "OBJECT", "properties": named, **({"required": required} if required else {})}


def _compiled(schema: Mapping[str, Any], root: str, provider: str) -> dict[str, Any]:
    try:
        return gemini_schema(plain(schema), root)
    except SchemaRefused as error:
        raise UnsupportedError(f"Gemini cannot be told this schema: {error}", provider=provider) from None


def _calling(request: ModelRequest) -> dict[str, Any] | None:
    """``functionCallingConfig``; None where the model decides, as it does unasked."""
    if isinstance(request.tool_choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [request.tool_choice.name]}
    return {"none": {"mode": "NONE"}, "required": {"mode": "ANY"}}.get(request.tool_choice)


def _shape_in_words(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return "Write your answer as a JSON object and nothing else."
    wanted = json.dumps(plain(schema), ensure_ascii=False)
    return f"Write your answer as JSON of this JSON Schema, and nothing else: {wanted}"


class _Contents:
    """Builds ``contents``: turns of ``user`` and ``model``, each call's result right behind its turn."""

    def __init__(self, provider: str, signatures: bool, stand_in: str | None) -> None:
        self._provider = provider
        self._signatures = signatures
        self._stand_in = stand_in
        self._turns: list[dict[str, Any]] = []
        self._open = False  # whether the last turn may take further parts
        self._ids: dict[str, str] = {}

    def of(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        for message in messages:
            if isinstance(message, UserMessage):
                self._add("user", list(self._user(message)))
            elif isinstance(message, AssistantMessage):
                self._add("model", list(self._model(message)))
            elif isinstance(message, ToolMessage):
                self._results(message)
        if not self._turns:
            self._add("user", [{"text": _OPENING}])
        return self._turns

    def _add(self, role: str, parts: list[dict[str, Any]]) -> None:
        if not parts:
            return
        if not self._turns and role == "model":
            self._turns.append({"role": "user", "parts": [{"text": _OPENING}]})
        if self._open and self._turns[-1]["role"] == role:
            self._turns[-1]["parts"].extend(parts)
        else:
            self._turns.append({"role": role, "parts": parts})
        self._open = True

    def _user(self, message: UserMessage) -> Iterator[dict[str, Any]]:
        spoken = f"[{message.name}] " if message.name else ""
        for part in message.parts:
            if isinstance(part, MediaPart):
                yield self._inline(part)
            elif part.text or spoken:
                yield {"text": f"{spoken}{part.text}"}
                spoken = ""

    def _inline(self, media: MediaPart) -> dict[str, Any]:
        if media.data is None:
            raise UnsupportedError(
                f"Gemini takes {media.type} attachments as bytes, not by URL", provider=self._provider
            )
        encoded = base64.b64encode(media.data).decode("ascii")
        return {"inlineData": {"mimeType": media.media_type, "data": encoded}}

    def _model(self, message: AssistantMessage) -> Iterator[dict[str, Any]]:
        # The API knows no speakers: who speaks is written before the words. A signature holds for its very part,
        # so a part that has one stays as it is.
        spoken = f"[{message.name}] " if message.name else ""
        stand_in = self._stand_in
        for part in message.parts:
            data = _own(part)
            signature = data.get("thoughtSignature") if self._signatures else None
            signed = {} if signature is None else {"thoughtSignature": signature}
            if isinstance(part, TextPart):
                text = part.text if signed else f"{spoken}{part.text}"
                if text or signed:
                    spoken = "" if not signed else spoken
                    yield {"text": text, **signed}
            elif isinstance(part, ToolCallPart):
                if not signed and stand_in is not None:
                    signed = {"thoughtSignature": stand_in}
                stand_in = None  # only the first call of a turn has one
                yield {"functionCall": self._call(part, data), **signed}
            elif isinstance(part, ReasoningPart) and signed:
                yield {"text": part.text, "thought": True, **signed}
            elif isinstance(part, HostedToolPart) and isinstance(data.get("part"), Mapping):
                yield plain(data["part"])

    def _call(self, call: ToolCallPart, data: Mapping[str, Any]) -> dict[str, Any]:
        named = {}
        if isinstance(call_id := data.get("id"), str):
            named = {"id": call_id}
            self._ids[call.call_id] = call_id
        else:
            self._ids.pop(call.call_id, None)
        return {**named, "name": call.tool_name, "args": plain(call.arguments or {})}

    def _results(self, message: ToolMessage) -> None:
        parts: list[dict[str, Any]] = []
        attached: list[dict[str, Any]] = []
        for result in message.results:
            named = {"id": self._ids[result.call_id]} if result.call_id in self._ids else {}
            said = {"error" if result.is_error else "result": result.content}
            parts.append({"functionResponse": {**named, "name": result.tool_name, "response": said}})
            if result.media:
                attached.append({"text": f"What {result.tool_name} returned besides its text:"})
                attached.extend(self._inline(media) for media in result.media)
        # Results stand alone: their number is compared with that of the calls.
        self._open = False
        self._add("user", parts)
        self._open = False
        self._add("user", attached)


def _own(part: AssistantPart) -> Mapping[str, Any]:
    data = part.provider_data.get(API_NAME)
    return data if isinstance(data, Mapping) else {}


def has_signatures(request: ModelRequest) -> bool:
    """Whether anything in the history is signed by the API."""
    return any(
        "thoughtSignature" in _own(part)
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for part in message.parts
    )


# --- embeddings -------------------------------------------------------------------------------------


def embed_body(request: EmbedRequest, inputs: Sequence[str]) -> dict[str, Any]:
    """The JSON of a request for the vectors of one batch of inputs.

    https://ai.google.dev/api/embeddings
    """
    model = request.model if "/" in request.model else f"models/{request.model}"
    length = {} if request.dimensions is None else {"outputDimensionality": request.dimensions}
    return {"requests": [{"model": model, "content": {"parts": [{"text": text}]}, **length} for text in inputs]}
