"""The suite of step types."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import trio
from pydantic import PydanticUserError

from treadle import api
from treadle._document.schema import workflow_schema
from treadle._language import ArgumentTree, Expression, StatePath
from treadle._plugins.objects import offering
from treadle.contracts.config import RunConfig
from treadle.contracts.offers import ProviderOffer, Role
from treadle.contracts.results import Pending, RunResult, StepStatus
from treadle.contracts.sandbox import Sandbox
from treadle.contracts.step import Reference, Step, StepContext, StepOutcome
from treadle.errors import ConfigurationError, DocumentError, RateLimitError, TreadleError
from treadle.messages import ModelRequest, Usage
from treadle.testing.cancellation import BlockingWarning, Cut, cut_at, holding, in_sentences, leaving_nothing
from treadle.testing.doubles import EchoProvider, Reply
from treadle.testing.running import Plugins, host_of, named_plugins

__all__ = ["check_step", "check_step_class"]

_TYPE = "step_under_test"
_LONG = 0.3
"""Seconds. A person sees that others wait; no step that only computes a little comes near it on a slow machine."""
_UNICODE = "Grüße, 世界 🙂 \u202e"


@in_sentences
async def check_step(
    step: type[Step],
    fields: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None = None,
    plugins: Plugins = (),
    replies: Sequence[Reply] | None = None,
    sandbox: Callable[[], Sandbox] | None = None,
    expect: Mapping[str, Any] | None = None,
    failing: Sequence[Mapping[str, Any]] = (),
    others: Sequence[Mapping[str, Any]] = (),
    answers: Mapping[str, str] | None = None,
) -> None:
    """Hold a step type to its contract: fields, what it reads, writes and refers to, errors, usage, cancellation.

    It is run in a workflow of its own, some ten to fifty times.

    :param fields: an example that succeeds, as a document writes it, without ``id`` and ``type``.
    :param state: the initial state.
    :param plugins: what the step needs, such as a tool's or a memory's plugin.
    :param replies: what the model answers in each run; it repeats the last user text without them.
    :param sandbox: gives the sandbox of each run.
    :param expect: keys of the final state, and their values.
    :param failing: complete fields, not changes to ``fields``, whose run must fail with a ``TreadleError``.
    :param others: further steps of the document, such as the targets of a router. The id of the step that is tested
        is ``step``. Steps of the type ``nothing`` do nothing, as a target need not:
        ``{"id": "a", "type": "nothing", "depends_on": ["step"]}``.
    :param answers: what a step that pauses is answered, by the name of each question; the empty one where it has none.
    :raises AssertionError: with what it did, and what the contract says of that.

    A step that works for long without a checkpoint, each time it is run, is a ``BlockingWarning``.
    """
    check_step_class(step)
    what = f"step '{step.__name__}'"
    bench = _Bench(step, others, plugins, replies, sandbox, answers or {}, what)
    given = dict(state or {})
    async with leaving_nothing(what):
        course = await bench.run(fields, given)
        _check_good_run(course, expect, what)
        held = course.held
        for _ in range(2):  # what was imported, or had to wait for the machine, is quicker the next time
            if held > _LONG:
                held = min(held, (await bench.run(fields, given)).held)
        await _check_texts(bench, fields, given, what)
        if course.requests:
            await _check_failing_model(bench, fields, given, what)
        for position, each in enumerate(failing):
            try:
                failed = await bench.run(each, given)
            except DocumentError as error:
                raise AssertionError(
                    f"{what}: failing[{position}] is not valid, so that it never runs: {error}; "
                    "give complete fields, not changes to those of the example"
                ) from error
            if failed.result.step_results["step"].status is not StepStatus.FAILED:
                raise AssertionError(f"{what}: failing[{position}] must fail, and did not: {each!r}")
            _check_error(failed, f"{what}: failing[{position}], {each!r},")
        for number in range(1, 5_000):
            cut = await bench.cut(fields, given, number)
            cut.demand_manners(what)
            if cut.ended == "finished":
                break
    if held > _LONG:
        message = (
            f"{what} held up everything else for {held:.1f} s; what takes long without await is for ctx.run_blocking"
        )
        warnings.warn(message, BlockingWarning, stacklevel=3)


def check_step_class(kind: Any) -> None:
    """What can be said of a step type without a document."""
    name = getattr(kind, "__name__", repr(kind))
    if not (isinstance(kind, type) and issubclass(kind, Step)):
        raise AssertionError(f"{name} is no subclass of treadle.Step")
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise AssertionError(f"{name} lacks {', '.join(missing)}")
    try:
        kind.model_json_schema()
    except PydanticUserError as error:  # an annotation that names nothing, or what is no type of a field
        raise AssertionError(f"{name} has a field that cannot be: {error.message.partition(chr(10))[0]}") from error
    for setting, wanted in (("extra", "forbid"), ("frozen", True)):
        if kind.model_config.get(setting) != wanted:
            has = kind.model_config.get(setting)
            raise AssertionError(f"{name}.model_config has {setting}={has!r}; it must be {wanted!r}")
    needs: Any = kind.needs
    for role in (needs,) if isinstance(needs, str) else needs:
        if role not in get_args(Role):
            raise AssertionError(f"{name}.needs names {role!r}, which is no role; it is a tuple of roles")
    left_out: list[TreadleError] = []
    workflow_schema(host_of([offering({"step_type": {_TYPE: kind}})]), left_out=left_out.append)
    if left_out:
        raise AssertionError(f"{name} has no JSON Schema: {left_out[0]}")


class _Course:
    """What was seen of one run."""

    def __init__(self) -> None:
        self.step: Step | None = None
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}
        self.outcome: StepOutcome | None = None
        self.read: set[str] = set()
        self.requests: list[ModelRequest] = []
        self.cut: Cut | None = None
        self.held = 0.0
        self.result: RunResult

    @property
    def error(self) -> BaseException | None:
        return self.result.step_results["step"].exception


class _Bench:
    """Runs the step in a document of its own, and watches."""

    def __init__(
        self,
        step: type[Step],
        others: Sequence[Mapping[str, Any]],
        plugins: Plugins,
        replies: Sequence[Reply] | None,
        sandbox: Callable[[], Sandbox] | None,
        answers: Mapping[str, str],
        what: str,
    ) -> None:
        self._step, self._others, self._plugins = step, others, plugins
        self._replies, self._sandbox, self._answers, self._what = replies, sandbox, answers, what

    async def run(
        self, fields: Mapping[str, Any], state: Mapping[str, Any], *, fails: Exception | None = None
    ) -> _Course:
        """One run; with ``fails``, every model call raises it."""

        async def measured(run: Callable[[], Awaitable[StepOutcome]], course: _Course) -> StepOutcome:
            with holding() as held:
                outcome = await run()
            course.held = max(course.held, held.longest)
            return outcome

        return await self._run(fields, state, fails, measured)

    async def cut(self, fields: Mapping[str, Any], state: Mapping[str, Any], number: int) -> Cut:
        """One run whose step is cancelled at its checkpoint of that number."""

        async def cancelled(run: Callable[[], Awaitable[StepOutcome]], course: _Course) -> StepOutcome:
            course.cut = await cut_at(run, number)
            return course.cut.value if course.cut.ended == "finished" else StepOutcome()

        course = await self._run(fields, state, None, cancelled)
        if course.cut is None:
            raise AssertionError(f"{self._what}: its run failed: {course.error}") from course.error
        return course.cut

    async def _run(
        self,
        fields: Mapping[str, Any],
        state: Mapping[str, Any],
        fails: Exception | None,
        around: Callable[[Callable[[], Awaitable[StepOutcome]], _Course], Awaitable[StepOutcome]],
    ) -> _Course:
        course = _Course()
        replies = self._replies
        if fails is not None:
            replies = [fails] * 100
        kind = _watched(self._step, course, around)
        mine: dict[Role, Mapping[str, Any]] = {"step_type": {_TYPE: kind, "nothing": _Nothing}}
        if replies is None:
            mine["provider"] = {"echo": ProviderOffer(EchoProvider, "Repeats", is_default=True)}
        plugins = named_plugins(self._plugins)
        sandbox = self._sandbox() if self._sandbox else None
        every: dict[str, object] = {**plugins, "the step": offering(mine)}
        host = host_of(every, sandbox=sandbox, replies=replies)
        steps = [{"id": "step", "type": _TYPE, **fields}, *self._others]
        document = {"name": "check", "config": {"max_retries": 0}, "state": dict(state), "steps": steps}
        workflow = api.build_workflow(document, host=host)
        course.step = next(each for each in workflow.steps if each.id == "step")
        async with api.open(host=host) as session:
            course.result = await session.run(workflow)
            while answers := {each.gate: self._answers[each.name] for each in self._asked(course.result)}:
                try:
                    course.result = await session.resume(course.result.run_id, answers=answers)
                except ConfigurationError as error:
                    raise AssertionError(f"{self._what}: it was answered, and asks again: {error.message}") from error
        return course

    def _asked(self, result: RunResult) -> list[Pending]:
        """What it waits for that there is an answer to."""
        return [each for each in result.pending if each.is_gate and each.name in self._answers]


class _Nothing(Step):
    """Does nothing; a target of a step that is tested."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Nothing, at once."""
        await trio.lowlevel.checkpoint()
        return StepOutcome()


