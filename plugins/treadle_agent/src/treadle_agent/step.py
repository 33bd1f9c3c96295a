"""The step that runs one turn of an agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field, PrivateAttr, model_validator

from treadle import (
    DocumentCheck,
    ModelRequest,
    Reference,
    RunConfig,
    StatePath,
    Step,
    StepContext,
    StepDetails,
    StepOutcome,
    SystemMessage,
    Template,
    ToolSpec,
    UserMessage,
)
from treadle_agent.checking import check_agent
from treadle_agent.definition import AgentDefinition, AgentTool, FileOrDefinition, agent_spec
from treadle_loop.attachments import (
    Attachment,
    attachment_references,
    attachment_rights,
    fetch_attachments,
    stand_ins,
)
from treadle_loop.conversation_field import ConversationField, conversation_path
from treadle_loop.loop import Outcome
from treadle_loop.opening import open_turn
from treadle_loop.response_schema import ModelBlock

if TYPE_CHECKING:
    from treadle_agent.turn import AgentReply, Approve
    from treadle_loop.shapes import Shape

__all__ = ["AgentStep"]

_OWNED = frozenset(
    {
        "max_tokens",
        "max_tool_iterations",
        "model",
        "response_schema",
        "speaker",
        "system_prompt",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
    }
)
"""What the agent says, and not the step."""


class AgentStep(Step):
    """Run one turn of an agent. ``output`` receives the reply: its text, or with an ``output_schema`` its value."""

    needs = ("provider",)

    agent: FileOrDefinition = Field(description="the agent's file, or its definition")
    conversation: ConversationField | None = Field(
        default=None, description="state path of the conversation to go on with; with a store, {key: ..., store: ...}"
    )
    prompt: Template = Field(description="the user turn")
    attachments: tuple[Attachment, ...] = Field(default=(), description="images, PDFs and audio sent with the prompt")
    _files: dict[str, AgentDefinition] = PrivateAttr(default_factory=dict)  # as they were when the step was checked

    @model_validator(mode="before")
    @classmethod
    def _says_only_what_is_its_own(cls, given: Any) -> Any:
        if isinstance(given, dict) and (owned := sorted(_OWNED & given.keys())):
            names = ", ".join(owned)
            raise ValueError(f"{names}: the agent's own to say, not the step's; set it in the agent's definition")
        return given

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Take the turn.

        :raises StepError: the turn failed; whether trying again may help is the error's own word.
        :raises ProviderError: a model call failed.
        """
        from treadle_agent.turn import PausedTurn

        try:
            _, outcome = await self.take(ctx, may_pause=ctx.is_recorded)
        except PausedTurn as paused:
            return StepOutcome(pending=paused.pending)
        return outcome

    async def take(
        self, ctx: StepContext, approve: Approve | None = None, *, may_pause: bool = False
    ) -> tuple[AgentReply, StepOutcome]:
        """The turn, and what the step makes of it.

        :param approve: asks a person about calls of tools that the agent may not call by itself.
        :param may_pause: whether such calls may wait for a person, where there is nobody to ask now.
        :raises PausedTurn: they wait.
        """
        from treadle_agent.turn import AgentTurn  # which brings trio: checking a document needs none

        agent = self.agent
        definition = agent if isinstance(agent, AgentDefinition) else ctx.document(agent, AgentDefinition)
        turn = AgentTurn(
            ctx=ctx,
            definition=definition,
            definitions=lambda path: ctx.document(path, AgentDefinition),
            key=self.id,
            model=ctx.config.model or "",
            stream=ctx.config.stream,
            approve=approve,
            may_pause=may_pause,
        )
        system_prompt = turn.prepare()
        prompt = ctx.render(self.prompt)
        media = await fetch_attachments(ctx, self.attachments)
        opening = await open_turn(
            ctx,
            prompt=prompt,
            system_prompt=system_prompt,
            media=media,
            model=definition.model or ctx.config.model or "",
            conversation=self.conversation,
            speaker=definition.name if self.conversation is not None else None,
            settings=definition.memory.model_dump(exclude_none=True),
        )
        reply = await turn.take(opening)
        if ctx.config.stream and turn.is_checked:
            ctx.emit_text(reply.text)
        details = StepDetails(
            finish_reason=_finish_reason(reply.outcome),
            attachment_count=len(media),
            reasoning_content=reply.outcome.reasoning or None,
        )
        writes = opening.writes(ctx, reply.text, speaker=definition.name)
        return reply, StepOutcome(value=reply.value, raw=reply.text, writes=writes, details=details)

    def check_document(self, check: DocumentCheck) -> None:
        """Check the agent's file and those of the agents below it, and tell what its attachments ask for."""
        self._files.update(check_agent(check, self.agent, field="agent"))
        for right in attachment_rights(self.attachments):
            check.ask(right)

    def references(self) -> Iterable[Reference]:
        """What keeps its conversation, and what reads its attachments."""
        yield from attachment_references(self.attachments)
        if self.conversation is not None:
            yield Reference(role="memory", field="conversation")

    def writes(self) -> Iterable[StatePath]:
        """The output and the conversation."""
        return (*super().writes(), *self.conversations())

    def conversations(self) -> Iterable[StatePath]:
        """The conversation, if it has one."""
        return conversation_path(self.conversation)

    def model_requests(self, config: RunConfig) -> Iterable[ModelRequest]:
        """The first request, with its templates as they stand; of an agent that is a file, once that was checked."""
        agent = self._files.get(self.agent) if isinstance(self.agent, str) else self.agent
        if agent is None:
            return
        turn, tools, shape = UserMessage.of(self.prompt.source), [*self._specs(agent)], _shape(agent)
        if tools and shape is not None:
            from treadle_loop.tools import final_tool  # which brings the check of arguments

            tools.append(final_tool(shape).spec)
        request = ModelRequest(
            key=self.id,
            model=agent.model or config.model or "",
            messages=(replace(turn, parts=(*turn.parts, *stand_ins(self.attachments))),),
            tools=tuple(tools),
            output=None if tools or shape is None else shape.output,
            temperature=agent.temperature,
            max_tokens=agent.max_tokens,
        )
        if agent.system_prompt is not None:
            request = replace(request, messages=(SystemMessage(text=agent.system_prompt.source), *request.messages))
        yield request

    def _specs(self, agent: AgentDefinition) -> Iterator[ToolSpec]:
        """What the agent's model sees, as far as documents tell: of registered tools, the names."""
        for each in agent.tools:
            if not isinstance(each, AgentTool):
                yield ToolSpec(name=each if isinstance(each, str) else each.name)
                continue
            other = each.agent if isinstance(each.agent, AgentDefinition) else self._files.get(each.agent)
            told = other.description if each.description is None and other is not None else each.description
            yield agent_spec(each.name, told or "")


def _shape(agent: AgentDefinition) -> Shape | None:
    """Of its reply. A class is not imported for this: that it must be importable is checked."""
    schema = agent.output_schema
    return None if schema is None or isinstance(schema, ModelBlock) else schema.shape(agent.name)


def _finish_reason(outcome: Outcome) -> str | None:
    """The provider's own word, or why the turn ended without an answer."""
    if outcome.stop == "answer":
        return None if outcome.response is None else outcome.response.finish_reason
    return "max_iterations" if outcome.stop == "iterations" else outcome.stop
