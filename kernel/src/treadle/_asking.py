"""Questions that paused steps ask, and their answers.

Each question has a gate, by which it is answered: the dotted path of its step, or ``path:name`` where the step asks
several. An answer belongs to what was asked: a step that asks something else is not answered by it.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from treadle._dataclasses import dataclass
from treadle._suggest import did_you_mean
from treadle.contracts.results import Pending, StepResult, StepStatus, json_value
from treadle.errors import ConfigurationError
from treadle.redaction import Redactor, has_placeholder, without_hashes

if TYPE_CHECKING:
    from treadle.contracts.step import Step

__all__ = ["NOTHING_ASKED", "Asked", "Gates", "Questions"]


@dataclass(slots=True)
class Asked:
    """A question that was asked in an attempt. ``expired`` where nobody answered in time."""

    pending: Pending
    attempt: int
    answer: str | None = None
    expired: bool = False


class Questions:
    """Those of one step, over its attempts."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: list[Asked] = []

    def find(self, pending: Pending, attempt: int, redactor: Redactor) -> Asked | None:
        """The same question, as it was asked before.

        Hashes of what was redacted differ from process to process. Within an attempt the calls before a question are
        answered from the record, so that it is the same one without them; in another attempt nobody could tell.
        """
        text = _text(redactor.asked(pending) if redactor.is_active else pending)
        for asked in reversed(self._all):
            recorded = _text(asked.pending)
            if pending.name and pending.name != asked.pending.name:
                continue
            if recorded == text or (asked.attempt == attempt and without_hashes(recorded) == without_hashes(text)):
                return asked
        return None

    def ask(self, step: Step, given: Sequence[Any], attempt: int, redactor: Redactor) -> tuple[Pending, ...]:
        """What a step waits for, with its name and its deadline: those of the first time where it was asked before.

        :raises TypeError: one of them is no ``Pending``.
        """
        for each in given:
            if not isinstance(each, Pending):
                kind = type(each).__name__
                raise TypeError(f"what a step of type '{step.type}' waits for must be Pending, not {kind}")
        before = [self.find(each, attempt, redactor) for each in given]
        taken = {asked.pending.name for asked in before if asked is not None}
        made = []
        for each, asked in zip(given, before, strict=True):
            if asked is not None:
                name, deadline = asked.pending.name, asked.pending.deadline
            else:
                name = _free(each.name, taken) if each.is_gate else each.name
                deadline = None if each.timeout is None else time.time() + each.timeout
            taken.add(name)
            made.append(replace(each, step_id=step.id, name=name, deadline=deadline))
        return tuple(made)

    def note(self, path: str, result: StepResult, attempt: int) -> list[Asked]:
        """Keep what a paused step asked itself; what its child runs asked is theirs."""
        found = []
        for each in result.pending:
            if not each.is_gate or not (path == each.step_id or path.endswith(f".{each.step_id}")):
                continue
            known = (asked for asked in self._all if asked.attempt == attempt and asked.pending.name == each.name)
            asked = next((one for one in known if _same(one.pending, each)), None)
            if asked is None:
                asked = Asked(each, attempt)
                self._all.append(asked)
            found.append(asked)
        return found


NOTHING_ASKED = Questions()
"""Of a step that no earlier process has begun."""


