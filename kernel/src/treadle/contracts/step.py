"""Steps: what a document is made of."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, TypeVarTuple

from pydantic import BaseModel, ConfigDict, Field

from treadle._dataclasses import dataclass
from treadle._language import ArgumentTree, Expression, StatePath, Template
from treadle.contracts.config import RetrySettings
from treadle.contracts.offers import Role
from treadle.messages import EmbedRequest, EmbedResponse, MediaPart, ModelRequest, ModelResponse, Usage

if TYPE_CHECKING:
    from treadle import Workflow
    from treadle.contracts.config import RunConfig
    from treadle.contracts.documents import DocumentCheck
    from treadle.contracts.provider import Exchange
    from treadle.contracts.results import Pending, RunResult
    from treadle.contracts.sandbox import Sandbox
    from treadle.contracts.sources import AttachmentRequest
    from treadle.contracts.tool import Tool

__all__ = ["DoneCall", "Reference", "Step", "StepContext", "StepDetails", "StepOutcome"]


class StepDetails(TypedDict, total=False):
    """Fields of the step's result that only the step itself knows."""

    finish_reason: str | None
    attachment_count: int
    prompt_metadata: Mapping[str, Any] | None
    reasoning_content: str | None


@dataclass(frozen=True, slots=True, eq=False)
class DoneCall:
    """A tool call that had its effect."""

    tool_name: str
    arguments: Mapping[str, Any]
    result: Any


_SAME: Any = object()
R = TypeVar("R")
ModelT = TypeVar("ModelT", bound=BaseModel)
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What a step gives back when it succeeds. All of it is committed at once, or nothing is.

    A step pauses the run by giving back what it waits for: ``StepOutcome(pending=(Pending(question="Ship it?"),))``.
    Nothing but the usage is then kept; steps that do not come after it go on, and then the run ends, paused. The step
    has the answer from :meth:`StepContext.answer` when the run is gone on with.

    :param value: written to the step's ``output``.
    :param raw: what ``steps.<id>.output`` shows, where that is not the value itself.
    :param writes: further writes to the state, by path.
    :param not_taken: ids of the targets whose edge from this step is not taken.
    :param usage: tokens spent on calls that did not go through the context.
    :param cost_usd: their price.
    :param pending: what the step waits for: it pauses.
    """

    value: Any = None
    raw: Any = _SAME
    writes: Mapping[str, Any] = field(default_factory=dict)
    not_taken: frozenset[str] = frozenset()
    usage: Usage = Usage.ZERO
    cost_usd: float | None = 0.0
    details: StepDetails = field(default_factory=StepDetails)
    pending: tuple[Pending, ...] = ()

    @property
    def shown(self) -> Any:
        """What ``steps.<id>.output`` shows."""
        return self.value if self.raw is _SAME else self.raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Something outside the document that a step names, to be looked up when the document is checked.

    :param role: what it is to serve as, e.g. ``tool``; or ``file``, a path that must exist; or ``object``, a dotted
        path (``package.module:Class``) that must be importable.
    :param name: empty where whichever serves the role will do, as a conversation needs some memory.
    :param field: the step's field that names it, dotted (``tools.0.name``).
    :param is_needed: whether the step fails without it.
    """

    role: Role | Literal["file", "object"]
    name: str = ""
    field: str
    is_needed: bool = False

    def load(self) -> Any:
        """The object that a reference of role ``object`` names, ``package.module:Class`` or ``package.module.Class``.

        The working directory is put at the end of ``sys.path``: a workflow may name what stands beside it.

        :raises ImportError, AttributeError: it is not there; or whatever its module raises.
        """
        module, colon, attribute = self.name.partition(":")
        if not colon:
            module, _, attribute = self.name.rpartition(".")
        if not module or not attribute or module.startswith("."):
            raise ImportError("an object is named as package.module:Class")
        here = str(Path.cwd())
        if here not in sys.path and "" not in sys.path:
            sys.path.append(here)
        return reduce(getattr, attribute.split("."), import_module(module))


