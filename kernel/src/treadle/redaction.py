"""What may not leave a run: values of state keys that a deployment or a workflow names, and every secret.

A run itself sees real values. What it tells others - its result, its events, its record - goes through one
:class:`Redactor`, which puts ``<REDACTED:sha256=...>`` in their place: 16 digits of a salted hash, so that equal values
can be told to be equal and short ones cannot be guessed.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from fnmatch import translate
from functools import cache
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from treadle._texts import Texts
from treadle.contracts.events import ModelCallStarted, RunEvent, TextEmitted
from treadle.contracts.results import StepResult
from treadle.contracts.secrets import revealed_secrets
from treadle.contracts.step import StepOutcome
from treadle.messages import AssistantMessage, EmbedResponse, ModelResponse, SystemMessage, ToolMessage, UserMessage

__all__ = ["Redactor", "has_placeholder", "hide_secrets", "without_hashes"]

_SALT = secrets.token_hex(16)
_SHORTEST = 4
"""A shorter text is not looked for in others: it would be found everywhere."""
_STAND_INS = re.compile(
    "anything|dummy|empty|fake|local|lm-studio|no-key|none|not-needed|null|ollama|test", re.IGNORECASE
)
"""Nor are words that people write where a server wants a key and checks none."""
_PLACEHOLDER = re.compile(r"<REDACTED:sha256=[0-9a-f]{16}>")

_MESSAGES = (AssistantMessage, SystemMessage, ToolMessage, UserMessage)
_CLEAN_KEPT = 4096
_TEXTS = Texts({BaseModel: lambda model: (model.model_dump(mode="json"),)})
_NONE = object()

Path = tuple[str | int, ...]


class _Texts:
    """Texts to look for in others, the longest first, also as JSON and addresses write them."""

    def __init__(self, texts: Iterable[str], salt: str) -> None:
        self._hidden: dict[str, str] = {}
        for text in texts:
            if len(text) >= _SHORTEST and not _STAND_INS.fullmatch(text):
                written = (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], quote(text, safe=""))
                self._hidden |= dict.fromkeys((text, *written), _placeholder(text, salt))
        self.forms = sorted(self._hidden, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self.forms)))

    def hide(self, text: str) -> str:
        if not self.are_in(text):
            return text
        return self._pattern.sub(lambda found: self._hidden[found[0]], text)

    def are_in(self, text: str) -> bool:
        return any(map(text.__contains__, self.forms))

    def complete(self, text: str) -> int:
        """Up to where the text is settled: what follows may be the beginning of one of the texts."""
        longest = min(len(text), len(self.forms[0]) - 1) if self.forms else 0
        ends = (size for size in range(longest, 0, -1) if any(form.startswith(text[-size:]) for form in self.forms))
        end = len(text) - next(ends, 0)
        # What begins in the middle of another one goes with that.
        cut = (found.start() for found in self._pattern.finditer(text) if found.start() < end < found.end())
        return next(cut, end) if end < len(text) else end


@cache
def _secrets_now(count: int, salt: str) -> _Texts:
    return _Texts(revealed_secrets(), salt)


def hide_secrets(value: Any) -> Any:
    """The value without any secret that a reference has led to in this process; itself where there is none in it."""
    return Redactor().hide(value)


def has_placeholder(value: Any) -> bool:
    """Whether something in a JSON value has been replaced."""
    if isinstance(value, Mapping):
        return any(map(has_placeholder, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_placeholder, value))
    return isinstance(value, str) and _PLACEHOLDER.search(value) is not None


def without_hashes(text: str) -> str:
    """The text with what was replaced in it told apart no more, as hashes differ from process to process."""
    return _PLACEHOLDER.sub("<REDACTED>", text)


class Redactor:
    """Replaces what may not leave one run and its children.

    :param patterns: keys or dotted paths of the state, ``*`` and ``?`` allowed; see :meth:`add`.
    :param salt: of the hashes; one of this process without it.
    """

    def __init__(self, patterns: Iterable[str] = (), salt: str | None = None) -> None:
        self._salt = _SALT if salt is None else salt
        self._patterns: dict[str, None] = {}
        self._named: re.Pattern[str] | None = None
        self._noted: dict[str, None] = {}
        self._clean: dict[int, Any] = {}
        self._clean_of: _Texts | None = None
        self._asked_for: tuple[str, ...] = ()
        self._asked_texts = _Texts((), self._salt)
        self._concealed: set[str] = set()
        self._held: dict[str, TextEmitted] = {}
        self.add(patterns)

    def add(self, patterns: Iterable[str]) -> None:
        """Replace the values of these state keys too. A pattern is held against each key and each dotted path
        (``user.token``, ``users.0.token``), with upper and lower case told apart."""
        self._patterns |= dict.fromkeys(each.removeprefix("state.") for each in patterns if each)
        if self._patterns:
            self._named = re.compile("|".join(translate(each) for each in self._patterns))

    @property
    def is_active(self) -> bool:
        """Whether there is anything to replace."""
        return self._named is not None or bool(revealed_secrets())

    # --- by what a value is -------------------------------------------------------------------------------

    def hide(self, value: Any) -> Any:
        """Without secrets. What has none is given back itself; a pydantic instance that has one becomes a mapping."""
        count = len(revealed_secrets())
        return self._replaced(value, _secrets_now(count, self._salt)) if count else value

    def _replaced(self, value: Any, texts: _Texts) -> Any:
        if type(value) is str:
            return texts.hide(value)
        if self._clean_of is not texts or len(self._clean) > _CLEAN_KEPT:
            self._clean, self._clean_of = {}, texts
        # A tool loop sends the same messages again and again, and they do not change: each is looked into once.
        found = _TEXTS.of(value, self._clean, _MESSAGES)
        if texts.are_in("\0".join(found.texts)):
            return _replaced(value, texts)
        self._clean |= {id(each): each for each in found.watched}
        return value

    def asked(self, value: Any) -> Any:
        """What goes to a model or tool: without secrets, and without the values of named keys, which templates may
        have put anywhere in it."""
        if not self._noted:
            return self.hide(value)
        if len(self._asked_for) != len(revealed_secrets()) + len(self._noted):
            self._asked_for = (*revealed_secrets(), *self._noted)
            self._asked_texts = _Texts(self._asked_for, self._salt)
        return self._replaced(value, self._asked_texts)

    # --- by where a value stands --------------------------------------------------------------------------

    def names(self, path: Path) -> bool:
        """Whether the value at the path, or anything that it is in, is to be replaced."""
        return self._named is not None and any(self._is_named(path[:size]) for size in range(1, len(path) + 1))

    def _is_named(self, path: Path) -> bool:
        assert self._named is not None
        return any(self._named.match(text) for text in (str(path[-1]), ".".join(map(str, path))))

    def at(self, path: Path, value: Any) -> Any:
        """A value of the state, without what is named in it. What is replaced is noted, for :meth:`asked`."""
        if self._named is None:
            return value
        return self._struck(value) if self.names(path) else self._walked(path, value)

    def _walked(self, path: Path, value: Any) -> Any:
        def inside(key: str | int, inner: Any) -> Any:
            here = (*path, key)
            return self._struck(inner) if self._is_named(here) else self._walked(here, inner)

        return _mapped(value, inside)

    def _struck(self, value: Any) -> Any:
        """Every value in it replaced, the keys kept."""
        if value is None or (isinstance(value, str) and _PLACEHOLDER.fullmatch(value)):
            return value
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json")
        if isinstance(value, Mapping | list | tuple):
            return _mapped(value, lambda _, inner: self._struck(inner))
        if isinstance(value, str):
            self._noted[value] = None
        return _placeholder(str(value), self._salt)

    def state(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """A whole state without what is named, and without secrets."""
        return {name: self.hide(self.at((name,), value)) for name, value in values.items()}

    def result(self, step: str, output: Path | None, result: StepResult) -> StepResult:
        """A step's result; ``step`` is its dotted path and ``output`` where it writes to."""
        if self._named is not None:
            if self.conceals(step, output):
                reasoning = self._struck(result.reasoning_content)
                result = replace(result, output=self._struck(result.output), reasoning_content=reasoning)
            else:
                result = replace(result, output=self._walked(output or ("steps", step), result.output))
        if result.pending:  # questions are made of anything that the step reads
            result = replace(result, pending=self.asked(result.pending))
        hidden: StepResult = self.hide(result)
        return hidden

    def outcome(self, step: str, output: Path | None, outcome: StepOutcome) -> StepOutcome:
        """What a step gave back, as :meth:`result`."""
        if self._named is not None:
            whole, details = step in self._concealed, outcome.details
            place = output or ("steps", step)
            both = (outcome.value, outcome.shown)
            shown = [self._struck(each) if whole else self._walked(place, each) for each in both]
            if whole and "reasoning_content" in details:
                details = {**details, "reasoning_content": self._struck(details["reasoning_content"])}
            writes = {path: self.at(_parts(path), value) for path, value in outcome.writes.items()}
            outcome = replace(outcome, value=shown[0], raw=shown[1], writes=writes, details=details)
        hidden: StepOutcome = self.hide(outcome)
        return hidden

    def conceals(self, step: str, output: Path | None) -> bool:
        """Whether the step's output is named. Then what it hears from models and tools is not told either."""
        if self._named is None or step in self._concealed:
            return step in self._concealed
        if self._named.match(f"steps.{step}.output") or (output is not None and self.names(output)):
            self._concealed.add(step)
        return step in self._concealed

    # --- what leaves a run --------------------------------------------------------------------------------

    def entry(self, kind: str, step: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is recorded of a call. Results of steps have been through :meth:`result`."""
        if kind.endswith("call_started"):
            return {name: self.asked(value) for name, value in data.items()}
        if kind == "answered":
            data = dict(data) | {
                name: {gate: self._struck(one) if gate in self._concealed else one for gate, one in data[name].items()}
                for name in ("answers", "expired")
            }
        if step in self._concealed and kind.endswith("call_finished"):
            data = {
                name: value if name in ("call_id", "error") else self._unsaid(value) for name, value in data.items()
            }
        # A workflow is whole already: to walk through all its steps would cost what the run does not.
        return {name: value if name == "workflow" else self.hide(value) for name, value in data.items()}

    def _unsaid(self, value: Any) -> Any:
        """What a model or tool gave, where the step's output is named."""
        if isinstance(value, ModelResponse):
            return replace(value, message=AssistantMessage.of(str(self._struck(value.text))))
        return value if isinstance(value, EmbedResponse) else self._struck(value)

    def events(self, event: RunEvent) -> Iterator[RunEvent]:
        """The event as it may be told. The end of a piece of text is held back while it may begin a secret."""
        step = getattr(event, "step_id", None)
        concealed = step in self._concealed
        if isinstance(event, TextEmitted):
            if not concealed:
                yield from self._pieces(event)
            return
        held = self._held.pop(step, None) if step else None
        if held is not None:
            yield self.hide(held)
        if isinstance(event, ModelCallStarted):
            yield replace(event, request=self.asked(event.request))
        else:
            response = getattr(event, "response", None)
            shown = replace(event, response=self._unsaid(response)) if concealed and response else event
            yield self.hide(shown)

    def _pieces(self, event: TextEmitted) -> Iterator[TextEmitted]:
        held = self._held.pop(event.step_id, None)
        text = held.text + event.text if held else event.text
        count = len(revealed_secrets())
        end = _secrets_now(count, self._salt).complete(text) if count else len(text)
        if end < len(text):
            self._held[event.step_id] = replace(event, text=text[end:])
        if end:
            yield replace(event, text=self.hide(text[:end]))


def _replaced(value: Any, texts: _Texts) -> Any:
    if type(value) is str:
        return texts.hide(value)
    if isinstance(value, Mapping):
        made = {_replaced(key, texts): _replaced(inner, texts) for key, inner in value.items()}
        return value if all(made.get(key, _NONE) is inner for key, inner in value.items()) else made
    return _mapped(value, lambda _, inner: _replaced(inner, texts))


def _parts(path: str) -> Path:
    return tuple(part for part in re.split(r"[.\[\]]+", path.removeprefix("state.")) if part)


def _placeholder(text: str, salt: str) -> str:
    digest = hashlib.sha256(f"{salt}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"<REDACTED:sha256={digest[:16]}>"


def _mapped(value: Any, change: Any) -> Any:
    """The value with each item or field changed; itself where none is."""
    if isinstance(value, BaseModel):
        dumped = value.model_dump(mode="json")
        changed = _mapped(dumped, change)
        return value if changed is dumped else changed
    if isinstance(value, Mapping):
        made = {key: change(key, inner) for key, inner in value.items()}
        return value if all(made[key] is inner for key, inner in value.items()) else made
    if isinstance(value, list | tuple):
        items = [change(index, inner) for index, inner in enumerate(value)]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    if is_dataclass(value) and not isinstance(value, type):
        fresh = {each.name: change(each.name, getattr(value, each.name)) for each in fields(value) if each.init}
        changes = {name: new for name, new in fresh.items() if new is not getattr(value, name)}
        return replace(value, **changes) if changes else value
    return value