@dataclass(slots=True)
class Gates:
    """Every question of a run that its record tells of.

    :ivar answered: answers that are new, by gate, and are to be recorded.
    :ivar expired: gates whose time is over, with the answer that they then have; to be recorded too.
    """

    run_id: str
    answered: dict[str, str] = field(default_factory=dict)
    expired: dict[str, str] = field(default_factory=dict)
    _steps: dict[str, Questions] = field(default_factory=dict)
    _waiting: dict[str, list[Asked]] = field(default_factory=dict)
    _known: dict[str, Asked] = field(default_factory=dict)

    def of(self, path: str) -> Questions:
        """The questions of a step."""
        return self._steps.setdefault(path, Questions())

    @property
    def waiting(self) -> Mapping[str, Pending]:
        """What has not been answered, by gate, in the order of asking."""
        return {gate: asked.pending for gate, asked in self._of_paused() if asked.answer is None}

    @property
    def known(self) -> Mapping[str, Asked]:
        """Every question, by gate; the latest, where a gate asked several one after the other."""
        return self._known

    @property
    def has_answers(self) -> bool:
        """Whether a paused step could go on."""
        return any(asked.answer is not None for _, asked in self._of_paused())

    def _of_paused(self) -> Iterator[tuple[str, Asked]]:
        for path, all_asked in self._waiting.items():
            for asked in all_asked:
                yield _gate(path, asked.pending), asked

    # --- from the record ---

    def note(self, path: str, result: StepResult, attempt: int) -> None:
        """A step has ended, or pauses."""
        self._waiting.pop(path, None)
        if result.status is StepStatus.PAUSED:
            self._waiting[path] = self.of(path).note(path, result, attempt)
            self._known.update((_gate(path, asked.pending), asked) for asked in self._waiting[path])

    def begin(self, path: str) -> None:
        """A new attempt of a step has begun."""
        self._waiting.pop(path, None)

    def forget(self, paths: Iterable[str]) -> None:
        """Steps of child runs that a new attempt runs anew, and that ask anew."""
        for path in paths:
            self._steps.pop(path, None)
            self._waiting.pop(path, None)

    def recall(self, data: Mapping[str, Mapping[str, str]]) -> None:
        """Answers that were recorded. Of two to one gate the first counts; one that was redacted is none."""
        for name in ("answers", "expired"):
            for gate, value in data[name].items():
                asked = self._known.get(gate)
                if asked is not None and asked.answer is None and not has_placeholder(value):
                    asked.answer, asked.expired = value, name == "expired"

    # --- new answers ---

    def expire(self, now: float) -> None:
        """Answer what nobody has answered in time. ``now`` is in seconds since 1970."""
        for gate, asked in self._of_paused():
            deadline, default = asked.pending.deadline, asked.pending.default
            if asked.answer is None and deadline is not None and default is not None and deadline <= now:
                asked.answer, asked.expired = default, True
                self.expired[gate] = default

    def answer(self, answers: Mapping[str, str]) -> None:
        """Answer gates; an empty name is the only one that waits.

        :raises ConfigurationError: there is no such gate, it has been answered, or that is none of its answers.
        """
        checked: dict[str, str] = {}
        for name, value in answers.items():
            gate = self.find(name)
            pending = self.waiting[gate]
            if pending.choices and value not in pending.choices:
                raise ConfigurationError(
                    f"run {self.run_id}: gate '{gate}' is answered with one of {', '.join(pending.choices)}; "
                    f"not {value!r}"
                )
            if checked.setdefault(gate, value) != value:
                raise ConfigurationError(f"run {self.run_id}: gate '{gate}' is answered twice")
        for gate, value in checked.items():
            self._known[gate].answer = value
            self.answered[gate] = value

    def find(self, name: str) -> str:
        """The gate of that name that waits; with an empty name, the only one that does.

        :raises ConfigurationError: there is none, or there are several.
        """
        waiting = self.waiting
        if name in waiting:
            return name
        asked = self._known.get(name)
        if asked is not None and asked.answer is not None:
            why = "nobody answered in time, and the answer is" if asked.expired else "it has been answered"
            raise ConfigurationError(f"run {self.run_id}: gate '{name}': {why} '{asked.answer}'")
        if not waiting:
            over = "; its time was over, and treadle resume goes on with the default" if self.expired else ""
            raise ConfigurationError(f"run {self.run_id} waits for no answer{over}", hint=f"treadle show {self.run_id}")
        if name:
            raise ConfigurationError(f"run {self.run_id} has no gate '{name}'", hint=did_you_mean(name, waiting))
        if len(waiting) > 1:
            raise ConfigurationError(
                f"run {self.run_id} waits at several gates: {', '.join(waiting)}", hint="say which one is answered"
            )
        return next(iter(waiting))


def _free(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" if name else str(number) for number in itertools.count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _gate(path: str, pending: Pending) -> str:
    return replace(pending, step_id=path).gate


def _same(one: Pending, other: Pending) -> bool:
    return without_hashes(_text(one)) == without_hashes(_text(other))


def _text(pending: Pending) -> str:
    """What makes a question the one it is."""
    parts = [pending.question, list(pending.choices), pending.tool_name, json_value(pending.details)]
    return json.dumps(parts, sort_keys=True, default=str)
