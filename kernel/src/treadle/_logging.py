"""A run's events as lines of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.contracts.events import (
    ModelCallFailed,
    ModelCallFinished,
    ModelCallStarted,
    RunEvent,
    RunFinished,
    RunStarted,
    RunWarning,
    StepFinished,
    StepRetrying,
    StepStarted,
    TextEmitted,
    ToolCallFinished,
    ToolCallStarted,
)
from treadle.contracts.results import StepStatus

if TYPE_CHECKING:
    from treadle.messages import Usage

__all__ = ["LogObserver"]

_Line = tuple[str, str, dict[str, Any], dict[str, Any]]
"""Level, what happened, what is always said of it, what is content."""


class LogObserver:
    """Writes each event of a run to a structlog logger: ``session.run(workflow, observers=[LogObserver()])``.

    Every line has ``run_id``, and ``step_id`` where a step is meant; then attempts, durations in milliseconds, tokens
    and cost. An unknown number is None.

    Content is what people, models and tools said: prompts, replies, results, the state, questions - and the texts of
    errors and warnings, which may quote them. Without ``content=True`` no line has any; of an error its type is told.

    :param logger: a structlog logger; ``structlog.get_logger("treadle")`` without it.
    """

    def __init__(self, logger: Any = None, *, content: bool = False) -> None:
        if logger is None:
            import structlog

            logger = structlog.get_logger("treadle")
        self._logger = logger
        self._content = content

    async def observe(self, event: RunEvent) -> None:
        """Write the event's line; none for a piece of text where content is left out."""
        if isinstance(event, TextEmitted) and not self._content:
            return
        level, name, fields, content = _line(event)
        ids: dict[str, Any] = {"run_id": event.run_id}
        step_id = getattr(event, "step_id", None)
        if step_id is not None:
            ids["step_id"] = step_id
        getattr(self._logger, level)(name, **ids, **fields, **(content if self._content else {}))


def _line(event: RunEvent) -> _Line:
    match event:
        case RunStarted():
            return "info", "run_started", {"workflow_name": event.workflow_name, "steps": len(event.steps)}, {}
        case StepStarted():
            return "info", "step_started", {"attempt": event.attempt}, {}
        case StepRetrying():
            fields: dict[str, Any] = {"attempt": event.attempt, "wait_ms": event.wait * 1000}
            return "warning", "step_retrying", fields, {"error": event.error}
        case StepFinished():
            return _step_finished(event)
        case ModelCallStarted():
            fields = {"provider": event.provider, "model": event.request.model}
            return "debug", "model_call_started", fields, {"messages": event.request.messages}
        case ModelCallFinished():
            response = event.response
            fields = {
                "provider": response.provider,
                "model": response.model,
                "duration_ms": event.seconds * 1000,
                **_tokens(response.usage),
                "cost_usd": response.cost_usd,
                "finish_reason": response.finish_reason,
            }
            return "debug", "model_call_finished", fields, {"text": response.text}
        case ModelCallFailed():
            fields = {"provider": event.provider, "duration_ms": event.seconds * 1000}
            return "warning", "model_call_failed", fields, {"error": event.error}
        case ToolCallStarted():
            return "debug", "tool_call_started", {"tool_name": event.tool_name, "call_id": event.call_id}, {}
        case ToolCallFinished():
            fields = {
                "tool_name": event.tool_name,
                "call_id": event.call_id,
                "duration_ms": event.seconds * 1000,
                "failed": event.error is not None,
            }
            return "debug", "tool_call_finished", fields, {"error": event.error}
        case TextEmitted():
            return "debug", "text_emitted", {}, {"text": event.text}
        case RunWarning():
            return "warning", "run_warning", {}, {"message": event.message}
        case RunFinished():
            return _run_finished(event)


def _step_finished(event: StepFinished) -> _Line:
    result = event.result
    fields: dict[str, Any] = {"status": str(result.status)}
    if result.status is StepStatus.SKIPPED:
        return "info", "step_finished", {**fields, "reason": result.reason}, {}
    fields |= {
        "attempts": result.attempts,
        "duration_ms": result.duration_ms,
        **_tokens(result.usage),
        "cost_usd": result.cost_usd,
    }
    content: dict[str, Any] = {"output": result.output}
    if result.status in (StepStatus.FAILED, StepStatus.TIMEOUT):
        fields["error_type"] = type(result.exception).__name__ if result.exception else None
        fields["error_classification"] = result.error_classification
        content = {"error": result.error}
    elif result.status is StepStatus.PAUSED:
        fields["pending"] = len(result.pending)
        content = {"questions": [each.question for each in result.pending]}
    return "error" if "error" in content else "info", "step_finished", fields, content


def _run_finished(event: RunFinished) -> _Line:
    result = event.result
    fields = {
        "workflow_name": result.workflow_name,
        "status": str(result.status),
        "duration_ms": result.total_duration_ms,
        "total_tokens": result.total_tokens,
        "cost_usd": result.total_cost_usd,
    }
    content = {"error": result.error, "final_state": result.final_state}
    return "info" if result.ok else "error", "run_finished", fields, content


def _tokens(usage: Usage) -> dict[str, int | None]:
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
