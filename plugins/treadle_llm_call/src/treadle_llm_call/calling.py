"""The model call as it runs."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle import ModelResponse, OutputError, RunConfig, StepContext, StepDetails, StepOutcome, ToolSpec
from treadle_loop.attachments import fetch_attachments
from treadle_loop.loop import LoopSettings, Outcome
from treadle_loop.opening import open_turn
from treadle_loop.tools import LoopTool
from treadle_loop.turn import loop_tool, registered, take_turn

if TYPE_CHECKING:
    from treadle_llm_call.step import LlmCall
    from treadle_llm_call.tool_use import ToolDeclaration

__all__ = ["call"]


async def call(step: LlmCall, ctx: StepContext) -> StepOutcome:
    """Call the model, and go on until it has answered; raises as :meth:`LlmCall.run` says."""
    prompt = None if step.prompt is None else ctx.render(step.prompt)
    system_prompt = None if step.system_prompt is None else ctx.render(step.system_prompt)
    shape = None if step.response_schema is None else step.response_schema.shape(step.id)
    # They go with the user turn; a conversation that is gone on with as it is has none.
    media = () if prompt is None else await fetch_attachments(ctx, step.attachments)
    tools = _tools(ctx, step.tools)
    settings = LoopSettings(
        max_iterations=_max_calls(step, ctx.config),
        tools=tools,
        accept=None if shape is None else lambda response: shape.read(response.text),
    )
    request = step.request(ctx.config, shape)
    opening = await open_turn(
        ctx,
        prompt=prompt,
        system_prompt=system_prompt,
        model=request.model,
        media=media,
        conversation=step.conversation,
        speaker=step.speaker,
    )
    outcome = await take_turn(ctx, replace(request, messages=opening.messages), settings)
    made = _outcome(step, ctx, outcome, prompt, len(media))
    return replace(made, writes=opening.writes(ctx, outcome.text, speaker=step.speaker))


def _tools(ctx: StepContext, declared: tuple[ToolDeclaration, ...]) -> dict[str, LoopTool]:
    """The declared tools for the loop. One that is not registered is shown all the same, and says so when it is called.

    The model sees the step's description and parameters; arguments are held to the registered tool's own parameters.
    """
    found = registered(ctx, (each.name for each in declared))
    tools: dict[str, LoopTool] = {}
    for each in declared:
        tool = found.get(each.name)
        if tool is None:
            ctx.warn(f"tool '{each.name}' is not registered here: the model sees it and cannot use it")
            missing = f"tool '{each.name}' is not registered here, so it cannot run; do without it"
            tools[each.name] = LoopTool(spec=each.spec(), missing=missing)
            continue
        spec = ToolSpec(
            name=each.name,
            description=tool.description if each.description is None else each.description,
            parameters=tool.parameters if each.parameters is None else each.parameters,
        )
        tools[each.name] = loop_tool(tool, spec)
    return tools


def _max_calls(step: LlmCall, config: RunConfig) -> int:
    """With tools what the step says; with a shape one call and the re-asks that ``retry.max_retries`` allows."""
    if step.response_schema is None:
        return step.max_tool_iterations if step.tools else 1
    retries = step.retry.max_retries
    return 1 + (config.max_retries if retries is None else retries)


def _outcome(step: LlmCall, ctx: StepContext, outcome: Outcome, prompt: str | None, attachments: int) -> StepOutcome:
    response = outcome.response
    assert response is not None, "a loop without a deadline or a ceiling has a reply"
    if step.response_schema is not None and outcome.complaint is not None:
        raise OutputError(_unshaped(outcome))
    reason = _finish_reason(outcome, response)
    if outcome.stop == "stalled":
        ctx.warn(f"the model went on calling '{outcome.detail}' with the same result, and was stopped")
    details = StepDetails(
        finish_reason=reason,
        attachment_count=attachments,
        reasoning_content=outcome.reasoning or None,
        prompt_metadata=_about_prompt(step, prompt, reason),
    )
    if step.response_schema is None:
        return StepOutcome(value=outcome.text, details=details)
    return StepOutcome(value=outcome.value, raw=outcome.text, details=details)


def _about_prompt(step: LlmCall, prompt: str | None, finish_reason: str | None) -> dict[str, Any] | None:
    if prompt is None or step.prompt is None:
        return None
    return {
        "hash": hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest(),
        "length_chars": len(prompt),
        "template_id": f"{step.id}.prompt",
        "template_vars": [reference.text for reference in step.prompt.references],
        "finish_reason": finish_reason,
    }


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
