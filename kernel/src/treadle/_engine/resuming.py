"""What an earlier process did of a run, so that another one goes on with it and repeats nothing.

The record is read once, in order, into what each step has come to. A step that succeeded is restored. One that was
under way goes on in the same attempt: its finished calls are answered from the record, each at most once, by what was
asked. A new attempt forgets the calls of the one before, but for what ``once`` tools did.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from treadle import errors
from treadle._asking import Gates
from treadle._dataclasses import dataclass
from treadle._document import Workflow, build_workflow
from treadle._engine.done_calls import DoneCalls
from treadle._engine.meter import Meter
from treadle._texts import Texts
from treadle.contracts.results import Pending, RunResult, RunStatus, StepResult, StepStatus
from treadle.contracts.step import StepOutcome
from treadle.contracts.tool import Tool
from treadle.errors import ConfigurationError, StepError, ToolError
from treadle.messages import EmbedResponse, ModelRequest, ModelResponse, Usage, dump
from treadle.redaction import Redactor, has_placeholder, without_hashes

if TYPE_CHECKING:
    from treadle._plugins import Host
    from treadle.contracts.journal import Journal, JournalEntry
    from treadle.contracts.provider import Provider

__all__ = ["Record", "RecordedCall", "StepRecord"]

_UNDER_WAY = (StepStatus.CANCELLED, StepStatus.PAUSED)
_ASSUMED = "done before the run was interrupted; its result is not known"


@dataclass(slots=True)
class RecordedCall:
    """A call of a model or tool, as its entry told it. ``answer`` is None where its outcome is unknown."""

    ordinal: int
    told: Mapping[str, Any]
    answer: Mapping[str, Any] | None = None
    used: bool = False

    @property
    def call_id(self) -> str:
        """Of a tool's call."""
        return str(self.told.get("call_id", ""))

    @property
    def asked(self) -> Any:
        """The request to a model; a tool's name and arguments. Made when it is asked for: of most it never is."""
        if "request" in self.told:
            return self.told["asked"] if "asked" in self.told else self.told["request"]
        return self.told["tool_name"], self.told["arguments"]

    def is_for(self, asked: Any, redactor: Redactor) -> bool:
        """Whether that was asked. Hashes of what was redacted differ from process to process and do not count."""
        if redactor.is_active:
            asked = redactor.asked(asked)
        if isinstance(asked, ModelRequest) and len(asked.messages) != len(getattr(self.asked, "messages", ())):
            return False
        return bool(self.asked == asked) or _text(self.asked) == _text(asked)

    @property
    def may_have_cost(self) -> bool:
        """Whether a model was asked, and not heard to the end."""
        return self.answer is None or self.answer.get("may_have_cost", False)

    def result(self) -> Any:
        """What the tool gave, or raise what it raised."""
        answer = self.answer or {}
        if "error" not in answer:
            return copy.deepcopy(answer["result"])
        text, kind = answer["error"], getattr(errors, answer.get("error_type", ""), None)
        if isinstance(kind, type) and issubclass(kind, StepError):
            raise kind(text)
        raise ToolError(f"tool '{self.asked[0]}' failed: {answer.get('error_type', 'Exception')}: {text}")


