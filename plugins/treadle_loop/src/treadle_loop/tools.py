"""Tools as the loop sees them: what the model is told, what its calls are held to, what it hears back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from treadle import OutputError, ToolCallPart, ToolResultPart, ToolSpec
from treadle_loop.arguments import ArgumentCheck, echo

if TYPE_CHECKING:
    from treadle_loop.shapes import Shape

__all__ = ["FINAL_TOOL", "FinalTool", "LoopTool", "failure", "final_tool", "result_of"]

FINAL_TOOL = "final_result"
"""The tool by which a model that has tools gives a typed answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTool:
    """A tool that the model may call.

    :param spec: what the model sees.
    :param check: what arguments are held to; None where nothing is known of them but that they are an object.
    :param parallel_safe: whether it may run beside other calls of the same reply.
    :param max_calls: most calls of one turn; used up, the model does not see it any more.
    :param missing: why it cannot be run, where it is declared and nothing more; the model hears that.
    """

    spec: ToolSpec
    check: ArgumentCheck | None = None
    parallel_safe: bool = True
    max_calls: int | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalTool:
    """A tool by which the model gives its answer. It does not run: its arguments are the answer.

    :param accept: the value, from the arguments; raises ``OutputError`` where they will not do.
    """

    spec: ToolSpec
    accept: Callable[[Mapping[str, Any]], Any]

    def value_in(self, call: ToolCallPart) -> Any:
        """The answer in a call.

        :raises OutputError: saying what is wrong with it.
        """
        if call.arguments is None:
            raise OutputError(unreadable(call))
        return self.accept(call.arguments)


def final_tool(shape: Shape) -> FinalTool:
    """The tool by which an answer of that shape is given.

    Arguments are an object: a shape of another kind is asked for, and read, as the argument ``value``.
    """
    parameters = shape.parameters
    accept: Callable[[Mapping[str, Any]], Any] = shape.value_of
    if parameters.get("type") != "object":
        definitions = {key: parameters[key] for key in ("$defs", "definitions") if key in parameters}
        inner = {key: value for key, value in parameters.items() if key not in definitions}
        parameters = {"type": "object", "properties": {"value": inner}, "required": ["value"], **definitions}
        accept = lambda arguments: shape.value_of(arguments.get("value"))  # noqa: E731  # one line, named by what it is for
    spec = ToolSpec(
        name=FINAL_TOOL,
        description=shape.output.description or "Give your reply by calling this tool, and only so.",
        parameters=parameters,
    )
    return FinalTool(spec=spec, accept=accept)


def result_of(call: ToolCallPart, value: Any) -> ToolResultPart:
    """What the model hears of what a tool gave: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)
    return ToolResultPart(call_id=call.call_id, tool_name=call.tool_name, content=text)


def failure(call: ToolCallPart, message: str) -> ToolResultPart:
    """What the model hears of a call that failed or did not run."""
    return ToolResultPart(call_id=call.call_id, tool_name=call.tool_name, content=message, is_error=True)


def with_note(result: ToolResultPart, note: str) -> ToolResultPart:
    """The result with a word of the loop's after it."""
    return replace(result, content=f"{result.content}\n\n[{note}]")


def unreadable(call: ToolCallPart) -> str:
    """Why a call's arguments cannot be read, and how they began."""
    return f"{call.parse_error}; they were: {echo(call.raw_arguments)}"


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else str(value)
