"""The suite of step types passes good ones, and has a sentence for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any, ClassVar

import pytest
import trio
from pydantic import ConfigDict, Field

from treadle import (
    ModelRequest,
    OutputError,
    Pending,
    Reference,
    StatePath,
    Step,
    StepContext,
    StepError,
    StepOutcome,
    Template,
    Usage,
    UserMessage,
    tool,
)
from treadle.testing import BlockingWarning, FakeContext, FakeSandbox, check_step, offering


class Shout(Step):
    """Writes a text in capitals, and is broken in the way that a test says."""

    text: Template = Field(description="what is shouted")

    async def run(self, ctx: StepContext) -> StepOutcome:
        await trio.lowlevel.checkpoint()
        text = ctx.render(self.text)
        if not text:
            raise StepError("there is nothing to shout")
        return StepOutcome(value=self.shout(text))

    def shout(self, text: str) -> Any:
        return text.upper()


class Ask(Step):
    """Asks a model."""

    prompt: Template

    async def run(self, ctx: StepContext) -> StepOutcome:
        response = await ctx.complete(ModelRequest(model="m", messages=(UserMessage.of(ctx.render(self.prompt)),)))
        return self.outcome(response)

    def outcome(self, response: Any) -> StepOutcome:
        return StepOutcome(value=response.text)


class Pick(Step):
    """Goes to one of two steps."""

    source: StatePath
    yes: str
    no: str

    async def run(self, ctx: StepContext) -> StepOutcome:
        await trio.lowlevel.checkpoint()
        return StepOutcome(not_taken=frozenset({self.no if ctx.state[str(self.source)] else self.yes}))

    def targets(self) -> dict[str, str]:
        return {self.yes: "yes", self.no: "no"}

    def target_fields(self) -> dict[str, str]:
        return {"yes": self.yes, "no": self.no}


class UseTool(Step):
    """Calls a tool by name."""

    tool_name: str

    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome(value=await ctx.call_tool(self.tool_name, {}))

    def references(self) -> list[Reference]:
        return [Reference(role="tool", name=self.tool_name, field="tool_name")]


@tool
async def greet() -> str:
    """Greet."""
    await trio.lowlevel.checkpoint()
    return "hi"


EXAMPLE: Any = {"fields": {"text": "{state.name}!", "output": "said"}, "state": {"name": "Ada"}}


async def test_good_steps_pass() -> None:
    await check_step(Shout, **EXAMPLE, expect={"said": "ADA!"}, failing=[{"text": ""}])
    await check_step(Ask, {"prompt": "Hi", "output": "answer"}, expect={"answer": "Hi"})
    await check_step(Ask, {"prompt": "Hi", "output": "answer"}, replies=["Hello."], expect={"answer": "Hello."})
    leaves = [{"id": each, "type": "nothing", "depends_on": ["step"]} for each in "cd"]
    await check_step(Pick, {"source": "ok", "yes": "c", "no": "d"}, state={"ok": True}, others=leaves)
    await check_step(
        UseTool,
        {"tool_name": "greet", "output": "said"},
        plugins={"tools": offering({"tool": {"greet": greet}})},
        sandbox=FakeSandbox,
        expect={"said": "hi"},
    )


class Loose(Shout):
    model_config = ConfigDict(extra="ignore")


class Melted(Shout):
    model_config = ConfigDict(frozen=False)


class Needy(Shout):
    needs = ("memories",)  # type: ignore[assignment]  # the fault


class Swallows(Shout):
    async def run(self, ctx: StepContext) -> StepOutcome:
        try:
            return await super().run(ctx)
        except trio.Cancelled:
            return StepOutcome(value="partial")


class Wraps(Shout):
    async def run(self, ctx: StepContext) -> StepOutcome:
        try:
            return await super().run(ctx)
        except BaseException as error:
            raise StepError(f"it broke: {error}") from error


class ReadsMore(Shout):
    async def run(self, ctx: StepContext) -> StepOutcome:
        ctx.state.get("secret")
        return await super().run(ctx)


class WritesMore(Shout):
    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome(value=(await super().run(ctx)).value, writes={"log.said": 1})


class ChangesItself(Shout):
    words: list[str] = Field(default_factory=list)

    async def run(self, ctx: StepContext) -> StepOutcome:
        self.words.append("x")
        return await super().run(ctx)


class GivesText(Shout):
    async def run(self, ctx: StepContext) -> Any:
        await trio.lowlevel.checkpoint()
        return "HI"


class GivesBytes(Shout):
    def shout(self, text: str) -> Any:
        return text.encode()


class Ascii(Shout):
    def shout(self, text: str) -> Any:
        return text.encode("ascii").decode().upper()


class RaisesKeyError(Shout):
    async def run(self, ctx: StepContext) -> StepOutcome:
        text = ctx.render(self.text)
        return StepOutcome(value={"Ada!": 1}[text])


class NamesNoField(Shout):
    def references(self) -> list[Reference]:
        return [Reference(role="object", name="os:sep", field="tool")]


class ReadsNoField(Shout):
    def reads(self) -> list[Any]:
        return [("texts", self.text)]


class DoubleUsage(Ask):
    def outcome(self, response: Any) -> StepOutcome:
        return StepOutcome(value=response.text, usage=Usage(input_tokens=1, output_tokens=1))


class HidesFailure(Ask):
    async def run(self, ctx: StepContext) -> StepOutcome:
        try:
            return await super().run(ctx)
        except Exception as error:
            raise OutputError(f"no answer: {error}") from error


class CrashesOnFailure(Ask):
    async def run(self, ctx: StepContext) -> StepOutcome:
        try:
            return await super().run(ctx)
        except Exception as error:
            raise ValueError("no answer") from error


class WrongEdge(Pick):
    async def run(self, ctx: StepContext) -> StepOutcome:
        await trio.lowlevel.checkpoint()
        return StepOutcome(not_taken=frozenset({"elsewhere"}))


class WrongTargetField(Pick):
    def target_fields(self) -> dict[str, str]:
        return {"yes": "elsewhere"}


class Misspelt(Shout):
    words: Tmplate  # type: ignore[name-defined]  # noqa: F821


FAULTS = [
    (Misspelt, "^Misspelt has a field that cannot be: `Misspelt` is not fully defined"),
    (Loose, "Loose.model_config has extra='ignore'; it must be 'forbid'"),
    (Melted, "Melted.model_config has frozen=False; it must be True"),
    (Needy, "Needy.needs names 'memories', which is no role"),
    (Swallows, "step 'Swallows' swallowed a cancellation at its checkpoint 1"),
    (Wraps, "a cancellation of step 'Wraps' at its checkpoint 1 came out as StepError: it broke"),
    (ReadsMore, r"reads state.secret, and reads\(\) does not say so"),
    (WritesMore, r"writes 'log.said', and writes\(\) does not say so"),
    (ChangesItself, "its run changed the step itself"),
    (GivesText, "the example ended as failed: .* must give a StepOutcome, not str"),
    (GivesBytes, "the example ended as failed: .*bytes"),
    (
        Ascii,
        "with texts in several scripts in the state raised UnicodeEncodeError: .*; a step fails with",
    ),
    (RaisesKeyError, "with texts in several scripts in the state raised KeyError"),
    (NamesNoField, r"references\(\) names the field 'tool', which it does not have"),
    (ReadsNoField, r"reads\(\) names the field 'texts', which it does not have"),
    (DoubleUsage, "its outcome counts calls that went through the context, so they count twice"),
    (HidesFailure, "where the model is busy failed for good with OutputError: no answer: the model is busy"),
    (CrashesOnFailure, "where the model is busy raised ValueError: no answer; a step fails with a TreadleError"),
    (WrongEdge, "the example ended as failed: .*did not take edges that it does not have: elsewhere"),
    (WrongTargetField, "the example failed with DocumentError: .*no step 'elsewhere'"),
    (type("Plain", (), {}), "Plain is no subclass of treadle.Step"),
    (type("Half", (Step,), {"__module__": __name__}), "Half lacks run"),
]


@pytest.mark.parametrize(("kind", "sentence"), FAULTS, ids=range(len(FAULTS)))
async def test_each_fault_has_its_sentence(kind: Any, sentence: str) -> None:
    example = EXAMPLE
    if issubclass(kind, Ask):
        example = {"fields": {"prompt": "Hi", "output": "answer"}}
    if issubclass(kind, Pick):
        leaves = [{"id": each, "type": "leaf", "text": "x", "depends_on": ["step"]} for each in "cd"]
        fields = {"source": "ok", "yes": "c", "no": "d"}
        plugins = [offering({"step_type": {"leaf": Shout}})]
        example = {"fields": fields, "state": {"ok": True}, "plugins": plugins, "others": leaves}
    with pytest.raises(AssertionError, match=sentence):
        await check_step(kind, **example)


async def test_expectations_are_compared() -> None:
    with pytest.raises(AssertionError, match=r"state\.said is 'ADA!', and 'ada' was expected"):
        await check_step(Shout, **EXAMPLE, expect={"said": "ada"})
    with pytest.raises(AssertionError, match="the final state has no 'sayed'; it has"):
        await check_step(Shout, **EXAMPLE, expect={"sayed": "ADA!"})
    with pytest.raises(AssertionError, match=r"failing\[1\] must fail, and did not: {'text': 'x'}"):
        await check_step(Shout, **EXAMPLE, failing=[{"text": ""}, {"text": "x"}])
    with pytest.raises(AssertionError, match=r"failing\[0\] is not valid.*.text. is missing; give complete fields"):
        await check_step(Shout, **EXAMPLE, failing=[{"output": "said"}])
    with pytest.raises(AssertionError, match=r"step\.txt: unknown field; did you mean"):
        await check_step(Shout, {"txt": "x"})


# --- steps that ask ---


class Asks(Step):
    """Pauses with a question, and gives the answer."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        question = Pending(question="Which?", choices=("a", "b"))
        answer = ctx.answer(question)
        return StepOutcome(pending=(question,)) if answer is None else StepOutcome(value=answer)


