"""The model call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pydantic import Field

from treadle import (
    Message,
    ModelRequest,
    OutputSchema,
    RunConfig,
    Step,
    StepContext,
    StepDetails,
    StepOutcome,
    SystemMessage,
    Template,
    UserMessage,
)
from treadle_llm_call.shape import JsonSchemaShape
from treadle_loop.shapes import read_reply

__all__ = ["LlmCall"]


class LlmCall(Step):
    """Ask a model. ``output`` receives the reply's text, or with a ``response_schema`` the value it holds."""

    needs = ("provider",)

    prompt: Template = Field(description="the user turn")
    system_prompt: Template | None = Field(default=None, description="the system message")
    model: str | None = Field(default=None, min_length=1, description="the model; config.model without it")
    temperature: float | None = Field(default=None, description="sent as given; the provider's own without it")
    max_tokens: int | None = Field(default=None, ge=1, description="the reply's limit in tokens")
    stream: bool | None = Field(
        default=None, description="ask for the reply as it is written; config.stream without it"
    )
    response_schema: JsonSchemaShape | None = Field(default=None, description="the JSON shape of the reply")

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Call the model once.

        :raises TemplateError: a prompt misses a value under ``config.strict_templates``.
        :raises ProviderError: the call failed.
        :raises OutputError: the reply does not have the shape asked for.
        """
        prompt = ctx.render(self.prompt)
        system_prompt = None if self.system_prompt is None else ctx.render(self.system_prompt)
        response = await ctx.complete(self._request(ctx.config, prompt, system_prompt))
        details = StepDetails(
            finish_reason=response.finish_reason,
            reasoning_content=response.message.reasoning or None,
            prompt_metadata={
                "hash": hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest(),
                "length_chars": len(prompt),
                "template_id": f"{self.id}.prompt",
                "template_vars": [reference.text for reference in self.prompt.references],
                "finish_reason": response.finish_reason,
            },
        )
        text = response.text
        if self.response_schema is None:
            return StepOutcome(value=text, details=details)
        return StepOutcome(value=read_reply(text, self.response_schema.schema_), raw=text, details=details)

    def model_requests(self, config: RunConfig) -> Iterable[ModelRequest]:
        """The one request, with its templates as they stand."""
        yield self._request(config, self.prompt.source, self.system_prompt.source if self.system_prompt else None)

    def _request(self, config: RunConfig, prompt: str, system_prompt: str | None) -> ModelRequest:
        messages: tuple[Message, ...] = (UserMessage.of(prompt),)
        if system_prompt is not None:
            messages = (SystemMessage(text=system_prompt), *messages)
        return ModelRequest(
            key=self.id,
            model=self.model or config.model or "",
            messages=messages,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            stream=config.stream if self.stream is None else self.stream,
            output=self._output_schema(),
        )

    def _output_schema(self) -> OutputSchema | None:
        shape = self.response_schema
        if shape is None:
            return None
        return OutputSchema(
            name=shape.name or self.id, schema=shape.schema_, strict=shape.strict, description=shape.description
        )
