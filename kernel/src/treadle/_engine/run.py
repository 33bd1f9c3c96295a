"""One run of a workflow: its nursery, its state, its steps."""

from __future__ import annotations

import os
import secrets
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import trio

from treadle._dataclasses import quick
from treadle._document import build_workflow, load_workflow, open_sandbox, provider_overrides
from treadle._engine.children import ChildHub, ParentStep, block_of
from treadle._engine.context import RunningStep
from treadle._engine.ending import first_failed, note_unfinished, status_of
from treadle._engine.failures import Failure, is_failure, wait_before
from treadle._engine.gateway import Gateway
from treadle._engine.going_on import below, go_on, record_start, restore, time_left, time_used
from treadle._engine.journal import settle
from treadle._engine.meter import Meter
from treadle._engine.observers import Hub
from treadle._engine.progress import Progress
from treadle._engine.redacting import redacted_keys, redacted_workflow, redactor_of
from treadle._engine.resources import Resource
from treadle._engine.resuming import Record
from treadle._engine.seeing import StepsView, is_wanted
from treadle._engine.sending import clean
from treadle._engine.settling import Settling, Skipped
from treadle._engine.slots import Slots
from treadle._engine.spending import budgets_of_run, budgets_of_step
from treadle._engine.state import EVERYTHING, RunState, StateView, check_value
from treadle._language import StatePath
from treadle.contracts.budget import Budget
from treadle.contracts.events import (
    Observer,
    RunFinished,
    RunStarted,
    RunWarning,
    StepFinished,
    StepRetrying,
    StepStarted,
)
from treadle.contracts.journal import EntryKind, JournalEntry
from treadle.contracts.results import Pending, RunResult, StepResult, StepStatus
from treadle.contracts.sandbox import Sandbox
from treadle.contracts.step import Step, StepOutcome
from treadle.contracts.tool import Tool
from treadle.errors import BudgetExceededError
from treadle.messages import Usage
from treadle.nurseries import open_nursery
from treadle.redaction import Redactor

if TYPE_CHECKING:
    from pydantic import BaseModel

    from treadle._document import Workflow
    from treadle._engine.session import Session

__all__ = ["Run"]

_WARNINGS_KEPT = 1000
_THREADS = 64
"""Blocking calls of a run at once, where ``max_concurrent_steps`` is less."""


_LEVELS_OF_A_TASK = 8
"""Of child runs in child runs: more would be too deep for the interpreter's stack."""
_SECONDS_WITHOUT_A_CHECKPOINT = 0.005
"""Of steps that follow each other and do not wait for anything."""
_new_entry = quick(JournalEntry)
_new_result = quick(StepResult)


