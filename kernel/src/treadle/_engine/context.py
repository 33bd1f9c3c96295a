"""What a running step holds in its hands."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import trio
from pydantic import BaseModel

from treadle._bridges.loops import of_the_loop
from treadle._bridges.processes import call_in_process, name_of
from treadle._document import read_document
from treadle._engine.children import ParentStep
from treadle._engine.failures import first_of, is_failure, is_fault
from treadle._engine.gateway import CallSite
from treadle._engine.journal import settle
from treadle._engine.resuming import RecordedCall
from treadle._engine.sending import RequestCleaner, clean
from treadle._engine.state import StateView, check_value
from treadle._language import MISSING, ArgumentTree, Expression, Template, look_up
from treadle.contracts.budget import BudgetTerms
from treadle.contracts.events import TextEmitted, ToolCallFinished, ToolCallStarted
from treadle.contracts.offers import Role
from treadle.contracts.results import Pending, RunResult
from treadle.contracts.sandbox import Sandbox
from treadle.contracts.sources import AttachmentFetcher, AttachmentRequest
from treadle.contracts.step import DoneCall, StepContext
from treadle.contracts.tool import Tool, ToolContext
from treadle.errors import SandboxError, StepError, ToolError, TreadleError
from treadle.messages import Completed, EmbedRequest, EmbedResponse, MediaPart, ModelRequest, ModelResponse, TextDelta
from treadle.nurseries import lone_error

if TYPE_CHECKING:
    from treadle._document import Workflow
    from treadle._engine.progress import Progress
    from treadle._engine.run import Run
    from treadle.contracts.provider import Exchange

__all__ = ["RunningStep"]

_ABOUT_MISSING = re.compile(r"\b(None|null|not)\b")
"""In an expression that asks whether something is there."""
_KEY = re.compile(r"[\w.-]*")
_THREADS = trio.CapacityLimiter(float("inf"))
"""trio's own limiter would count threads that were left behind, for ever; the run counts the others."""
R = TypeVar("R")
ModelT = TypeVar("ModelT", bound=BaseModel)
RequestT = TypeVar("RequestT", ModelRequest, EmbedRequest)
Ts = TypeVarTuple("Ts")


def evaluate(expression: Expression, names: Mapping[str, Any], warn: Callable[[str], None]) -> Any:
    """The expression's value, with a warning of what is missing.

    :raises ExpressionError: it cannot be evaluated.
    """
    value = expression.evaluate(names)
    for each in expression.references:
        # Nothing equals what is missing: without a word, a misspelt name would always take the other branch.
        if look_up(names[each.root], each.parts) is MISSING and not _ABOUT_MISSING.search(expression.source):
            warn(f"'{each.text}' is missing, and reads as null in the expression {expression.source!r}")
    return value


