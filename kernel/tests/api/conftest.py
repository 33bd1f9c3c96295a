"""A host with two step types, for what a program does with workflows."""

from __future__ import annotations

import pytest

import treadle
from treadle import Host, Step, StepOutcome
from treadle.testing import offering


class Say(Step):
    """Gives a text."""

    text: treadle.Template

    async def run(self, ctx):
        return StepOutcome(value=ctx.render(self.text))


class Call(Step):
    """Calls a tool."""

    tool_name: str
    tool_args: treadle.ArgumentTree

    async def run(self, ctx):
        return StepOutcome(value=await ctx.call_tool(self.tool_name, ctx.render_arguments(self.tool_args)))

    def references(self):
        return [treadle.Reference(role="tool", name=self.tool_name, field="tool_name")]


class Ask(Step):
    """Asks a model."""

    needs = ("provider",)
    prompt: treadle.Template

    async def run(self, ctx):
        request = treadle.ModelRequest(
            model=ctx.config.model or "", messages=[treadle.UserMessage.of(ctx.render(self.prompt))]
        )
        return StepOutcome(value=(await ctx.complete(request)).text)


@pytest.fixture
def host() -> Host:
    """A host with the step types `say`, `call` and `ask`, and nothing else."""
    return Host.of({"lab": offering({"step_type": {"say": Say, "call": Call, "ask": Ask}})})
