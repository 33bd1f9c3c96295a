"""The replies a mock gives: the form of their file, which is that of recordings too.

A file is a JSON object. Keys that begin with ``_`` are metadata, ``_version`` among them. Any other key is what
:attr:`treadle.messages.ModelRequest.key` says (a step's id, dotted in child workflows, ``<step>::summarize``), or a
request's hash. Its value is

* a text, which is the reply;
* an object with the fields of :class:`RecordedReply`;
* a list of these, played in order; past its end the last one is given again and again.

Files of version 2 are those of AgentLoom, and those written by hand. Our own recordings have ``"_format": "treadle"``
and version 3: they hold the request of each reply too, and under ``_tools`` what tools gave. See ``docs/replay.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from treadle import ConfigurationError, StopReason, close_match

__all__ = [
    "AGENTLOOM_VERSION",
    "FORMAT",
    "FORMAT_VERSION",
    "RecordedCall",
    "RecordedReply",
    "RecordedTool",
    "RecordedUsage",
    "Recording",
    "parse_recording",
    "read_json",
    "read_recording",
    "whole_requests",
]

FORMAT = "treadle"
FORMAT_VERSION = 3
"""Of our recordings; higher than AgentLoom's, so that no number means two forms."""
AGENTLOOM_VERSION = 2
_AGAIN = "record it again: treadle run FILE --record RECORDING"