class StepContext(ABC):
    """What a running step may use. One is made for each attempt, and lives as long as that attempt."""

    run_id: str
    step_id: str
    attempt: int
    """Which attempt this is, from 1."""
    config: RunConfig
    """The run's config after every override. A request without a model gets the provider's default."""

    @property
    def outer_run_id(self) -> str:
        """The id of the outermost run, by which it is shown, answered and gone on with."""
        return self.run_id

    @property
    def path(self) -> str:
        """The step's dotted path from the outermost run: the gate of what it asks."""
        return self.step_id

    @property
    def workflow_name(self) -> str:
        """The name of the workflow that the step stands in."""
        return ""

    @property
    @abstractmethod
    def state(self) -> Mapping[str, Any]:
        """The state as the step sees it: the initial state and what its ancestors wrote. Not to be changed."""

    @abstractmethod
    def render(self, template: Template, names: Mapping[str, Any] | None = None) -> str:
        """The template's text over the state; ``names`` adds bare names that win over state keys.

        :raises TemplateError: a value is missing and the run is strict, or a format does not fit the value.
        """

    @abstractmethod
    def render_arguments(self, arguments: ArgumentTree) -> dict[str, Any]:
        """Arguments with their templates filled in, safe to be changed by who gets them.

        :raises StateError: an argument that passes a whole value names a missing one.
        """

    @abstractmethod
    def evaluate(self, expression: Expression, names: Mapping[str, Any] | None = None) -> Any:
        """The expression's value over ``state`` and ``steps``; ``names`` may give others under these two names.

        :raises ExpressionError: it cannot be evaluated.
        """

    @abstractmethod
    def exchange(self, request: ModelRequest) -> Exchange:
        """Call a model: metered, journalled, through every layer. See :meth:`Provider.exchange`."""

    @abstractmethod
    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Call a model and wait for the whole response, passing streamed text on with :meth:`emit_text`."""

    @abstractmethod
    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """Turn texts into vectors: metered and journalled."""

    @abstractmethod
    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, call_id: str | None = None) -> Any:
        """Run a registered tool: journalled, in its time limit, in the run's sandbox.

        A ``once`` call that succeeded in an earlier attempt of the step (the same tool, equal arguments, as often as
        they were used) is answered from that, and does not run again.

        Calls are numbered when this is called, not when it is awaited: begin several in the order that is theirs.

        :raises NotInstalledError: no such tool. ``ToolError``, ``SandboxError``: as the tool raises.
        """

    def tool(self, name: str) -> Tool:
        """A registered tool, for what a model is told of it; :meth:`call_tool` is the way to run it.

        :raises NotInstalledError: no such tool.
        """
        raise NotImplementedError  # not abstract: doubles of a context need no tools

    def done_calls(self, name: str) -> Sequence[DoneCall]:
        """Calls of a ``once`` tool that succeeded in an earlier attempt, and that this attempt has not repeated.

        :meth:`call_tool` with the same arguments gives such a call's result and does not run the tool again.
        """
        return ()

    async def attachment(self, request: AttachmentRequest) -> MediaPart:
        """An attachment, read in the run's sandbox by the fetcher that is installed for its scheme.

        :raises NotInstalledError: there is none.
        :raises SandboxError: the sandbox refuses, or there is none. ``ToolError``: it cannot be had.
        """
        raise NotImplementedError  # not abstract: doubles of a context need no attachments

    def document(self, path: str, model: type[ModelT]) -> ModelT:
        """A file that the step names, as it was when the workflow was checked; see :meth:`Step.check_document`.

        :raises DocumentError: it was not, and it is read now and has problems.
        """
        raise NotImplementedError  # not abstract: doubles of a context need no files

    def workflow(self, field: str) -> Workflow:
        """The workflow under that field, as it was checked with the document; see :meth:`DocumentCheck.workflow`.

        :raises StepError: the step did not have it checked.
        """
        raise NotImplementedError  # not abstract: doubles of a context need not run workflows

    async def run_child(
        self,
        workflow: Workflow | Mapping[str, Any] | str | os.PathLike[str],
        *,
        key: str = "",
        state: Mapping[str, Any] | None = None,
        inherit: bool = False,
    ) -> RunResult:
        """Run another workflow to its end, as a child of this step.

        The child has its own state, config and slots, and a sandbox that allows what its own block and this run's
        both allow. Its id is ``<run>.<step>`` or ``<run>.<step>.<key>``; observers and the journal see its steps as
        ``<step>.<child's step>``. What it spends, this step spends: do not count it again in the outcome. While
        children run, the step holds no slot of ``max_concurrent_steps``. Ending the attempt ends the child.

        A child that fails or times out is a result, and this step decides what it means. A step that succeeds after
        a child paused is itself paused, by the engine, and its outcome is not kept.

        :param workflow: a checked workflow, or the file or plain data of one.
        :param key: names this child where an attempt runs several: letters, digits, ``_``, ``.`` and ``-``.
        :param state: initial values that win over the child's own, key by key.
        :param inherit: whether the child starts over this step's state. It reads there what neither ``state`` gives nor
            a step of its own has written; its own ``state:`` block is then for what is not there either. Nothing is
            copied; ``final_state`` shows all of it, and the record only what is the child's own.
        :raises DocumentError: the file or data has problems.
        :raises StateError: a value of ``state`` cannot be kept in a state.
        :raises ValueError: the key is not one, or this attempt has used it.
        """
        raise NotImplementedError  # not abstract: doubles of a context need not run workflows

    async def run_blocking(self, function: Callable[[*Ts], R], *args: *Ts, name: str | None = None) -> R:
        """Call a function that blocks, in a thread of its own.

        When the attempt times out or is cancelled it ends at once. The thread cannot be stopped: it is left behind,
        named in a :class:`RunWarning`, and neither its result nor its error is heard; it does not keep the process
        alive. So the function should be one that does no harm late. Give it values, not this context.

        At most 64 calls of a run are in threads at once, or ``max_concurrent_steps`` where that is more; those left
        behind do not count, and trio's own limit of 40 does not apply.

        :param name: of the thread, in warnings and debuggers; the function's without it.
        """
        raise NotImplementedError

    async def run_in_process(self, function: Callable[[*Ts], R], *args: *Ts) -> R:
        """Call a function that blocks, in a process of its own.

        When the attempt times out or is cancelled the process is killed, and with it whatever it started that has
        not left its group. A call takes some 30 ms more than in a thread, and what the function's module takes to
        be imported. The function must be one that a module defines; it, its arguments and what it gives are pickled.
        What it prints goes to standard error, and its standard input is empty.

        At most ``max_concurrent_steps`` processes of a run are there at once; further calls wait.

        :raises StepError: permanent, where one of them cannot be pickled; transient, where the process ended by
            itself, or was ended, before the function did. Otherwise whatever the function raises.
        """
        raise NotImplementedError

    def answer(self, pending: Pending) -> str | None:
        """What somebody answered to a question that this step asked before, or None.

        A step asks by giving the question back as ``pending``; the run pauses, and when it is gone on with the step
        runs again, from its beginning and in the same attempt:

        .. code-block:: python

            question = Pending(question="Which size?", choices=("small", "large"))
            size = ctx.answer(question)
            if size is None:
                return StepOutcome(pending=(question,))

        An answer is to what was asked: the same text, choices, tool and details, and name where it has one. A later
        attempt that asks the same is answered by it too. Where ``timeout`` has passed without an answer it is
        ``default``, and the run's owner is told.
        """
        return None

    def was_asked(self, pending: Pending) -> bool:
        """Whether an earlier process has asked this question, so that nobody need be told of it again."""
        return False

    @property
    def is_recorded(self) -> bool:
        """Whether the run can be gone on with by another process: what pauses without that is lost with this one."""
        return False

    @property
    def told_state(self) -> Mapping[str, Any]:
        """:attr:`state` as others may be told of it: without secrets and what is to be redacted. Made when asked."""
        return self.state

    async def sandbox(self) -> Sandbox:
        """The run's sandbox: the way of a step that reaches the world itself.

        :raises SandboxError: none is installed.
        """
        raise NotImplementedError  # not abstract: doubles of a context need no sandbox

    def within_budget(self, limit_usd: float, *, whose: str, soft: bool = False) -> StepContext:
        """This context again, whose model calls together are held to a limit besides the others that hold the step.

        :param whose: for messages, as ``agent 'desk'``.
        :param soft: see :class:`BudgetTerms`.
        :raises NotInstalledError: nothing installed keeps budgets.
        """
        raise NotImplementedError  # not abstract: doubles of a context need no budgets

    @abstractmethod
    def emit_text(self, text: str) -> None:
        """Pass a piece of a streamed reply on to observers."""

    @abstractmethod
    def warn(self, message: str) -> None:
        """Tell the run's owner something that does not stop it."""

    @abstractmethod
    def role(self, role: Role, name: str | None = None) -> Any:
        """What serves a role that the step declared in ``needs``.

        :param name: which one, of a role that has several, such as a trim policy; aliases of the deployment apply.
        :raises NotInstalledError: nothing does.
        """