class RunningStep(StepContext):
    """One attempt of one step."""

    def __init__(self, run: Run, step_id: str, view: StateView, steps: Mapping[str, Any], progress: Progress) -> None:
        self.run_id = run.run_id
        self.step_id = step_id
        self.attempt = progress.attempt
        self.config = run.config
        self._run = run
        self._view = view
        self._steps = steps
        self._progress = progress
        self._budgets = progress.budgets
        self._cleaner: RequestCleaner | None = None

    @property
    def outer_run_id(self) -> str:
        """The id of the outermost run."""
        return self._run._root.run_id

    @property
    def path(self) -> str:
        """The step's dotted path."""
        return self._run._path(self.step_id)

    @property
    def workflow_name(self) -> str:
        """The name of its workflow."""
        return self._run.workflow.name

    @property
    def state(self) -> Mapping[str, Any]:
        """The state as the step sees it."""
        return self._view

    def render(self, template: Template, names: Mapping[str, Any] | None = None) -> str:
        """The template's text over the state."""
        return template.render(self._view, names, strict=self.config.strict_templates, warn=self.warn)

    def render_arguments(self, arguments: ArgumentTree) -> dict[str, Any]:
        """Arguments with their templates filled in; whole values are copied, as a tool may change what it gets."""
        rendered = arguments.render(self._view, strict=self.config.strict_templates, warn=self.warn)
        result: dict[str, Any] = copy.deepcopy(rendered) if arguments.state_paths else rendered
        return result

    def evaluate(self, expression: Expression, names: Mapping[str, Any] | None = None) -> Any:
        """The expression's value over ``state`` and ``steps``."""
        return evaluate(expression, {"state": self._view, "steps": self._steps, **(names or {})}, self.warn)

    def exchange(self, request: ModelRequest) -> Exchange:
        """Call a model."""
        if self._cleaner is None:
            self._cleaner = RequestCleaner()
        return self._run.gateway.exchange(self._keyed(self._cleaner.clean(request)), self._site())

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Call a model and wait for the whole response."""
        response: ModelResponse | None = None
        async with self.exchange(request) as events:
            async for event in events:
                if type(event) is TextDelta:
                    self.emit_text(event.text)
                elif type(event) is Completed:
                    response = event.response
        assert response is not None, "the gateway ends every exchange with a response or an error"
        return response

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """Turn texts into vectors."""
        return await self._run.gateway.embed(self._keyed(clean(request)), self._site())

    def tool(self, name: str) -> Tool:
        """A registered tool."""
        return self._run.tool(name)

    async def attachment(self, request: AttachmentRequest) -> MediaPart:
        """An attachment, read by the fetcher of its scheme."""
        session, head = self._run.session, request.source.partition(":")[0].lower()
        scheme = head if head in session.host.names("attachment_fetcher") else request.scheme
        fetcher: AttachmentFetcher = session.role("attachment_fetcher", "", scheme)
        sandbox = await self._run.sandbox()
        if sandbox is None:
            text = "attachments are read through a sandbox, and none is installed"
            raise SandboxError(text, hint="pip install treadle-sandbox")
        return await fetcher.fetch(request, sandbox)

    def document(self, path: str, model: type[ModelT]) -> ModelT:
        """A file that the step names."""
        known = self._run.workflow.documents.get((path, model))
        return known if isinstance(known, model) else read_document(path, model)

    def done_calls(self, name: str) -> Sequence[DoneCall]:
        """What earlier attempts did with a ``once`` tool and this one has not repeated."""
        return self._progress.done.unclaimed(name)

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, call_id: str | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Run a registered tool. It gets its number here, whenever it is awaited."""
        tool = self._run.tool(name)
        own, kept = self._progress, None
        if own.kept is not None and not (tool.effect_of(arguments) == "once" and own.done.has(name, arguments)):
            kept = own.kept.recall(own.kept.tool_calls, (name, arguments), self._run.redactor)
        ordinal = kept.ordinal if kept else next(own.tool_ordinals)
        own_id = f"{self._run._path(self.step_id)}.{self.attempt}.{ordinal}"  # child runs have steps of one id
        return self._call_tool(tool, arguments, ordinal, call_id or own_id, kept)

    async def _call_tool(
        self, tool: Tool, arguments: Mapping[str, Any], ordinal: int, call_id: str, kept: RecordedCall | None
    ) -> Any:
        run, name = self._run, tool.name
        is_once = tool.effect_of(arguments) == "once"
        if kept is not None:
            result = kept.result()
            if is_once:
                self._progress.done.add(name, arguments, result)
            return result
        if is_once and (done := self._progress.done.claim(name, arguments)) is not None:
            return copy.deepcopy(done.result)
        context = ToolContext(
            run_id=self.run_id, step_id=self.step_id, call_id=call_id, sandbox=await run.sandbox(), warn=self.warn
        )
        asked = copy.deepcopy(arguments)  # the tool may change what it gets
        data = {"call_id": call_id, "tool_name": name, "arguments": asked}
        run.record("tool_call_started", self.step_id, self.attempt, ordinal, data)
        await settle(run)
        if run.hub.active:
            run.hub.send(ToolCallStarted(run_id=self.run_id, step_id=self.step_id, call_id=call_id, tool_name=name))
        started = trio.current_time()
        failure: str | None = "cancelled; whether it had an effect is unknown"
        try:
            with trio.move_on_after(tool.timeout if tool.timeout is not None else float("inf")) as limit:
                result = await tool.call(arguments, context)
                check_value(result, f"the result of tool '{name}'")
            if limit.cancelled_caught:
                raise ToolError(
                    f"tool '{name}' timed out after {tool.timeout:g} s; whether it had an effect is unknown"
                )
        except BaseException as error:
            if not is_failure(error):
                raise
            cause = of_the_loop(name, lone_error(error))
            failure = str(cause) or type(cause).__name__
            data = {"call_id": call_id, "error": failure, "error_type": type(cause).__name__}
            run.record("tool_call_finished", self.step_id, self.attempt, ordinal, data)
            await settle(run)
            if isinstance(cause, TreadleError):
                raise cause from cause.__cause__
            raise ToolError(f"tool '{name}' failed: {type(cause).__name__}: {cause}") from cause
        else:
            failure = None
            if is_once:
                self._progress.done.add(name, asked, result)
            data = {"call_id": call_id, "result": result}
            run.record("tool_call_finished", self.step_id, self.attempt, ordinal, data)
            await settle(run)
        finally:
            if run.hub.active:
                run.hub.send(
                    ToolCallFinished(
                        run_id=self.run_id,
                        step_id=self.step_id,
                        call_id=call_id,
                        tool_name=name,
                        seconds=trio.current_time() - started,
                        error=failure,
                    )
                )
        return result

    def workflow(self, field: str) -> Workflow:
        """The workflow under that field, as it was checked."""
        found = self._run.workflow.children.get((self.step_id, field))
        if found is None:
            raise StepError(f"step '{self.step_id}' has had no workflow checked under '{field}'")
        return found

    async def run_child(
        self,
        workflow: Workflow | Mapping[str, Any] | str | os.PathLike[str],
        *,
        key: str = "",
        state: Mapping[str, Any] | None = None,
        inherit: bool = False,
    ) -> RunResult:
        """Run another workflow to its end, as a child of this step."""
        run, own = self._run, self._progress
        slot = own.slot
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} cannot be the key of a child run; use letters, digits, '_', '.' and '-'")
        if key in own.children:
            raise ValueError(f"this attempt has run a child with the key '{key}'; give each child a key of its own")
        seen = self._view if inherit else None
        parent = ParentStep(run, self.step_id, self.attempt, key, own.meter, seen, self._budgets)
        child = run.child(workflow, state, parent)
        own.children.add(key)
        slot.children += 1
        slot.give_back()
        try:
            run.start_ready()
            result = await child.execute()
        except BaseExceptionGroup as group:
            if group.split(trio.Cancelled)[1] is not None:
                raise
            # Every step of the child was cancelled, and so is this one: once. Groups would grow level by level.
            raise first_of(group) from None
        finally:
            slot.children -= 1
        await slot.take_again()
        if child.halted is not None and child.halted.run_id != child.run_id:
            own.exceeded.append(child.halted)  # not the child's own limit, but one around it
        own.pending += [replace(each, step_id=f"{parent.path}.{each.step_id}") for each in result.pending]
        return result

    async def run_blocking(self, function: Callable[[*Ts], R], *args: *Ts, name: str | None = None) -> R:
        """Call a function that blocks, in a thread of its own."""
        name = name or name_of(function)
        async with self._run.threads:
            await trio.lowlevel.checkpoint_if_cancelled()  # from here on, the thread runs
            ended = False

            def call() -> R:
                nonlocal ended
                try:
                    return function(*args)
                finally:
                    ended = True

            try:
                return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=_THREADS, thread_name=name)
            finally:
                if not ended:
                    self.warn(
                        f"thread '{name}' of step '{self.step_id}' is still running: the attempt ended without it"
                    )

    async def run_in_process(self, function: Callable[[*Ts], R], *args: *Ts) -> R:
        """Call a function that blocks, in a process of its own, which is killed when the attempt ends."""
        async with self._run.processes:
            return await call_in_process(function, *args, is_fault=is_fault)

    def answer(self, pending: Pending) -> str | None:
        """What somebody answered to a question that this step asked before."""
        asked = self._progress.questions.find(pending, self.attempt, self._run.redactor)
        if asked is not None and asked.expired:
            self.warn(f"nobody answered within {asked.pending.timeout:g} s, so the answer is '{asked.answer}'")
        return None if asked is None else asked.answer

    def was_asked(self, pending: Pending) -> bool:
        """Whether an earlier process has asked this question."""
        return self._progress.questions.find(pending, self.attempt, self._run.redactor) is not None

    @property
    def is_recorded(self) -> bool:
        """Whether the run can be gone on with by another process."""
        return self._run.session.journal.outlives_process

    @property
    def told_state(self) -> Mapping[str, Any]:
        """The state as others may be told of it."""
        return self._run.redactor.state(self._view) if self._run.redactor.is_active else self._view

    async def sandbox(self) -> Sandbox:
        """The run's sandbox."""
        sandbox = await self._run.sandbox()
        if sandbox is None:
            text = f"step '{self.step_id}' reaches the world through a sandbox, and none is installed"
            raise SandboxError(text, hint="pip install treadle-sandbox")
        return sandbox

    def emit_text(self, text: str) -> None:
        """Pass a piece of a streamed reply on to observers."""
        if self._run.hub.active:
            self._run.hub.send(TextEmitted(run_id=self.run_id, step_id=self.step_id, text=text))

    def warn(self, message: str) -> None:
        """Tell the run's owner something that does not stop it."""
        self._run.warn(self.step_id, message)

    def role(self, role: Role, name: str | None = None) -> Any:
        """What serves a role that the step declared in ``needs``."""
        return self._run.session.role(role, f"step '{self.step_id}'", name)

    def _keyed(self, request: RequestT) -> RequestT:
        """The request with its key as seen from the outermost run."""
        place = self._run._place
        return replace(request, key=f"{place}.{request.key}") if place and request.key else request

    def _site(self) -> CallSite:
        own = self._progress
        return CallSite(self._run, self.step_id, self.attempt, own.meter, own.model_ordinals, self._budgets, own.kept)

    def within_budget(self, limit_usd: float, *, whose: str, soft: bool = False) -> StepContext:
        """This context again, held to a further limit."""
        terms = BudgetTerms(
            limit_usd=limit_usd,
            whose=whose,
            run_id=self.run_id,
            step_id=self.step_id,
            soft=soft,
            config=self.config,
            warn=self.warn,
        )
        held = copy.copy(self)
        held._budgets = (*self._budgets, self._run.session.new_budget(terms))
        return held
