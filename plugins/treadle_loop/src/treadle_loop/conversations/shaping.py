"""Answers that have a shape: how a client is asked for one, and how it stands in the transcript."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

from treadle import OutputError, OutputSchema
from treadle_loop.conversations.toolbox import Registry, ToolSpec
from treadle_loop.errors import ConfigurationError
from treadle_loop.shapes import SchemaShape, Shape, TypeShape, check_schema
from treadle_loop.tools import FINAL_TOOL, FinalTool, final_tool
from treadle_loop.transcript import HostedToolPart, Message, TextPart, ThinkingPart, ToolCallPart

__all__ = ["DEFAULT_OUTPUT_RETRIES", "WantedOutput", "shape_of"]

DEFAULT_OUTPUT_RETRIES = 3


def shape_of(output_type: Any) -> Shape:
    """The shape of a JSON Schema, or of a type: a pydantic model, a dataclass, whatever pydantic can read.

    :raises ConfigurationError: it is neither.
    """
    from pydantic.errors import PydanticUserError

    try:
        if isinstance(output_type, str) or inspect.isroutine(output_type):
            raise TypeError(f"{output_type!r} is no type")  # pydantic would take it for something else
        if isinstance(output_type, Mapping):
            check_schema(output_type)
            return SchemaShape(output_type, name="reply")
        return TypeShape(output_type)
    except (PydanticUserError, TypeError, ValueError) as error:
        what = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"output_type: {what}", hint="give a pydantic model, a dataclass or another type, or a JSON Schema"
        ) from error


class WantedOutput:
    """The shape of one conversation's answer.

    A client that holds replies to a schema is told it, where there are no tools. Otherwise the answer is given by
    calling a tool, which works with every model that has tools.

    :param beside_tools: whether there are tools besides those of the registry.
    :param retries: how often a model that missed it is told what is wrong, and asked again.
    """

    def __init__(
        self, output_type: Any, client: Any, registry: Registry, *, beside_tools: bool = False, retries: int
    ) -> None:
        if retries < 0:
            raise ConfigurationError(f"output_retries is at least 0, not {retries}")
        self.retries = retries
        self.shape = shape_of(output_type)
        self.final: FinalTool | None = None
        if len(registry) or beside_tools or not getattr(client, "output_schemas", False):
            if FINAL_TOOL in registry:
                raise ConfigurationError(f"a tool is named '{FINAL_TOOL}', by which a typed answer is given; rename it")
            self.final = final_tool(self.shape)

    @property
    def output(self) -> OutputSchema | None:
        """What requests say of it."""
        return self.shape.output if self.final is None else None

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tool by which it is given, as requests show it."""
        if self.final is None:
            return ()
        spec = self.final.spec
        return (ToolSpec(spec.name, spec.description, spec.parameters, _never),)

    @property
    def tool_choice(self) -> Literal["auto", "required"]:
        """Of every request."""
        return "auto" if self.final is None else "required"

    def loop_settings(self) -> dict[str, Any]:
        """What the loop is told."""
        told: dict[str, Any] = {"max_complaints": self.retries, "tool_choice_after": self.tool_choice}
        if self.final is not None:
            told["final"] = self.final
        if self._is_shown_as_it_is:
            told["accept"] = lambda response: self.shape.read(response.text)
        return told

    @property
    def _is_shown_as_it_is(self) -> bool:
        """Whether text is read too. Any text holds something that could be meant for a number."""
        return self.final is None or self.final.spec.parameters is self.shape.parameters

    def as_text(self, answer: Message) -> Message:
        """The answer as the transcript keeps it: one that was a call of the tool is its JSON.

        So the conversation can go on with other tools, or another shape: providers refuse calls of what is not there.
        """
        arguments = next((each.arguments for each in answer.tool_calls if self._is_answer(each)), None)
        if arguments is None:
            return answer
        value = arguments if self._is_shown_as_it_is else arguments["value"]
        others = (each for each in answer.content if isinstance(each, ThinkingPart | HostedToolPart))
        return Message(role="assistant", content=(*others, TextPart(text=json.dumps(value, ensure_ascii=False))))

    def _is_answer(self, call: ToolCallPart) -> bool:
        if self.final is None or call.tool_name != FINAL_TOOL or call.parse_error is not None:
            return False
        try:
            self.final.accept(call.arguments)
        except OutputError:
            return False
        return True


def _never(deps: Any, **arguments: Any) -> NoReturn:
    raise AssertionError(f"{FINAL_TOOL} does not run: its arguments are the answer")
