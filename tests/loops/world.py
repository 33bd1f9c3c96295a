"""A world for the loop: replies from a list, tools from functions, every ask kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treadle import (
    AssistantMessage,
    ModelRequest,
    ModelResponse,
    StopReason,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    UserMessage,
)
from treadle_loop.arguments import ArgumentCheck
from treadle_loop.asks import RunTools
from treadle_loop.drivers import drive_sync
from treadle_loop.loop import LoopSettings, Outcome, converse
from treadle_loop.tools import LoopTool, result_of


def call(name: str, arguments: Mapping[str, Any] | None = None, call_id: str = "c1", **more: Any) -> ToolCallPart:
    if "parse_error" not in more:
        arguments = arguments or {}
    return ToolCallPart(call_id=call_id, tool_name=name, arguments=arguments, **more)


def said(*parts: str | ToolCallPart, stop: StopReason | None = None, finish: str | None = None) -> ModelResponse:
    content = tuple(TextPart(text=each) if isinstance(each, str) else each for each in parts)
    calls = any(isinstance(each, ToolCallPart) for each in parts)
    return ModelResponse(
        message=AssistantMessage(parts=content),
        stop_reason=stop or (StopReason.TOOL_USE if calls else StopReason.END_TURN),
        finish_reason=finish or ("tool_calls" if calls else "stop"),
        model="m",
        provider="p",
    )


def tool(name: str, parameters: Mapping[str, Any] | None = None, **more: Any) -> LoopTool:
    schema = parameters or {"type": "object", "properties": {}}
    return LoopTool(spec=ToolSpec(name=name, parameters=schema), check=ArgumentCheck(name, schema), **more)


class World:
    """Answers what the loop asks."""

    def __init__(self, *replies: ModelResponse, **tools: Callable[..., Any]) -> None:
        self.replies = list(replies)
        self.tools = tools
        self.requests: list[ModelRequest] = []
        self.batches: list[RunTools] = []

    def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        return self.replies.pop(0)

    def run_tools(self, ask: RunTools) -> Sequence[ToolResultPart]:
        self.batches.append(ask)
        return [result_of(each, self.tools[each.tool_name](**(each.arguments or {}))) for each in ask.calls]

    def converse(self, prompt: str = "go", *, request: ModelRequest | None = None, **settings: Any) -> Outcome:
        request = request or ModelRequest(model="m", messages=(UserMessage.of(prompt),))
        defaults: dict[str, Any] = {"max_iterations": 10, "tools": {name: tool(name) for name in self.tools}}
        return drive_sync(
            converse(request, LoopSettings(**{**defaults, **settings})),
            complete=self.complete,
            run_tools=self.run_tools,
        )