def _watched(
    step: type[Step],
    course: _Course,
    around: Callable[[Callable[[], Awaitable[StepOutcome]], _Course], Awaitable[StepOutcome]],
) -> type[Step]:
    """The same step type, whose run is seen."""

    async def run(self: Step, ctx: StepContext) -> StepOutcome:
        course.before = self.model_dump()
        outcome = await around(lambda: step.run(self, _Context(ctx, course)), course)  # type: ignore[arg-type]  # stands in
        course.after, course.outcome = self.model_dump(), outcome
        return outcome

    names = {"run": run, "__module__": step.__module__, "__doc__": step.__doc__}
    return type(step.__name__, (step,), names)


class _Context:
    """The context, with a note of what the step takes from it."""

    def __init__(self, ctx: StepContext, course: _Course) -> None:
        self._ctx, self._course = ctx, course

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    @property
    def state(self) -> Mapping[str, Any]:
        return _State(self._ctx.state, self._course.read)

    def exchange(self, request: ModelRequest) -> Any:
        self._course.requests.append(request)
        return self._ctx.exchange(request)

    async def complete(self, request: ModelRequest) -> Any:
        self._course.requests.append(request)
        return await self._ctx.complete(request)


class _State(Mapping[str, Any]):
    def __init__(self, state: Mapping[str, Any], read: set[str]) -> None:
        self._state, self._read = state, read

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self._state[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def _check_good_run(course: _Course, expect: Mapping[str, Any] | None, what: str) -> None:
    step, outcome, result = course.step, course.outcome, course.result
    assert step is not None
    _check_declarations(step, what)
    mine = result.step_results["step"]
    if mine.status not in (StepStatus.SUCCESS, StepStatus.PAUSED) or outcome is None:
        raise AssertionError(f"{what}: the example ended as {mine.status}: {mine.error}") from course.error
    if course.before != course.after:
        raise AssertionError(f"{what}: its run changed the step itself, which other attempts and runs share")
    declared = {str(path.parts[0]) for path in step.writes()}
    for path in outcome.writes:
        if str(StatePath.parse_state(path).parts[0]) not in declared:
            raise AssertionError(f"{what} writes '{path}', and writes() does not say so")
    if undeclared := sorted(course.read - _roots_read(step)):
        raise AssertionError(f"{what} reads state.{undeclared[0]}, and reads() does not say so")
    if course.requests and outcome.usage != Usage.ZERO:
        raise AssertionError(f"{what}: its outcome counts calls that went through the context, so they count twice")
    for key, value in (expect or {}).items():
        if key not in result.final_state:
            raise AssertionError(f"{what}: the final state has no '{key}'; it has {sorted(result.final_state)}")
        if result.final_state[key] != value:
            raise AssertionError(f"{what}: state.{key} is {result.final_state[key]!r}, and {value!r} was expected")


def _check_declarations(step: Step, what: str) -> None:
    fields = type(step).model_fields
    for reference in step.references():
        if not isinstance(reference, Reference):
            raise AssertionError(f"{what}: references() gave {type(reference).__name__}; a Reference is wanted")
        if reference.field.partition(".")[0] not in fields:
            raise AssertionError(f"{what}: references() names the field '{reference.field}', which it does not have")
    for place, _ in step.reads():
        if place.partition(".")[0] not in fields:
            raise AssertionError(f"{what}: reads() names the field '{place}', which it does not have")
    for request in step.model_requests(RunConfig()):
        if not isinstance(request, ModelRequest):
            raise AssertionError(f"{what}: model_requests() gave {type(request).__name__}; a ModelRequest is wanted")


def _roots_read(step: Step) -> set[str]:
    roots: set[str] = set()
    pending: list[Any] = [value for _, value in step.reads()]
    while pending:
        value = pending.pop()
        if isinstance(value, StatePath):
            roots.add(str(value.parts[0]))
        elif isinstance(value, ArgumentTree):
            pending.extend(leaf for _, leaf in value.leaves())
        elif isinstance(value, Expression):
            roots.update(str(each.parts[0]) for each in value.references if each.root == "state" and each.parts)
        else:
            for each in value.references:
                roots.add(str(each.parts[0]) if each.root == "state" and each.parts else each.root)
    return roots


async def _check_texts(bench: _Bench, fields: Mapping[str, Any], state: Mapping[str, Any], what: str) -> None:
    """Texts of the state in several scripts: the step works or says what it does not take."""
    texts = {key: value + _UNICODE for key, value in state.items() if isinstance(value, str)}
    if texts:
        course = await bench.run(fields, {**state, **texts})
        if course.error is not None:
            _check_error(course, f"{what} with texts in several scripts in the state")


async def _check_failing_model(bench: _Bench, fields: Mapping[str, Any], state: Mapping[str, Any], what: str) -> None:
    limited = RateLimitError("the model is busy", provider="scripted", status_code=429)
    course = await bench.run(fields, state, fails=limited)
    error = course.error
    if error is None:
        return
    _check_error(course, f"{what} where the model is busy")
    if not getattr(error, "transient", False):
        raise AssertionError(
            f"{what} where the model is busy failed for good with {type(error).__name__}: {error}; "
            "an error of the model comes out as it is, so that the step is tried again"
        ) from error


def _check_error(course: _Course, how: str) -> None:
    error = course.error
    if error is not None and not isinstance(error, TreadleError):
        raise AssertionError(
            f"{how} raised {type(error).__name__}: {error}; a step fails with a TreadleError that says what to do"
        ) from error