class _Recorded(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class RecordedUsage(_Recorded):
    """Tokens of a reply. A count that is left out is 0: nothing was spent on a written reply. In our recordings null
    is one that the provider did not tell.

    ``total_tokens`` is accepted, as recordings carry it, and not used.
    """

    prompt_tokens: int | None = Field(default=0, ge=0)
    completion_tokens: int | None = Field(default=0, ge=0)
    reasoning_tokens: int | None = Field(default=0, ge=0)
    cache_read_tokens: int | None = Field(default=0, ge=0)
    cache_write_tokens: int | None = Field(default=0, ge=0)
    cache_write_1h_tokens: int | None = Field(default=0, ge=0)
    total_tokens: int | None = Field(default=None, ge=0)

    @field_validator("prompt_tokens", "completion_tokens", "reasoning_tokens", mode="before")
    @classmethod
    def _null_is_left_out(cls, value: object, info: ValidationInfo) -> object:
        return 0 if value is None and not info.context else value


class RecordedCall(_Recorded):
    """A tool call of a reply. ``arguments`` is an object, or the JSON text that the model wrote, good or bad."""

    id: str
    name: str
    arguments: Any = Field(default_factory=dict)

    @field_validator("arguments")
    @classmethod
    def _object_or_text(cls, value: object) -> object:
        if not isinstance(value, str | Mapping):
            raise ValueError("must be an object, or its JSON text")
        return value


class RecordedReply(_Recorded):
    """One reply.

    :param content: the text; an object or a list stands for its JSON text.
    :param model: the model that answered; the one asked for without it.
    :param provider: who answered when it was recorded; the result of a run names it.
    :param usage: tokens; all zero without it.
    :param cost_usd: US dollars; 0 without it, and in our recordings null where no price was known.
    :param latency_ms: how long it took, for the latency model ``replay``.
    :param finish_reason: why the model stopped, in any vendor's word; follows from the content without it.
    :param stop_reason: the same in our words, where it does not follow from the finish reason.
    :param request: what was asked, in the form of :func:`treadle_replay.request_hash.hashed_content`. In a file the
        messages that the request before it in the list had as well are left out: ``more_messages`` are those after.
    :param request_hash: of the request that was recorded, see :func:`treadle_replay.request_hash.request_hash`.
    :param parts: the parts of the message where text and tool calls are not all of it.
    :param abandoned: whether it belongs to an attempt that a call without an answer ended. It is kept and not played.
    :param embeddings: one vector for each input, for a call that asks for embeddings.
    """

    content: Any = None
    model: str | None = None
    provider: str | None = None
    usage: RecordedUsage | None = None
    cost_usd: float | None = Field(default=0.0, ge=0, allow_inf_nan=False)
    latency_ms: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    finish_reason: str | None = None
    tool_calls: list[RecordedCall] | None = None
    stop_reason: StopReason | None = None
    request: Mapping[str, Any] | None = None
    request_hash: str | None = None
    parts: list[Mapping[str, Any]] | None = None
    abandoned: bool = False
    embeddings: list[list[float]] | None = None

    @field_validator("cost_usd", mode="before")
    @classmethod
    def _null_is_nothing(cls, value: object, info: ValidationInfo) -> object:
        return 0.0 if value is None and not info.context else value

    @field_validator("stop_reason", mode="before")
    @classmethod
    def _by_its_value(cls, value: object) -> object:
        return StopReason(value) if isinstance(value, str) else value

    @field_validator("content")
    @classmethod
    def _text_or_json(cls, value: object) -> object:
        if value is not None and not isinstance(value, str | Mapping | list | tuple):
            raise ValueError("must be a text, an object or a list")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> RecordedReply:
        if self.content is None and not self.tool_calls and self.embeddings is None:
            raise ValueError("needs content, tool_calls or embeddings")
        return self

    @property
    def text(self) -> str:
        """The reply's text."""
        if self.content is None:
            return ""
        return self.content if isinstance(self.content, str) else json.dumps(self.content, ensure_ascii=False)

    @property
    def is_embedding(self) -> bool:
        """Whether it answers a call for embeddings and nothing else."""
        return self.embeddings is not None and self.content is None and not self.tool_calls


class RecordedTool(_Recorded):
    """What a tool gave, or the error it raised and the class of that. ``call_id`` tells calls of one reply apart."""

    call_id: str = ""
    name: str
    arguments: Any
    result: Any = None
    error: str | None = None
    error_type: str | None = None


class Recording(_Recorded):
    """A file of replies.

    :param providers: whom its run asked, and for which models.
    :param is_ours: whether it is a recording of Treadle's own.
    :param has_tools: whether results of tools were recorded too.
    """

    replies: Mapping[str, tuple[RecordedReply, ...]]
    tools: Mapping[str, tuple[RecordedTool, ...]] = Field(default_factory=dict)
    providers: Mapping[str, list[str]] = Field(default_factory=dict)
    is_ours: bool = False
    has_tools: bool = False


def read_recording(path: Path) -> Recording:
    """The replies of a file. Blocks while it reads.

    :raises ConfigurationError: it cannot be read, is not JSON (with line and column) or not of the format.
    """
    return parse_recording(read_json(path), source=str(path))


def read_json(path: Path) -> Any:
    """What a file of JSON holds.

    :raises ConfigurationError: it cannot be read, or is not JSON (with line and column).
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _without_duplicates(pairs, path))
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: nested too deeply") from error


def parse_recording(data: object, *, source: str) -> Recording:
    """The replies in ``data``, which is a file's content or the same written in place.

    :param source: what error messages call it.
    :raises ConfigurationError: naming the key and the field of everything that is wrong, one to a line.
    """
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{source}: must be a JSON object of replies by step id, not {_kind(data)}")
    is_ours = _check_version(data, source)
    replies: dict[str, tuple[RecordedReply, ...]] = {}
    problems: list[str] = []
    for key, value in data.items():
        if not isinstance(key, str):
            problems.append(f"{source}: key {key!r}: must be a text")
        elif not key.startswith("_"):
            replies[key] = tuple(_replies_of(f"{source}: key '{key}'", value, problems, is_ours=is_ours))
    tools = _tools_of(f"{source}: _tools", data.get("_tools", {}), problems) if is_ours else {}
    if problems:
        raise ConfigurationError("\n".join(problems))
    providers = data.get("_providers", {}) if is_ours else {}
    has_tools = is_ours and "_tools" in data
    return Recording(replies=replies, tools=tools, providers=providers, is_ours=is_ours, has_tools=has_tools)


def whole_requests(entries: Sequence[Any]) -> Iterator[Mapping[str, Any] | None]:
    """The request of each entry in a list of a file, with the messages that are left out in it.

    :raises ValueError: the entry before one that leaves messages out has none.
    """
    before: Mapping[str, Any] | None = None
    for entry in entries:
        request = entry.get("request") if isinstance(entry, Mapping) else None
        if isinstance(request, Mapping) and "more_messages" in request:
            if before is None or not isinstance(request["more_messages"], list):
                raise ValueError("'more_messages' goes on from the request of the entry before it, and there is none")
            rest = {key: value for key, value in request.items() if key != "more_messages"}
            request = {**before, **rest, "messages": [*before.get("messages", ()), *request["more_messages"]]}
        before = request if isinstance(request, Mapping) else None
        yield request


def _check_version(data: Mapping[Any, Any], source: str) -> bool:
    """Whether it is a recording of ours."""
    is_ours = data.get("_format") == FORMAT
    if "_format" in data and not is_ours:
        raise ConfigurationError(f"{source}: _format is {json.dumps(data['_format'], default=str)}, not '{FORMAT}'")
    newest = FORMAT_VERSION if is_ours else AGENTLOOM_VERSION
    version = data.get("_version", newest)
    if not isinstance(version, int) or isinstance(version, bool) or version < newest:
        raise ConfigurationError(
            f"{source}: _version is {json.dumps(version, default=str)}, and only {newest} can be read", hint=_AGAIN
        )
    if version > newest:
        raise ConfigurationError(
            f"{source}: _version is {version}, newer than the {newest} that can be read",
            hint="upgrade treadle-replay",
        )
    return is_ours


def _tools_of(place: str, value: object, problems: list[str]) -> dict[str, tuple[RecordedTool, ...]]:
    if not isinstance(value, Mapping):
        problems.append(f"{place}: must be an object of lists by step id, not {_kind(value)}")
        return {}
    found = {}
    for step, items in value.items():
        try:
            found[step] = tuple(RecordedTool.model_validate(dict(each)) for each in items)
        except (ValidationError, TypeError, ValueError):
            problems.append(f"{place}: key '{step}': must be a list of name, arguments and result or error")
    return found


def _replies_of(place: str, value: object, problems: list[str], *, is_ours: bool) -> Sequence[RecordedReply]:
    items = value if isinstance(value, list | tuple) else (value,)
    if not items:
        problems.append(f"{place}: an empty list holds no reply")
    try:
        requests = list(whole_requests(items))
    except ValueError as error:
        problems.append(f"{place}: {error}")
        return []
    found: list[RecordedReply] = []
    for index, (item, request) in enumerate(zip(items, requests, strict=True)):
        if request is not None:
            item = {**item, "request": request}
        found += _reply(f"{place}[{index}]" if items is value else place, item, problems, is_ours=is_ours)
    return found


def _reply(place: str, value: object, problems: list[str], *, is_ours: bool) -> Sequence[RecordedReply]:
    """One reply, or none and what is wrong with it added to ``problems``."""
    if isinstance(value, str):
        return [RecordedReply(content=value)]
    if not isinstance(value, Mapping):
        problems.append(f"{place}: must be a text, an object or a list of them, not {_kind(value)}")
        return []
    try:
        return [RecordedReply.model_validate(dict(value), context=is_ours)]
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        problems.extend(_problem(place, detail["loc"], detail["type"], detail["msg"]) for detail in details)
        return []


def _problem(place: str, loc: tuple[int | str, ...], kind: str, text: str) -> str:
    field = ".".join(str(part) for part in loc)
    text = text.removeprefix("Value error, ")
    if kind == "extra_forbidden":
        inner: dict[str, type[_Recorded]] = {"usage": RecordedUsage, "tool_calls": RecordedCall}
        model = inner.get(str(loc[0]), RecordedReply) if len(loc) > 1 else RecordedReply
        near = close_match(str(loc[-1]), model.model_fields)
        return f"{place}: unknown field '{field}'" + (f"; did you mean '{near}'?" if near else "")
    return f"{place}: {field}: {text}" if field else f"{place}: {text}"


def _without_duplicates(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ConfigurationError(f"{path}: key '{key}' is given twice in one object")
        found[key] = value
    return found


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")