@dataclass(slots=True)
class StepRecord:
    """What one step has come to. ``spent`` is what attempts before the last one have cost."""

    attempt: int = 0
    result: StepResult | None = None
    outcome: StepOutcome = field(default_factory=StepOutcome)
    spent: Meter = field(default_factory=Meter)
    model_calls: list[RecordedCall] = field(default_factory=list)
    tool_calls: list[RecordedCall] = field(default_factory=list)
    once: list[RecordedCall] = field(default_factory=list)
    """Tool calls of earlier attempts that succeeded."""

    @property
    def is_done(self) -> bool:
        """Whether it succeeded."""
        return self.result is not None and self.result.status is StepStatus.SUCCESS

    @property
    def has_failed(self) -> bool:
        """Whether its last attempt has failed."""
        return self.result is not None and self.result.status in (StepStatus.FAILED, StepStatus.TIMEOUT)

    @property
    def is_under_way(self) -> bool:
        """Whether its last attempt has not come to an end."""
        return self.attempt > 0 and (self.result is None or self.result.status in _UNDER_WAY)

    def end_attempt(self, below: Iterable[StepRecord] = ()) -> None:
        """Keep of the last attempt what it cost and did, with what it ran below it."""
        for each in (self, *below):
            if each is not self:
                self.spent.add(each.spent.usage, each.spent.cost_usd)
            each.count(self.spent)
        self.once += [call for call in self.tool_calls if call.answer is not None and "error" not in call.answer]
        self.model_calls, self.tool_calls = [], []

    def done_calls(self, tool: Callable[[str], Tool]) -> DoneCalls:
        """What ``once`` tools did in attempts before."""
        done = DoneCalls()
        for call in self.once:
            if tool(call.asked[0]).effect_of(call.asked[1]) == "once":
                name, arguments = call.asked
                done.add(name, arguments, call.result())
        done.begin_attempt()
        return done

    def count(self, meter: Meter) -> None:
        """Add what the model calls of the last attempt have cost, whether or not they are ever asked for again."""
        for call in self.model_calls:
            if call.may_have_cost:
                meter.add(Usage(), call.told.get("known_usd"))
            elif "response" in (call.answer or {}):
                meter.add(call.answer["response"].usage, call.answer["response"].cost_usd)  # type: ignore[index]

    def next_ordinal(self, calls: Iterable[RecordedCall]) -> int:
        """The first number that is free."""
        return 1 + max((call.ordinal for call in calls), default=0)

    def recall(self, calls: list[RecordedCall], asked: Any, redactor: Redactor) -> RecordedCall | None:
        """The first answered call like this one, which is then used."""
        for call in calls:
            answered = call.answer is not None and ("response" in call.answer or calls is self.tool_calls)
            if answered and not call.used and call.is_for(asked, redactor):
                call.used = True
                return call
        return None

    def recall_response(self, asked: Any, redactor: Redactor) -> ModelResponse | EmbedResponse | None:
        """What a model answered to that request."""
        call = self.recall(self.model_calls, asked, redactor)
        return None if call is None or call.answer is None else call.answer["response"]

    def unknown(self, tool: Callable[[str], Tool]) -> Iterator[RecordedCall]:
        """Tool calls that may have had an effect and must not be made twice."""
        for call in self.tool_calls:
            if call.answer is None and tool(call.asked[0]).effect_of(call.asked[1]) in (None, "once"):
                yield call

    def questions(self, tool: Callable[[str], Tool]) -> tuple[Pending, ...]:
        """What somebody must say before the attempt can go on."""
        return tuple(
            Pending(
                question=f"the run was interrupted while tool '{call.asked[0]}' ran; did it have its effect?",
                choices=("done", "not-done"),
                call_id=call.call_id,
                tool_name=call.asked[0],
                details={"arguments": call.asked[1]},
            )
            for call in self.unknown(tool)
        )