class Run:
    """Executes a workflow once.

    Everything a step makes is committed in one synchronous block, on success only. No task of the run outlives
    :meth:`execute`.
    """

    def __init__(
        self,
        session: Session,
        workflow: Workflow,
        *,
        state: Mapping[str, Any] | None = None,
        observers: Sequence[Observer] = (),
        tools: Iterable[Tool] = (),
        run_id: str | None = None,
        parent: ParentStep | None = None,
        earlier: Record | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._parent = parent
        self._earlier: Record | None = below(parent) if parent else earlier
        self._given = state or {}
        self._root: Run = parent.run._root if parent else self
        self._place = parent.run._path(parent.path) if parent else ""
        self._depth: int = parent.run._depth + 1 if parent else 0
        self.run_id: str = f"{self._root.run_id}.{self._place}" if parent else run_id or secrets.token_hex(6)
        self.session = session
        self._tools: Mapping[str, Tool] = parent.run._tools if parent else {each.name: each for each in tools}
        self.workflow = workflow
        self.config = workflow.config
        self.gateway = Gateway(session, self.config.provider, provider_overrides(workflow.host, self.config))
        self.redactor: Redactor = self._root.redactor if parent else redactor_of(workflow.host.settings)
        self.redactor.add(redacted_keys(workflow.state_schema))
        self.hub: Hub | ChildHub = Hub(self.run_id, observers, self.redactor)
        if parent:
            self.hub = ChildHub(self._root.hub, self._root.run_id, self._place)
        self._journal = session.journal
        self._epoch = time.time() - time.monotonic()  # no clock that is set meanwhile changes how long it takes
        self.halted: BudgetExceededError | None = None
        self.budgets = budgets_of_run(self, parent.budgets if parent else () if budget is None else (budget,))
        self._graph = graph = workflow.graph
        self._settling = Settling(self._graph, pass_over_failures=self.config.on_step_failure == "continue")
        if parent and parent.state is not None:
            self._state = RunState(self._given, parent.state, workflow.state)
        else:
            self._state = RunState({**(earlier.state if earlier else workflow.state), **self._given})
        self._ancestors: dict[int, int] = {}
        self._readers = [len(each) for each in graph.later]
        self._results: dict[str, StepResult] = {}
        self._progress: dict[str, Progress] = {}
        self._slots = Slots(self.config.max_concurrent_steps)
        self._nursery: trio.Nursery | None = None
        self._now: Callable[[], float]
        self._scope = trio.CancelScope()
        self._cancel_reason: str | None = None
        self._timed_out = False
        self._unrecorded: Exception | None = None
        self._sandbox: Resource[Sandbox] | None = None
        self._sandbox_block: BaseModel | None = None
        self._warnings: dict[RunWarning, None] = {}

    @cached_property
    def threads(self) -> trio.Semaphore:
        """For blocking calls in threads."""
        return trio.Semaphore(max(_THREADS, self.config.max_concurrent_steps))

    @cached_property
    def processes(self) -> trio.Semaphore:
        """For blocking calls in processes."""
        return trio.Semaphore(self.config.max_concurrent_steps)

    def tool(self, name: str) -> Tool:
        """The tool of that name: the run's own, or the session's.

        :raises NotInstalledError: there is none.
        """
        own = self._tools.get(name)
        return self.session.tool(name) if own is None else own

    # --- for steps ------------------------------------------------------------------------------------

    def record(self, kind: EntryKind, step: str, attempt: int, ordinal: int, data: Mapping[str, Any]) -> None:
        """Append to the journal. Where it cannot be kept, the run ends with that error, whoever catches it first."""
        root = self._root
        if root._unrecorded is not None:
            raise root._unrecorded  # what follows a gap is not recorded either
        if self.redactor.is_active:
            data = self.redactor.entry(kind, self._path(step), data)
        try:
            path = self._path(step) if self._place else step
            at = root._epoch + time.monotonic()
            self._journal.append(_new_entry(root.run_id, kind, path, attempt, ordinal, data, at))
        except Exception as error:
            root._unrecorded = error
            root._scope.cancel()
            raise

    def warn(self, step_id: str | None, message: str) -> None:
        """Tell observers something that does not stop the run, and keep it for the result, outer runs' too."""
        run = self
        while True:
            warning = RunWarning(run_id=run.run_id, step_id=step_id, message=message)
            if len(run._warnings) < _WARNINGS_KEPT:
                run._warnings[warning] = None
            if run._parent is None:
                break
            step_id = f"{run._parent.path}.{step_id}" if step_id else run._parent.path
            run = run._parent.run
        run.hub.send(warning)

    def child(
        self,
        workflow: Workflow | Mapping[str, Any] | str | os.PathLike[str],
        state: Mapping[str, Any] | None,
        parent: ParentStep,
    ) -> Run:
        """A run below a step of this one."""
        host = self.session.host
        if isinstance(workflow, str | os.PathLike):
            workflow = load_workflow(workflow, host=host, state_keys=state or ())
        elif isinstance(workflow, Mapping):
            workflow = build_workflow(workflow, host=host)
        return Run(self.session, workflow, state=state, parent=parent)

    def path_of(self, step: str) -> str:
        """The dotted path of a step, or of the run itself, from the outermost run."""
        return f"{self._place}.{step}" if step and self._place else step or self._place

    _path = path_of

    def spent_before(self, step: str) -> float:
        """What earlier processes have spent on a step, or on the run, with what was reserved and never settled."""
        return self._earlier.spent(self._path(step)) if self._earlier else 0.0

    def halt(self, error: BudgetExceededError) -> None:
        """Start no further step: a budget that holds the run is used up. What runs goes on to its end."""
        if self.halted is None:
            self.halted = error

    async def sandbox(self) -> Sandbox | None:
        """The run's sandbox, opened on first use; None where no sandbox is installed."""
        return None if self._sandbox is None else await self._sandbox.get()

    # --- running --------------------------------------------------------------------------------------

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run: running steps are cancelled, finished ones keep what they made. May be called at any time."""
        if self._cancel_reason is None:
            self._cancel_reason = reason
        self._scope.cancel()

    async def execute(self) -> RunResult:
        """Run to the end.

        A failed, timed-out or cancelled run is a result, not an exception. An enclosing scope that is cancelled
        is: then :class:`trio.Cancelled` passes through, as it must.
        """
        self._now = trio.lowlevel.current_clock().current_time
        started = self._now() - time_used(self)
        ids = tuple(step.id for step in self._graph.steps)
        attempt = self._parent.attempt if self._parent else 0
        workflow, state = self.workflow, self._state.own
        if self.redactor.is_active:
            self._note_concealed()
            workflow, state = redacted_workflow(workflow, self.redactor), self.redactor.state(state)
        record_start(self, attempt, workflow, state)
        if self._parent is None or self.config.sandbox is not None:
            async with open_nursery() as keepers:
                self.hub.start(keepers)
                if self.workflow.host.registry.names("sandbox"):
                    self._sandbox = Resource(keepers, self._open_sandbox)
                try:
                    real, result = await self._run_through(ids, started, attempt)
                finally:
                    self.hub.close()
                    if self._sandbox is not None:
                        self._sandbox.close()
        else:  # what it may do with tools is what the outer run may
            self._sandbox = self._parent.run._sandbox
            real, result = await self._run_through(ids, started, attempt)
        if self._parent is None:
            return result
        outer = self._parent.state
        return real if outer is None else replace(real, final_state=ChainMap(dict(real.final_state), outer))  # type: ignore[arg-type]  # only read

    async def _run_through(self, ids: tuple[str, ...], started: float, attempt: int) -> tuple[RunResult, RunResult]:
        """The result, and what may be told of it."""
        if self._parent is None:
            self.hub.send(RunStarted(run_id=self.run_id, workflow_name=self.workflow.name, steps=ids))
        await self._run_steps()
        result = real = self._result(trio.current_time() - started)
        if self.redactor.is_active:
            steps = {name: self._told(each) for name, each in real.step_results.items()}
            final = self.redactor.state(real.final_state)
            result = self.redactor.hide(replace(real, step_results=steps, final_state=final))
        self.record("run_finished", "", attempt, 0, {"result": result})
        if self._parent is None:
            await settle(self)
            self.hub.send(RunFinished(run_id=self.run_id, result=result))
        return real, result

    async def _run_steps(self) -> None:
        limit = self.config.timeout
        if limit is not None:
            self._scope.deadline = trio.current_time() + time_left(self, limit)
        try:
            with self._scope:
                async with open_nursery() as self._nursery:
                    first = self._begin_next() if self._depth % _LEVELS_OF_A_TASK else None
                    self.start_ready()
                    if first is not None:
                        await self._run_from(*first)  # a task of its own would cost as much again as the step
        except Exception:
            if self._root._unrecorded is None:
                raise
        except BaseException:
            if self._parent is not None and self._root._unrecorded is None:
                # The outer run goes on where only the attempt was ended: its record says what became of these.
                self._cancel_reason = f"step '{self._parent.step_id}', which ran this workflow, was ended"
                note_unfinished(self)
            raise
        if self._root._unrecorded is not None:
            raise self._root._unrecorded  # by whatever way it came here
        if not self._scope.cancel_called or self._is_done():
            self._cancel_reason = None  # it came too late to change anything
            if self.halted is not None:
                note_unfinished(self)
            return
        if self._cancel_reason is None:
            self._cancel_reason = f"the run took longer than config.timeout ({limit:g} s)"
            self._timed_out = True
        note_unfinished(self)

    def _is_done(self) -> bool:
        """Whether nothing runs or could start, and nothing failed, as a step may that is cancelled."""
        return not self._progress and not self._settling.has_ready and first_failed(self) is None

    def _open_sandbox(self) -> Sandbox:
        return open_sandbox(self.workflow.host, partial(block_of, self))

    def start_ready(self) -> None:
        """Start what may start: all that others can see of it here, as trio runs new tasks in any order."""
        assert self._nursery is not None
        while begun := self._begin_next():
            self._nursery.start_soon(self._run_from, *begun)

    def _begin_next(self) -> tuple[int, Step, int, Progress] | None:
        """Take the next step that may start and has something to do, with its index and what it sees."""
        while self._slots.is_free() and self._settling.has_ready and not self._scope.cancel_called:
            index = self._settling.next_ready()
            step = self._graph.steps[index]
            sees = self._sees(index)
            kept = self._earlier.steps.get(self._path(step.id)) if self._earlier else None
            if kept is not None and kept.is_done:
                restore(self, index, step, sees, kept)
                continue
            if self.halted is not None:
                continue
            if step.when is not None and not (kept and kept.is_under_way) and not is_wanted(self, index, step, sees):
                continue
            meter = Meter(outer=self._parent.meter) if self._parent else Meter()
            budgets = self.budgets if step.budget_usd is None else budgets_of_step(self, step)
            progress = self._progress[step.id] = Progress(self._now(), meter, self._slots.take(), budgets)
            if kept is None:
                self._begin_attempt(step, progress)
            elif go_on(self, step, progress, kept):
                continue
            return index, step, sees, progress
        return None

    async def _run_from(self, index: int, step: Step, sees: int, progress: Progress) -> None:
        """Run a step, and then in the same task one that may start thereafter, and so on.

        A task of its own for each step would cost a third of what the engine does for it. Whatever else may start
        has its own.
        """
        due = time.perf_counter() + _SECONDS_WITHOUT_A_CHECKPOINT
        while True:
            await self._run_step(index, step, sees, progress)
            progress.slot.give_back()
            following = self._begin_next()
            if following is None:
                return
            index, step, sees, progress = following
            self.start_ready()
            if self.hub.active or time.perf_counter() > due:
                await trio.lowlevel.checkpoint()  # observers, other tasks and whoever cancels the run have their turn
                due = time.perf_counter() + _SECONDS_WITHOUT_A_CHECKPOINT

    def _begin_attempt(self, step: Step, progress: Progress) -> None:
        progress.begin_attempt()
        self.record("step_started", step.id, progress.attempt, 0, {})
        if self.hub.active:
            self.hub.send(StepStarted(run_id=self.run_id, step_id=step.id, attempt=progress.attempt))

    async def _run_step(self, index: int, step: Step, sees: int, progress: Progress) -> None:
        if sees or self._parent is not None:
            await settle(self)  # the end of what it comes after
        steps = StepsView(self, sees)
        view = StateView(self._state, sees, steps)
        while True:
            context = RunningStep(self, step.id, view, steps, progress)
            failure = await self._attempt(index, step, context, sees, progress)
            if failure is None:
                break
            retries = step.retry.max_retries
            if retries is None:
                retries = self.config.max_retries
            if not failure.transient or progress.attempt - progress.before > retries:
                self._fail(index, step, failure, progress)
                break
            wait = wait_before(progress.attempt + 1, failure, step.retry)
            if self.hub.active:
                self.hub.send(
                    StepRetrying(
                        run_id=self.run_id, step_id=step.id, attempt=progress.attempt, error=failure.message, wait=wait
                    )
                )
            progress.slot.give_back()  # others need not wait with it
            self.start_ready()
            await trio.sleep(wait)
            await progress.slot.take_again()
            self._begin_attempt(step, progress)

    async def _attempt(
        self, index: int, step: Step, context: RunningStep, sees: int, progress: Progress
    ) -> Failure | None:
        try:
            if step.timeout is None:
                outcome = await step.run(context)
            else:
                with trio.move_on_after(step.timeout) as limit:
                    outcome = await step.run(context)
                if limit.cancelled_caught:
                    return Failure.timeout(step.timeout)
            if not isinstance(outcome, StepOutcome):
                raise TypeError(f"a step of type '{step.type}' must give a StepOutcome, not {type(outcome).__name__}")
            if progress.pending or outcome.pending:
                self._pause(step, outcome, tuple(progress.pending), progress)
            elif progress.exceeded:
                return Failure.of(progress.exceeded[0], step.retry)
            else:
                self._commit(index, step, outcome, sees, progress)
        except BaseException as error:
            if is_failure(error):
                return Failure.of(progress.exceeded[0] if progress.exceeded else error, step.retry)
            cancelled, rest = error.split(trio.Cancelled) if isinstance(error, BaseExceptionGroup) else (None, None)
            if cancelled is None or rest is None or not is_failure(rest):
                raise
            # The run is ending, and the step failed in ending: its result is that it was cancelled.
            self.warn(step.id, f"while it was cancelled: {Failure.of(rest, step.retry).message}")
            raise cancelled from None
        return None

    def _sees(self, index: int) -> int:
        """The writers that a step sees: its ancestors. Kept only until all that come after it have started."""
        sees = 0
        for dependency in self._graph.earlier[index]:
            sees |= self._ancestors[dependency] | 1 << self._graph.rank[dependency]
            self._readers[dependency] -= 1
            if not self._readers[dependency]:
                del self._ancestors[dependency]
        if self._graph.later[index]:
            self._ancestors[index] = sees
        return sees

    # --- settling -------------------------------------------------------------------------------------

    def _commit(self, index: int, step: Step, outcome: StepOutcome, sees: int, progress: Progress) -> None:
        """Keep everything a step made, or raise and keep nothing but what it cost."""
        progress.meter.add(outcome.usage, outcome.cost_usd)
        writes = [(step.output, outcome.value)] if step.output is not None else []
        if outcome.writes:
            writes += [(StatePath.parse_state(path), value) for path, value in outcome.writes.items()]
        make_writes = self._state.prepare(self._graph.rank[index], sees, writes) if writes else None
        if step.output is None or outcome.shown is not outcome.value:
            check_value(outcome.shown, f"steps.{step.id}.output")
        if outcome.not_taken:
            unknown = outcome.not_taken - step.targets().keys()
            if unknown:
                raise ValueError(
                    f"step '{step.id}' did not take edges that it does not have: {', '.join(sorted(unknown))}"
                )
        result = self._step_result(step.id, StepStatus.SUCCESS, progress, outcome=outcome)
        told = self._told(result)
        if self.redactor.is_active:
            outcome = self.redactor.outcome(self._path(step.id), _output_of(step), outcome)
        self.record("step_finished", step.id, progress.attempt, 0, {"result": told, "outcome": outcome})
        if make_writes is not None:
            make_writes()
        not_taken = frozenset(map(self._graph.number.__getitem__, outcome.not_taken))
        self._settle(index, result, not_taken)

    def _pause(self, step: Step, outcome: StepOutcome, of_children: tuple[Pending, ...], progress: Progress) -> None:
        """Keep what the step waits for, and what it cost. It has not settled: nothing that comes after it starts."""
        asked = progress.questions.ask(step, outcome.pending, progress.attempt, self.redactor)
        progress.meter.add(outcome.usage, outcome.cost_usd)
        pending = (*asked, *of_children)
        result = self._step_result(step.id, StepStatus.PAUSED, progress, outcome=StepOutcome(pending=pending))
        self.record("step_finished", step.id, progress.attempt, 0, {"result": self._told(result)})
        del self._progress[step.id]
        self._note(result)

    def _fail(self, index: int, step: Step, failure: Failure, progress: Progress) -> None:
        status = StepStatus.TIMEOUT if failure.timed_out else StepStatus.FAILED
        result = self._step_result(step.id, status, progress, failure=failure)
        self.record("step_finished", step.id, progress.attempt, 0, {"result": self._told(result)})
        error = failure.error
        if isinstance(error, BudgetExceededError) and (error.run_id, error.step_id) != (self.run_id, step.id):
            self.halt(error)
        self._settle(index, result)

    def _settle(self, index: int, result: StepResult, not_taken: frozenset[int] = frozenset()) -> None:
        del self._progress[result.step_id]
        self._note(result)
        for skipped in self._settling.settle(index, result.status, not_taken):
            self._skip(skipped)

    def _skip(self, skipped: Skipped) -> None:
        self._sees(skipped.index)
        self._note_skipped(self._graph.steps[skipped.index].id, skipped.reason)

    def _note_skipped(self, step_id: str, reason: str) -> None:
        result = StepResult(step_id=step_id, status=StepStatus.SKIPPED, reason=reason)
        self.record("step_finished", step_id, 0, 0, {"result": result})
        self._note(result)

    def _note(self, result: StepResult) -> None:
        self._results[result.step_id] = result
        if self.hub.active:
            self.hub.send(StepFinished(run_id=self.run_id, step_id=result.step_id, result=self._told(result)))

    def _told(self, result: StepResult) -> StepResult:
        """A step's result as others may hear it."""
        if not self.redactor.is_active:
            return result
        step = self._graph.steps[self._graph.number[result.step_id]]
        return self.redactor.result(self._path(step.id), _output_of(step), result)

    def _note_concealed(self) -> None:
        for step in self._graph.steps:
            self.redactor.conceals(self._path(step.id), _output_of(step))

    # --- results --------------------------------------------------------------------------------------

    def _step_result(
        self,
        step_id: str,
        status: StepStatus,
        progress: Progress,
        *,
        outcome: StepOutcome | None = None,
        failure: Failure | None = None,
    ) -> StepResult:
        meter = progress.meter
        details = outcome.details if outcome else {}
        return _new_result(
            step_id=step_id,
            status=status,
            output=clean(outcome.shown) if outcome else None,
            error=failure.message if failure else self._cancel_reason if status is StepStatus.CANCELLED else None,
            error_classification=failure.classification if failure else None,
            duration_ms=(self._now() - progress.started) * 1000,
            attempts=progress.attempt,
            usage=meter.usage,
            cost_usd=meter.cost_usd,
            model=meter.model,
            provider=meter.provider,
            finish_reason=details.get("finish_reason", meter.finish_reason),
            attachment_count=details.get("attachment_count", 0),
            time_to_first_token_ms=meter.time_to_first_token_ms,
            prompt_metadata=details.get("prompt_metadata"),
            reasoning_content=details.get("reasoning_content"),
            pending=outcome.pending if outcome else (),
            exception=failure.error if failure else None,
        )

    def _result(self, seconds: float) -> RunResult:
        results = {step.id: self._results.get(step.id) or _undecided(step.id) for step in self._graph.steps}
        usage, cost = Usage.ZERO, 0.0
        unknown_cost = False
        for each in results.values():
            if each.usage is not Usage.ZERO:
                usage += each.usage
            unknown_cost |= each.cost_usd is None
            cost += each.cost_usd or 0.0
        status, error = status_of(self)
        return RunResult(
            run_id=self.run_id,
            workflow_name=self.workflow.name,
            status=status,
            step_results=results,
            final_state={
                name: self._state.read(name, EVERYTHING) for name in self._state.names(EVERYTHING, only_own=True)
            },
            total_tokens=usage.total_tokens,
            total_cost_usd=None if unknown_cost else cost,
            budget_usd=self.config.budget_usd,
            total_duration_ms=seconds * 1000,
            error=error,
            warnings=tuple(self._warnings),
        )


def _output_of(step: Step) -> tuple[str | int, ...] | None:
    return None if step.output is None else step.output.parts


def _undecided(step_id: str) -> StepResult:
    return StepResult(step_id=step_id, status=StepStatus.PENDING, reason="it comes after a step that is paused")
