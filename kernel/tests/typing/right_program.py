"""A program as a user writes it: mypy --strict must have nothing against it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import treadle
from treadle import (
    AssistantMessage,
    Completed,
    ModelRequest,
    ModelResponse,
    Offer,
    Provider,
    ProviderOffer,
    RunResult,
    Step,
    StepContext,
    StepOutcome,
    StopReason,
    StreamEvent,
    Template,
    Usage,
    hookimpl,
)


class Shout(Step):
    """Write a text in capitals."""

    text: Template

    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome(value=ctx.render(self.text).upper(), usage=Usage(input_tokens=1))


class Parrot(Provider):
    """Says what it is told."""

    @asynccontextmanager
    async def exchange(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        async def events() -> AsyncIterator[StreamEvent]:
            reply = AssistantMessage.of("".join(each.text for each in request.messages if each.role == "user"))
            yield Completed(
                ModelResponse(message=reply, stop_reason=StopReason.END_TURN, model=request.model, provider=self.name)
            )

        yield events()


@hookimpl
def treadle_step_types() -> Mapping[str, Offer]:
    return {"shout": Offer("acme_treadle.step:Shout", "Write a text in capitals")}


@hookimpl
def treadle_providers() -> Mapping[str, ProviderOffer]:
    return {"parrot": ProviderOffer(Parrot, "Says what it is told", default_model="any")}


def main() -> float | None:
    workflow = treadle.load_workflow("flow.yaml").with_config(provider="parrot")
    result: RunResult = treadle.run_sync(workflow, state={"x": 1})
    for step_id, step in result.step_results.items():
        print(step_id, step.status.value, step.usage.total_tokens)
    return result.total_cost_usd


async def in_a_session() -> RunResult:
    async with treadle.open() as session:
        return await session.run(treadle.parse_workflow("name: x"))


@treadle.tool
def word_count(text: str) -> dict[str, int]:
    """Count the words in a text."""
    return {"words": len(text.split())}


@treadle.tool(name="weather", effect="pure", timeout=10)
async def weather_in(city: str, context: treadle.ToolContext) -> str:
    return f"fine in {city}, says {context.step_id}"


class Repeat(treadle.BaseTool):
    name = "repeat"
    parameters_schema = {"type": "object", "properties": {"text": {"type": "string"}}}  # noqa: RUF012 - as users write

    async def execute(self, text: str, times: int = 2) -> str:
        return text * times


async def with_tools_of_its_own() -> float:
    registry = treadle.ToolRegistry([word_count, Repeat])
    registry.register(weather_in, replace=True)
    words: int = word_count("a b")["words"]
    providers = {"parrot": Parrot}
    async with treadle.open(tools=registry, providers=providers, steps={"shout": Shout}) as session:
        workflow = (
            treadle.workflow("x", provider="parrot")
            .state(words=words)
            .step("shout", id="a", text="{state.words}")
            .build(session.host)
        )
        async with session.stream(workflow) as run:
            async for event in run:
                print(event.run_id)
        return run.result.total_duration_ms + len(treadle.run_sync(workflow, tools=[word_count]).step_results)
