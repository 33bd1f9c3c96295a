"""The replies a mock gives: their file format, and the order in which they are played.

A file is a JSON object. Keys that begin with ``_`` are metadata, ``_version`` among them. Any other key is what
:attr:`treadle.messages.ModelRequest.key` says (a step's id, ``<step>::summarize``), or a request's hash. Its value is

* a text, which is the reply;
* an object with the fields of :class:`RecordedReply`;
* a list of these, played in order; past its end the last one is given again and again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from treadle import ConfigurationError

__all__ = [
    "FORMAT_VERSION",
    "RecordedCall",
    "RecordedReply",
    "RecordedUsage",
    "Responses",
    "parse_responses",
    "read_responses",
]

FORMAT_VERSION = 2


class _Recorded(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class RecordedUsage(_Recorded):
    """Tokens of a reply. A count that is left out is 0: nothing was spent on a written reply.

    ``total_tokens`` is accepted, as recordings carry it, and not used.
    """

    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    reasoning_tokens: int = Field(default=0, ge=0)
    total_tokens: int | None = Field(default=None, ge=0)

    @field_validator("prompt_tokens", "completion_tokens", "reasoning_tokens", mode="before")
    @classmethod
    def _null_is_left_out(cls, value: object) -> object:
        return 0 if value is None else value


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
    :param provider: who answered when it was recorded. For the reader only.
    :param usage: tokens; all zero without it.
    :param cost_usd: US dollars; 0 without it.
    :param latency_ms: how long it took, for the latency model ``replay``.
    :param finish_reason: why the model stopped, in any vendor's word; follows from the content without it.
    :param request_hash: of the request that was recorded, see :func:`treadle_replay.request_hash.request_hash`.
    :param embeddings: one vector for each input, for a call that asks for embeddings.
    """

    content: Any = None
    model: str | None = None
    provider: str | None = None
    usage: RecordedUsage | None = None
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    latency_ms: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    finish_reason: str | None = None
    tool_calls: list[RecordedCall] | None = None
    request_hash: str | None = None
    embeddings: list[list[float]] | None = None

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


class Responses:
    """Replies by key, each key with its own place in its list. Belongs to one provider."""

    def __init__(self, replies: Mapping[str, tuple[RecordedReply, ...]]) -> None:
        self._replies = replies
        self._played: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._replies)

    def next(self, key: str) -> RecordedReply | None:
        """The key's next reply, or None where the key is not there."""
        replies = self._replies.get(key)
        if replies is None:
            return None
        played = self._played.get(key, 0)
        self._played[key] = played + 1
        return replies[min(played, len(replies) - 1)]

    def near(self, key: str) -> list[str]:
        """Up to five keys that may have been meant; the first ones there are, where none looks alike."""
        keys = list(self._replies)
        return get_close_matches(key, keys, n=5, cutoff=0.5) or keys[:5]


def read_responses(path: Path) -> dict[str, tuple[RecordedReply, ...]]:
    """The replies of a file. Blocks while it reads.

    :raises ConfigurationError: it cannot be read, is not JSON (with line and column) or not of the format.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        data = json.loads(text, object_pairs_hook=lambda pairs: _without_duplicates(pairs, path))
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: nested too deeply") from error
    return parse_responses(data, source=str(path))


def parse_responses(data: object, *, source: str) -> dict[str, tuple[RecordedReply, ...]]:
    """The replies in ``data``, which is a file's content or the same written in place.

    :param source: what error messages call it.
    :raises ConfigurationError: naming the key and the field of everything that is wrong, one to a line.
    """
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{source}: must be a JSON object of replies by step id, not {_kind(data)}")
    _check_version(data, source)
    replies: dict[str, tuple[RecordedReply, ...]] = {}
    problems: list[str] = []
    for key, value in data.items():
        if not isinstance(key, str):
            problems.append(f"{source}: key {key!r}: must be a text")
        elif not key.startswith("_"):
            replies[key] = tuple(_replies_of(f"{source}: key '{key}'", value, problems))
    if problems:
        raise ConfigurationError("\n".join(problems))
    return replies


def _check_version(data: Mapping[Any, Any], source: str) -> None:
    if "_version" not in data:
        return
    version = data["_version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < FORMAT_VERSION:
        raise ConfigurationError(
            f"{source}: _version is {json.dumps(version, default=str)}, and only {FORMAT_VERSION} can be read",
            hint="record it again",
        )
    if version > FORMAT_VERSION:
        raise ConfigurationError(
            f"{source}: _version is {version}, newer than the {FORMAT_VERSION} that can be read",
            hint="upgrade treadle-replay",
        )


def _replies_of(place: str, value: object, problems: list[str]) -> Sequence[RecordedReply]:
    if not isinstance(value, list | tuple):
        return _reply(place, value, problems)
    if not value:
        problems.append(f"{place}: an empty list holds no reply")
    return [reply for index, item in enumerate(value) for reply in _reply(f"{place}[{index}]", item, problems)]


def _reply(place: str, value: object, problems: list[str]) -> Sequence[RecordedReply]:
    """One reply, or none and what is wrong with it added to ``problems``."""
    if isinstance(value, str):
        return [RecordedReply(content=value)]
    if not isinstance(value, Mapping):
        problems.append(f"{place}: must be a text, an object or a list of them, not {_kind(value)}")
        return []
    try:
        return [RecordedReply.model_validate(dict(value))]
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
        near = get_close_matches(str(loc[-1]), list(model.model_fields), n=1)
        return f"{place}: unknown field '{field}'" + (f"; did you mean '{near[0]}'?" if near else "")
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
