"""What the entries of a run's journal say of its calls, as it is recorded.

Nothing here knows files: a recording that is being written and the record of a run are read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from treadle import EmbedRequest, EmbedResponse, JournalEntry, ModelRequest, ModelResponse, ReasoningPart, TextPart
from treadle.contracts.results import json_value
from treadle.messages import dump
from treadle_replay.provider import STOP_REASONS
from treadle_replay.request_hash import content_hash, hashed_content

__all__ = ["AbandonedCalls", "Calls", "ModelCall", "ToolCall", "add_providers"]

_CACHES = ("cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens")


@dataclass(frozen=True, slots=True, eq=False)
class ModelCall:
    """A call that a model has answered. ``entry`` is made when it is asked for: it takes long for a long history.

    :param providers: whom the step has asked, by the names that they have in the deployment, and for which model.
    """

    key: str
    request: ModelRequest | EmbedRequest
    response: ModelResponse | EmbedResponse
    latency_ms: float
    providers: Mapping[str, str]

    def entry(self) -> dict[str, Any]:
        """What is recorded of it, with the whole request."""
        content = hashed_content(self.request)
        response = self.response
        usage = response.usage
        entry: dict[str, Any] = {
            "model": response.model,
            "provider": response.provider,
            "cost_usd": response.cost_usd,
            "latency_ms": round(self.latency_ms, 1),
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
                **{name: count for name in _CACHES if (count := getattr(usage, name)) != 0},
            },
            "request": content,
            "request_hash": content_hash(content),
        }
        if isinstance(response, EmbedResponse):
            return entry | {"embeddings": [list(vector) for vector in response.vectors]}
        return entry | _reply(response)


@dataclass(frozen=True, slots=True, eq=False)
class ToolCall:
    """A call of a tool that a model asked for, in a step, and its result or error.

    :param place: its place among all: those of one reply end in any order.
    """

    place: tuple[int, int, int]
    step: str
    call_id: str
    name: str
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any]

    def entry(self) -> dict[str, Any]:
        """What is recorded of it."""
        answer = {name: self.answer[name] for name in ("result", "error", "error_type") if name in self.answer}
        shown: dict[str, Any] = json_value(
            {"call_id": self.call_id, "name": self.name, "arguments": self.arguments, **answer}
        )
        return shown


@dataclass(frozen=True, slots=True, eq=False)
class AbandonedCalls:
    """Calls of an attempt that another call, which got no answer, brought to its end. They lead nowhere when they are
    played, as the attempt after them begins anew."""

    calls: tuple[ModelCall, ...]


@dataclass(slots=True)
class _Attempt:
    """What an attempt of a step has done so far."""

    answered: list[ModelCall] = field(default_factory=list)
    unanswered: dict[tuple[str, int], Any] = field(default_factory=dict)
    asked_for: set[str] = field(default_factory=set)
    providers: dict[str, str] = field(default_factory=dict)


class Calls:
    """Takes the entries of runs, in order, and gives what has come to its end."""

    def __init__(self, *, tools: bool) -> None:
        self._tools = tools
        self._started: dict[tuple[str, str, str, int], JournalEntry] = {}
        self._attempts: dict[tuple[str, str], _Attempt] = {}
        self._runs: dict[str, int] = {}
        self._seen = 0

    def add(self, entry: JournalEntry) -> Iterator[ModelCall | ToolCall | AbandonedCalls]:
        """What the entry brings to its end; must be iterated."""
        kind, _, event = entry.kind.rpartition("_")
        if entry.kind == "step_started":
            yield from self._begin(entry)
        elif kind.endswith("_call"):
            attempt = self._attempts.setdefault((entry.run_id, entry.step), _Attempt())
            call = (entry.run_id, entry.step, kind, entry.ordinal)
            if event == "started":
                self._started[call] = entry
                attempt.unanswered[kind, entry.ordinal] = entry.data.get("asked", entry.data.get("request"))
                if kind == "model_call":
                    attempt.providers[entry.data["provider"]] = entry.data["request"].model
            elif call in self._started:
                yield from self._end(self._started.pop(call), entry, attempt, kind)
        elif entry.kind == "run_finished" and not entry.step:
            self._forget(entry.run_id)

    def _begin(self, entry: JournalEntry) -> Iterator[AbandonedCalls]:
        """A new attempt: what the one before it, and the child runs of that, did is looked at once more."""
        below = [
            key
            for key in self._attempts
            if key[0] == entry.run_id and (key[1] == entry.step or key[1].startswith(f"{entry.step}."))
        ]
        attempts = [self._attempts.pop(key) for key in below]
        calls = tuple(call for each in attempts for call in each.answered)
        if calls and any(each.unanswered for each in attempts):
            yield AbandonedCalls(calls)

    def _end(
        self, started: JournalEntry, ended: JournalEntry, attempt: _Attempt, kind: str
    ) -> Iterator[ModelCall | ToolCall]:
        number = kind, ended.ordinal
        if kind == "tool_call":
            attempt.unanswered.pop(number, None)
            if self._tools and started.data["tool_name"] in attempt.asked_for:
                if ended.run_id not in self._runs:
                    self._seen += 1
                    self._runs[ended.run_id] = self._seen
                place = (self._runs[ended.run_id], ended.attempt, ended.ordinal)
                asked = started.data
                yield ToolCall(place, ended.step, asked["call_id"], asked["tool_name"], asked["arguments"], ended.data)
            return
        response = ended.data.get("response")
        if response is None:
            return  # another provider may be asked next
        asked = attempt.unanswered.pop(number)
        attempt.unanswered = {key: each for key, each in attempt.unanswered.items() if each is None or each != asked}
        if isinstance(response, ModelResponse):
            attempt.asked_for.update(call.tool_name for call in response.message.tool_calls)
        latency = max(0.0, ended.at - started.at) * 1000
        call = ModelCall(asked.key or ended.step, asked, response, latency, dict(attempt.providers))
        attempt.answered.append(call)
        yield call

    def _forget(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        for call in [call for call in self._started if call[0] == run_id]:
            del self._started[call]
        for key in [key for key in self._attempts if key[0] == run_id]:
            del self._attempts[key]


def add_providers(data: dict[str, Any], call: ModelCall) -> None:
    """Note in a recording whom the call asked, each with the models asked for, in order."""
    known = data.setdefault("_providers", {})
    for name, model in call.providers.items():
        known[name] = list(dict.fromkeys((*known.get(name, ()), model)))


def _reply(response: ModelResponse) -> dict[str, Any]:
    message = response.message
    entry: dict[str, Any] = {"finish_reason": response.finish_reason}
    if message.text or not message.tool_calls:
        entry["content"] = message.text
    if message.tool_calls:
        entry["tool_calls"] = [
            {
                "id": call.call_id,
                "name": call.tool_name,
                "arguments": call.raw_arguments if call.arguments is None else dump(call)["arguments"],
            }
            for call in message.tool_calls
        ]
    usual = response.finish_reason or ("tool_calls" if message.tool_calls else "stop")
    if STOP_REASONS.get(usual.lower()) is not response.stop_reason:
        entry["stop_reason"] = str(response.stop_reason)
    texts = [part for part in message.parts if isinstance(part, TextPart)]
    plain = [*([TextPart(text=message.text)] if message.text else []), *(call for call in message.tool_calls)]
    if list(message.parts) != plain or len(texts) > 1 or any(call.provider_data for call in message.tool_calls):
        entry["parts"] = [_part(part) for part in message.parts]
    return entry


def _part(part: Any) -> dict[str, Any]:
    """A part as JSON. What a model thought is not recorded where it can be read; its opaque blocks are."""
    data: dict[str, Any] = dump(part)
    if isinstance(part, ReasoningPart):
        return data | {"text": "", "provider_data": _opaque(data["provider_data"], part.text)}
    return data


def _opaque(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return {key: _opaque(inner, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [_opaque(inner, text) for inner in value]
    if isinstance(value, str) and (value == text or any(each.isspace() for each in value)):
        return ""
    return value
