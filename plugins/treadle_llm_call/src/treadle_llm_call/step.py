"""The model call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from treadle import (
    DocumentCheck,
    Message,
    ModelRequest,
    Reference,
    RunConfig,
    StatePath,
    Step,
    StepContext,
    StepOutcome,
    SystemMessage,
    Template,
    UserMessage,
)
from treadle_llm_call.thinking import Thinking
from treadle_llm_call.tool_use import NamedChoice, ToolDeclaration, tool_choice
from treadle_loop.attachments import (
    Attachment,
    attachment_references,
    attachment_rights,
    stand_ins,
)
from treadle_loop.conversation_field import ConversationField, conversation_path
from treadle_loop.response_schema import ModelBlock, ResponseSchema

if TYPE_CHECKING:
    from treadle_loop.shapes import Shape

__all__ = ["LlmCall"]

_ITERATIONS = 5


class LlmCall(Step):
    """Ask a model. ``output`` receives the reply's text, or with a ``response_schema`` the value it holds.

    With ``tools`` the model may call registered tools, and is asked again with their results until it answers.
    """

    needs = ("provider",)
    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {
                    "required": [name],
                    "properties": {name: {"not": {"type": "null"}, "description": f"a {name}, and not null"}},
                }
                for name in ("prompt", "conversation")
            ]
        }
    )

    conversation: ConversationField | None = Field(
        default=None, description="state path of the conversation to go on with; with a store, {key: ..., store: ...}"
    )
    prompt: Template | None = Field(
        default=None,
        validate_default=True,
        description="the user turn; optional only where a conversation ends with one",
    )
    system_prompt: Template | None = Field(default=None, description="the system message")
    model: str | None = Field(default=None, min_length=1, description="the model; config.model without it")
    temperature: float | None = Field(default=None, description="sent as given; the provider's own without it")
    max_tokens: int | None = Field(default=None, ge=1, description="the reply's limit in tokens")
    stream: bool | None = Field(
        default=None, description="ask for the reply as it is written; config.stream without it"
    )
    attachments: tuple[Attachment, ...] = Field(default=(), description="images, PDFs and audio sent with the prompt")
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
    speaker: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9_-]{1,64}$", description="who answers, where several share a conversation"
    )

    @field_validator("prompt", mode="before")
    @classmethod
    def _is_there(cls, prompt: object, info: ValidationInfo) -> object:
        if prompt is None and info.data.get("conversation") is None:
            raise PydanticKnownError("missing")
        return prompt

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
        if self.speaker is not None and self.conversation is None:
            raise ValueError("speaker names a voice in a conversation, and the step has none")
        if choice == "required" and not names:
            raise ValueError("tool_choice: required needs tools")
        return self

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Call the model, and go on until it has answered.

        :raises TemplateError: a prompt misses a value under ``config.strict_templates``.
        :raises SandboxError, ToolError: an attachment is refused, or cannot be had.
        :raises ProviderError: a call failed.
        :raises OutputError: no reply had the shape asked for.
        """
        from treadle_llm_call.calling import call  # the loop: checking a document needs none

        return await call(self, ctx)

    def writes(self) -> Iterable[StatePath]:
        """The output and the conversation."""
        return (*super().writes(), *self.conversations())

    def conversations(self) -> Iterable[StatePath]:
        """The conversation, if it has one."""
        return conversation_path(self.conversation)

    def check_document(self, check: DocumentCheck) -> None:
        """Tell what its attachments ask for."""
        for right in attachment_rights(self.attachments):
            check.ask(right)

    def references(self) -> Iterable[Reference]:
        """The tools and the class that it names, what keeps its conversation, and what reads its attachments."""
        yield from attachment_references(self.attachments)
        if self.conversation is not None:
            yield Reference(role="memory", field="conversation")
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
        turn = UserMessage.of(self.prompt.source if self.prompt else "")
        if self.prompt is not None:
            turn = replace(turn, parts=(*turn.parts, *stand_ins(self.attachments)))
        messages: tuple[Message, ...] = (turn,)
        if system_prompt is not None:
            messages = (SystemMessage(text=system_prompt), *messages)
        yield replace(self.request(config, shape), messages=messages)

    def request(self, config: RunConfig, shape: Shape | None) -> ModelRequest:
        """What is asked of the model, without the messages."""
        return ModelRequest(
            key=self.id,
            model=self.model or config.model or "",
            messages=(),
            tools=tuple(each.spec() for each in self.tools),
            tool_choice=tool_choice(self.tool_choice) if self.tools else "auto",
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            stream=config.stream if self.stream is None else self.stream,
            reasoning=None if self.thinking is None else self.thinking.reasoning(),
            output=None if shape is None else shape.output,
        )
