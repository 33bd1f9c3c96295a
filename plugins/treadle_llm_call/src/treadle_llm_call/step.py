"""The model call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from treadle import (
    Message,
    ModelRequest,
    ModelResponse,
    OutputError,
    Reference,
    RunConfig,
    Step,
    StepContext,
    StepDetails,
    StepOutcome,
    SystemMessage,
    Template,
    UserMessage,
)
from treadle_llm_call.response_schema import ModelBlock, ResponseSchema
from treadle_llm_call.thinking import Thinking
from treadle_llm_call.tool_use import NamedChoice, ToolDeclaration, loop_tools, tool_choice
from treadle_loop.loop import LoopSettings, Outcome
from treadle_loop.shapes import Shape
from treadle_loop.turn import take_turn

__all__ = ["LlmCall"]

_ITERATIONS = 5


class LlmCall(Step):
    """Ask a model. ``output`` receives the reply's text, or with a ``response_schema`` the value it holds.

    With ``tools`` the model may call registered tools, and is asked again with their results until it answers.
    """

    needs = ("provider",)

    prompt: Template = Field(description="the user turn")
    system_prompt: Template | None = Field(default=None, description="the system message")
    model: str | None = Field(default=None, min_length=1, description="the model; config.model without it")
    temperature: float | None = Field(default=None, description="sent as given; the provider's own without it")
    max_tokens: int | None = Field(default=None, ge=1, description="the reply's limit in tokens")
    stream: bool | None = Field(
        default=None, description="ask for the reply as it is written; config.stream without it"
    )
    thinking: Thinking | None = Field(default=None, description="reasoning before the reply")
    tools: tuple[ToolDeclaration, ...] = Field(default=(), description="registered tools that the model may call")
    tool_choice: Literal["auto", "none", "required"] | NamedChoice = Field(
        default="auto",
        description="whether the first reply calls a tool: freely, never, any, or {name: ...}",
    )
    max_tool_iterations: int = Field(
        default=_ITERATIONS, ge=1, description="most model calls of the step, the one that answers included"
    )
    response_schema: ResponseSchema | None = Field(default=None, description="the JSON shape of the reply")

    @model_validator(mode="after")
    def _fits_together(self) -> LlmCall:
        if self.tools and self.response_schema is not None:
            raise ValueError(
                "tools and response_schema cannot share a step; an agent with an output_schema combines them"
            )
        names = [each.name for each in self.tools]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"tools: '{repeated}' is declared twice")
        choice = self.tool_choice
        if isinstance(choice, NamedChoice) and choice.name not in names:
            raise ValueError(f"tool_choice: the step has no tool '{choice.name}'")
        if choice == "required" and not names:
            raise ValueError("tool_choice: required needs tools")
        return self

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Call the model, and go on until it has answered.

        :raises TemplateError: a prompt misses a value under ``config.strict_templates``.
        :raises ProviderError: a call failed.
        :raises OutputError: no reply had the shape asked for.
        """
        prompt = ctx.render(self.prompt)
        system_prompt = None if self.system_prompt is None else ctx.render(self.system_prompt)
        shape = None if self.response_schema is None else self.response_schema.shape(self.id)
        tools = loop_tools(ctx, self.tools)
        settings = LoopSettings(
            max_iterations=self._max_calls(ctx.config),
            tools=tools,
            accept=None if shape is None else lambda response: shape.read(response.text),
        )
        request = self._request(ctx.config, prompt, system_prompt, shape)
        outcome = await take_turn(ctx, request, settings)
        return self._outcome(ctx, outcome, prompt)

    def _max_calls(self, config: RunConfig) -> int:
        """With tools what the step says; with a shape one call and the re-asks that ``retry.max_retries`` allows."""
        if self.response_schema is None:
            return self.max_tool_iterations if self.tools else 1
        retries = self.retry.max_retries
        return 1 + (config.max_retries if retries is None else retries)

    def _outcome(self, ctx: StepContext, outcome: Outcome, prompt: str) -> StepOutcome:
        response = outcome.response
        assert response is not None, "a loop without a deadline or a ceiling has a reply"
        if self.response_schema is not None and outcome.complaint is not None:
            raise OutputError(_unshaped(outcome))
        reason = _finish_reason(outcome, response)
        if outcome.stop == "stalled":
            ctx.warn(f"the model went on calling '{outcome.detail}' with the same result, and was stopped")
        details = StepDetails(
            finish_reason=reason,
            reasoning_content=outcome.reasoning or None,
            prompt_metadata={
                "hash": hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest(),
                "length_chars": len(prompt),
                "template_id": f"{self.id}.prompt",
                "template_vars": [reference.text for reference in self.prompt.references],
                "finish_reason": reason,
            },
        )
        if self.response_schema is None:
            return StepOutcome(value=outcome.text, details=details)
        return StepOutcome(value=outcome.value, raw=outcome.text, details=details)

    def references(self) -> Iterable[Reference]:
        """The tools and the class that it names."""
        for index, each in enumerate(self.tools):
            yield Reference(role="tool", name=each.name, field=f"tools.{index}.name")
        if self.response_schema is not None:
            yield from self.response_schema.references("response_schema")

    def model_requests(self, config: RunConfig) -> Iterable[ModelRequest]:
        """The first request, with its templates as they stand."""
        system_prompt = self.system_prompt.source if self.system_prompt else None
        schema = self.response_schema
        # A class is not imported for this: that it must be importable is checked by what the step refers to.
        shape = schema.shape(self.id) if schema is not None and not isinstance(schema, ModelBlock) else None
        request = self._request(config, self.prompt.source, system_prompt, shape)
        yield request

    def _request(self, config: RunConfig, prompt: str, system_prompt: str | None, shape: Shape | None) -> ModelRequest:
        messages: tuple[Message, ...] = (UserMessage.of(prompt),)
        if system_prompt is not None:
            messages = (SystemMessage(text=system_prompt), *messages)
        return ModelRequest(
            key=self.id,
            model=self.model or config.model or "",
            messages=messages,
            tools=tuple(each.spec() for each in self.tools),
            tool_choice=tool_choice(self.tool_choice) if self.tools else "auto",
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            stream=config.stream if self.stream is None else self.stream,
            reasoning=None if self.thinking is None else self.thinking.reasoning(),
            output=None if shape is None else shape.output,
        )


def _finish_reason(outcome: Outcome, response: ModelResponse) -> str | None:
    """The provider's own word, or why the loop ended without an answer."""
    if outcome.stop == "iterations":
        return "max_tool_iterations" if outcome.text.strip() else "max_tool_iterations_no_answer"
    return "stalled" if outcome.stop == "stalled" else response.finish_reason


def _unshaped(outcome: Outcome) -> str:
    if outcome.stop == "refused":
        return f"the model refused: {outcome.text.strip()[:200] or outcome.complaint}"
    asked = "" if outcome.iterations == 1 else f" ({outcome.iterations} replies)"
    return f"{outcome.complaint}{asked}"