class Step(BaseModel, ABC):
    """Base of every step type. Its fields are the YAML fields; :meth:`run` is what happens.

    A field typed ``Template``, ``Expression``, ``StatePath`` or ``ArgumentTree`` is parsed when the document
    loads, and what it reads or writes is known to the checks without further code.

    :cvar needs: roles that must be served for this step type to work, e.g. ``("memory",)``.
    :cvar may_pause: whether its steps may wait for a person, as ``approval_gate`` does: before a run that is recorded
        nowhere, that is said.
    """

    # Of all step types, a run pays for the validators of those that its workflow has.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    needs: ClassVar[tuple[Role, ...]] = ()
    may_pause: ClassVar[bool] = False

    id: str = Field(pattern=r"^\w[\w.-]*$", description="names the step; unique in the workflow")
    type: str = Field(description="the step type")
    depends_on: tuple[str, ...] = Field(default=(), description="steps that must have settled before this one starts")
    when: Expression | None = Field(default=None, description="the step is skipped where this is not true")
    output: StatePath | None = Field(default=None, description="state path that receives what the step makes")
    timeout: float | None = Field(default=None, gt=0, description="most seconds an attempt may take")
    budget_usd: float | None = Field(
        default=None,
        ge=0,
        strict=True,
        allow_inf_nan=False,
        description="most that the step may spend on models in all its attempts, in US dollars",
    )
    retry: RetrySettings = Field(
        default=RetrySettings.model_construct(), description="when and how a failed attempt is repeated"
    )

    @abstractmethod
    async def run(self, ctx: StepContext) -> StepOutcome:
        """Do the step once.

        May be cancelled at any await, and is then run again or not at all.

        :raises TreadleError: the step failed; whether it is tried again is the error's own word.
        """

    def reads(self) -> Iterable[tuple[str, Template | Expression | StatePath]]:
        """Each template, expression and path that the step reads, with its dotted field."""
        return ((place, value) for place, value in _language_values(self) if place != "output")

    def writes(self) -> Iterable[StatePath]:
        """The state paths it may write."""
        return () if self.output is None else (self.output,)

    def conversations(self) -> Iterable[StatePath]:
        """Those of the paths it reads and writes where a conversation is kept: it may begin there, and takes turns."""
        return ()

    def targets(self) -> Mapping[str, str]:
        """Steps that run only if this one lets them, each with a label for the edge."""
        return {}

    def target_fields(self) -> Mapping[str, str]:
        """Dotted field -> step id, for each place that names a target."""
        return {}

    def references(self) -> Iterable[Reference]:
        """What it names outside the document."""
        return ()

    def check_document(self, check: DocumentCheck) -> None:
        """Say what else is wrong: with documents that the step names, or with its fields as they stand together.

        Called when the workflow is checked, on a step whose own fields are right.
        """

    def child_start(self, field: str) -> tuple[ArgumentTree | None, bool]:
        """Values on top of the state of the workflow named in that field, and whether it starts over this one's state.

        Asked where a run is shown beforehand.
        """
        return None, True

    def model_requests(self, config: RunConfig) -> Iterable[ModelRequest]:
        """Requests such as the step will make, with templates as they stand for the texts.

        Asked when a document is checked, so that the provider can say what it would refuse.
        """
        return ()


def _language_values(step: Step) -> Iterator[tuple[str, Any]]:
    pending: list[tuple[str, Any]] = [
        (name, getattr(step, name))
        for name in reversed(type(step).model_fields)
        if name not in ("id", "type", "depends_on")
    ]
    while pending:
        place, value = pending.pop()
        if isinstance(value, Template | Expression | StatePath | ArgumentTree):
            yield place, value
        elif isinstance(value, BaseModel):
            pending.extend((f"{place}.{name}", getattr(value, name)) for name in reversed(type(value).model_fields))
        elif isinstance(value, Mapping):
            pending.extend((f"{place}.{key}", item) for key, item in reversed(list(value.items())))
        elif isinstance(value, list | tuple):
            pending.extend((f"{place}.{index}", value[index]) for index in reversed(range(len(value))))