class AsksForEver(Step):
    """Never looks for the answer."""

    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome(pending=(Pending(question="Which?"),))


async def test_a_step_that_asks_is_answered_and_held_to_the_rest():
    await check_step(Asks, {"output": "x"}, answers={"": "b"}, expect={"x": "b"})


async def test_a_step_that_does_not_read_its_answer_is_told_so():
    with pytest.raises(AssertionError, match="step 'AsksForEver': it was answered, and asks again"):
        await check_step(AsksForEver, {}, answers={"": "b"})


async def test_a_step_of_a_test_without_an_engine_has_the_answers_that_are_given():
    outcome = await Asks(id="a", type="asks").run(FakeContext(answers={"Which?": "a"}))
    assert outcome.value == "a"
    assert (await Asks(id="a", type="asks").run(FakeContext())).pending[0].question == "Which?"


# --- steps that hold up everything ---


class _Clock:
    """A clock that goes on when a step says so."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Works(Step):
    """Works without a checkpoint, and waits with one, for as long as a test says of each of its runs."""

    clock: ClassVar[_Clock]
    busy: ClassVar[Iterator[float]]

    async def run(self, ctx: StepContext) -> StepOutcome:
        await trio.lowlevel.checkpoint()
        self.clock.now += next(self.busy)
        return StepOutcome()


class Waits(Works):
    async def run(self, ctx: StepContext) -> StepOutcome:
        for _ in range(4):
            self.clock.now += 0.2
            await trio.lowlevel.checkpoint()
        return StepOutcome()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = Works.clock = _Clock()
    monkeypatch.setattr("treadle.testing.cancellation.time", clock)
    return clock


async def test_a_step_that_blocks_whenever_it_runs_is_warned_of_and_is_no_failure(clock: _Clock) -> None:
    Works.busy = chain([1.0, 0.75, 2.0], repeat(1.0))
    with pytest.warns(BlockingWarning) as told:
        await check_step(Works, {})
    assert [str(each.message) for each in told] == [
        "step 'Works' held up everything else for 0.8 s; what takes long without await is for ctx.run_blocking"
    ]
    assert told[0].filename == __file__


async def test_a_step_that_was_slow_once_or_waits_at_checkpoints_is_not_warned_of(clock: _Clock) -> None:
    """The first time may import what the others have; warnings are errors here."""
    Works.busy = chain([5.0, 4.0], repeat(0.25))
    await check_step(Works, {})
    await check_step(Waits, {})