class Record:
    """One run as its journal tells it, child runs included: their steps are under dotted paths."""

    def __init__(self, run_id: str, entries: Iterable[JournalEntry]) -> None:
        self.run_id = run_id
        self.facts: Mapping[str, Any] = {}
        """What was recorded as it began; ``tools`` are its own; journals on disk add ``folder`` and ``versions``."""
        self.workflow: Any
        self.state: dict[str, Any] = {}
        self.steps: dict[str, StepRecord] = {}
        self.result: RunResult | None = None
        self.elapsed = 0.0
        """Seconds that it has taken so far."""
        self.assumed: dict[str, str] = {}
        self.gates = Gates(run_id)
        """What paused steps wait for, and what was answered."""
        self.length = 0
        """How many entries were read."""
        self._children: dict[str, int] = {}
        self._runs_below: dict[str, dict[str, None]] = {}
        self._steps_below: dict[str, dict[str, None]] = {}
        self._tried_anew: set[str] = set()
        """Steps that had failed when another process went on, and whose child runs go on where they were."""
        self._spent: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = []
        self._unheard: dict[tuple[str, int, int], Mapping[str, Any]] = {}
        self._told: set[Provider] = set()
        self._last = 0.0
        for entry in entries:
            if entry.kind not in ("run_started", "run_resumed") or entry.step:
                self.elapsed += max(0.0, entry.at - self._last)
            self._last = entry.at
            self.length += 1
            self._add(entry)
        if not self.facts:
            raise ConfigurationError(
                f"there is no record of a run '{run_id}'", hint="`treadle runs` lists what is recorded here"
            )

    def spent(self, path: str) -> float:
        """US dollars that a step has cost with all below it, in all its attempts; the whole run under an empty path.

        A call that may have cost something, and of which nobody knows what, counts with what was reserved for it.
        """
        calls = [*self._spent, *((place, begun, begun) for (place, *_), begun in self._unheard.items())]
        return sum(_cost(*call) for place, *call in calls if not path or place == path or place.startswith(f"{path}."))

    def tell(self, provider: Provider) -> None:
        """Let a provider know, once, what it has answered. Requests are made as it reads them: most never do."""
        if provider not in self._told:
            self._told.add(provider)
            calls = (begun for _, end, begun in self._spent if "response" in end)
            provider.catch_up(each["request"] for each in calls if each.get("provider") == provider.name)

    @property
    def fixed(self) -> Collection[str]:
        """Keys of the state that a fork has set, over what the steps that it kept had written."""
        keys: Collection[str] = self.facts.get("forked", {}).get("set", ())
        return keys

    @property
    def is_timed_out(self) -> bool:
        """Whether the run ended because its time was over."""
        return self.result is not None and self.result.status is RunStatus.TIMEOUT

    @classmethod
    def of(
        cls,
        journal: Journal,
        run_id: str,
        *,
        given: Iterable[str] | None = (),
        assume: Mapping[str, str] | None = None,
        answers: Mapping[str, str] | None = None,
    ) -> Record:
        """The record of a run that is to be gone on with. Questions whose time is over have their default for answer.

        :param given: keys of the state that will be given; None where it is only to be answered.
        :param assume: of calls whose outcome is unknown, whether they had their effect; see :meth:`assume`.
        :param answers: to what paused steps wait for, by gate; an empty name is the only gate that waits.
        :raises ConfigurationError: there is no such run, it has succeeded, or something it needs is not given; or one
            of the answers is none.
        """
        record = cls(run_id, journal.entries(run_id))
        if record.result is not None and record.result.status is RunStatus.SUCCESS:
            raise ConfigurationError(f"run {run_id} has succeeded; there is nothing to resume")
        record.gates.expire(time.time())
        record.gates.answer(answers or {})
        missing = [] if given is None else record.redacted_keys(given)
        if missing:
            hint = "give each of them again, as -s key=value or in state="
            raise ConfigurationError(
                f"run {run_id} was recorded without the values of: {', '.join(missing)}", hint=hint
            )
        record.assume(assume or {})
        return record

    def checked_workflow(
        self, host: Host, *, config: Mapping[str, Any] | None = None, order: Any = None, accept_changes: bool = False
    ) -> Workflow:
        """The workflow that was run, as it was then.

        :param config: values that win over those that it was run with.
        :param order: as it was recorded, where it was checked by what is installed now; then it is not checked whole.
        :param accept_changes: whether its agents and child workflows, which are read again, may be others than then.
        :raises DocumentError: it has problems with what is installed now.
        :raises ConfigurationError: one of those files has changed.
        """
        if isinstance(self.workflow, Workflow):
            return self.workflow.with_config(**(config or {}))
        recorded, settings = self.workflow, {**self.workflow["overrides"], **(config or {})}
        how: dict[str, Any] = {"source": recorded.get("source"), "state_keys": self.state, "order": order}
        workflow = build_workflow(recorded["document"], host=host, config=settings, **how)
        then = {} if accept_changes else recorded.get("files", {})
        # As text: to Python 1 is true, and mappings of any order are equal, while prompts show both.
        now = workflow.files
        changed = [each for each in then if repr(now.get(each)) != repr(then[each]) and not has_placeholder(then[each])]
        if changed:
            hint = "treadle resume --accept-changes, or workflow= in Python, goes on with what is there now"
            raise ConfigurationError(f"{' and '.join(changed)} changed since run {self.run_id} began", hint=hint)
        return workflow

    def state_before(self, workflow: Workflow, step: str) -> dict[str, Any]:
        """The state as the step saw it: the run's own, and what the steps before it wrote.

        :raises ConfigurationError: the workflow has no such step.
        """
        from treadle._engine.forking import state_before

        return state_before(self, workflow, step)

    def fork(self, journal: Journal, workflow: Workflow, step: str, state: Mapping[str, Any] | None = None) -> Record:
        """The record of a new run, which begins at the step and keeps what does not come after it.

        :param workflow: the workflow to go on with; steps are known by their ids.
        :param state: whole values by key, which win over what the run had and what the kept steps wrote.
        :raises ConfigurationError: there is no such step, or a value that was redacted in the record is not given.
        """
        from treadle._engine.forking import fork

        return fork(journal, self, workflow, step, state or {})

    def redacted_keys(self, given: Iterable[str] = ()) -> list[str]:
        """The keys of the state whose values were not recorded and are not given."""
        values: list[tuple[str, Any]] = list(self.state.items())
        for path, step in self.steps.items():
            if step.is_done and step.result is not None and "." not in path:
                values += [(name.partition(".")[0], value) for name, value in step.outcome.writes.items()]
        known = set(given)
        return sorted({name for name, value in values if name not in known and has_placeholder(value)})

    def check_tools(self, known: Collection[str], workflow: Workflow | None = None, *, hint: str) -> None:
        """See that every tool of its own that the run had, and that its workflow names, is there to go on with.

        :param known: names of the tools that are registered now.
        :param workflow: another form of it to go on with.
        :param hint: how a tool is given.
        :raises ConfigurationError: one is missing.
        """
        whole = workflow or self.workflow
        read = (whole.data, whole.files) if isinstance(whole, Workflow) else (whole["document"], whole.get("files"))
        named = set(Texts().of(read).texts)
        for name in self.facts.get("tools", ()):
            if name in named and name not in known:
                raise ConfigurationError(f"this run had tool '{name}', which is not registered now", hint=hint)

    def assume(self, answers: Mapping[str, str]) -> None:
        """Say of calls whose outcome is unknown whether they had their effect: ``done`` or ``not-done``, by call id.

        :raises ConfigurationError: there is no such call, there are several, or it is neither answer.
        """
        for call_id, answer in answers.items():
            found = [
                (step, call)
                for path, step in self.steps.items()
                for call in step.tool_calls
                if call.answer is None and call_id in (call.call_id, f"{path}:{call.call_id}")
            ]
            if len(found) != 1 or answer not in ("done", "not-done"):
                what = f"{len(found) or 'no'} calls '{call_id}' of unknown outcome" if len(found) != 1 else repr(answer)
                raise ConfigurationError(
                    f"run {self.run_id} cannot assume {answer!r} of call '{call_id}': there is {what}",
                    hint="the paused step's result lists each such call; answer done or not-done, and write STEP:CALL "
                    "where several calls have one id",
                )
            step, call = found[0]
            if answer == "done":
                call.answer = {"result": _ASSUMED}
            else:
                step.tool_calls.remove(call)
            self.assumed[call_id] = answer

    def _add(self, entry: JournalEntry) -> None:
        data, path = entry.data, entry.step
        if entry.kind == "run_started" and not path:
            self.facts = data
            self.workflow, self.state = data["workflow"], dict(data["state"])
            self.steps, self._children, self.result = {}, {}, None
            self._runs_below, self._steps_below = {}, {}
            self._spent, self._unheard = [], {}
        elif entry.kind == "answered":
            self.gates.recall(data)
        elif entry.kind == "run_started":
            if self._children.get(path) != entry.attempt:
                self.forget_below(path)
            self._children[path] = entry.attempt
            for outer in (path, *_outer(path)):
                self._runs_below.setdefault(outer, {})[path] = None
        elif entry.kind == "run_resumed":
            self.state |= data["state"]
            self.result = None
            self._tried_anew = {
                path for path, step in self.steps.items() if step.has_failed and self.is_unfinished_below(path)
            }
            self.assume(data["assumed"])
            self.assumed = {}
        elif entry.kind == "run_finished":
            self.result = self.result if path else data["result"]
        else:
            if path not in self.steps:
                self.steps[path] = StepRecord()
                for outer in _outer(path):
                    self._steps_below.setdefault(outer, {})[path] = None
            self._add_to_step(entry, self.steps[path])
            self._add_cost(entry)

    def _add_cost(self, entry: JournalEntry) -> None:
        data, call = entry.data, (entry.step, entry.attempt, entry.ordinal)
        if entry.kind == "model_call_started":
            self._unheard[call] = data
        elif entry.kind == "model_call_finished":
            self._spent.append((entry.step, data, self._unheard.pop(call, {})))

    def _add_to_step(self, entry: JournalEntry, step: StepRecord) -> None:
        data = entry.data
        calls = step.tool_calls if entry.kind.startswith("tool") else step.model_calls
        if entry.kind == "step_started":
            step.end_attempt(() if entry.step in self._tried_anew else self.forget_below(entry.step))
            if entry.step in self._tried_anew:
                self._tried_anew.remove(entry.step)
                self.take_over_below(entry.step, entry.attempt)
            step.attempt, step.result = entry.attempt, None
            self.gates.begin(entry.step)
        elif entry.kind == "step_finished":
            step.result, step.outcome = data["result"], data.get("outcome", step.outcome)
            self.gates.note(entry.step, data["result"], entry.attempt)
        elif entry.kind.endswith("call_started"):
            calls.append(RecordedCall(entry.ordinal, data))
        else:
            for call in reversed(calls):
                if call.ordinal == entry.ordinal:
                    call.answer = data
                    break

    def is_unfinished_below(self, path: str) -> bool:
        """Whether a step of a child run of that step has begun and has not succeeded: then its child runs go on.

        Where all of them came to a good end and the step failed all the same, they are run anew with it.
        """
        below = (self.steps.get(name) for name in self._steps_below.get(path, ()))
        return any(each is not None and each.attempt and not each.is_done for each in below)

    def take_over_below(self, path: str, attempt: int) -> None:
        """Go on in another attempt of a step with what its child runs did in the one before."""
        for child in self._runs_below.get(path, ()):
            self._children[child] = attempt

    def forget_below(self, path: str) -> list[StepRecord]:
        """Drop what the child runs of a step did, as a new attempt runs them anew; it is given back for its cost."""
        for child in self._runs_below.pop(path, ()):
            self._children.pop(child, None)
        below = [name for name in self._steps_below.pop(path, ()) if name in self.steps]
        self.gates.forget(below)
        return [self.steps.pop(name) for name in below]


def _outer(path: str) -> Iterator[str]:
    """All that a dotted path is in: of ``a.b.c``, ``a`` and ``a.b``."""
    end = path.find(".")
    while end >= 0:
        yield path[:end]
        end = path.find(".", end + 1)


def _cost(finished: Mapping[str, Any], begun: Mapping[str, Any]) -> float:
    """What a call counts with, of which nobody may know what it has cost."""
    if "response" not in finished:
        return float(finished.get("reserved_usd", 0.0))
    cost: float | None = finished["response"].cost_usd
    return float(begun.get("reserved_usd", 0.0)) if cost is None else cost


def _text(asked: Any) -> str:
    data = list(asked) if isinstance(asked, tuple) else dump(asked)
    return without_hashes(json.dumps(data, sort_keys=True, default=str))
