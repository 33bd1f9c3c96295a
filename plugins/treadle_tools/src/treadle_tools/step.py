"""The step ``tool``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from treadle import ArgumentTree, DocumentCheck, Reference, Right, Severity, Step, StepContext, StepOutcome, Template

if TYPE_CHECKING:
    from treadle import Tool

__all__ = ["ToolStep"]


class ToolStep(Step):
    """Runs one tool with arguments of the workflow's choice; its value goes to ``output`` as it is."""

    tool_name: str = Field(min_length=1, description="a registered tool")
    tool_args: ArgumentTree = Field(default={}, validate_default=True, description="the tool's arguments")

    async def run(self, ctx: StepContext) -> StepOutcome:
        """Call the tool once.

        :raises TreadleError: as the tool raises; ``NotInstalledError`` where there is no such tool.
        """
        arguments = ctx.render_arguments(self.tool_args)
        return StepOutcome(value=await ctx.call_tool(self.tool_name, arguments))

    def references(self) -> Iterable[Reference]:
        """The tool."""
        return (Reference(role="tool", name=self.tool_name, field="tool_name", is_needed=True),)

    def check_document(self, check: DocumentCheck) -> None:
        """Hold the arguments that are literal, and the names of all, to the tool's own word, or else to its schema.

        What a call would refuse is an error. What a schema alone does not allow is a warning: a tool may take more
        than its schema says, which is written for models.
        """
        tool = check.tool(self.tool_name)
        check.ask(Right(kind="tool", name=self.tool_name))
        if tool is None:
            return
        written = {name: _as_written(value) for name, value in self.tool_args.source.items()}
        for right in tool.rights(written):
            check.ask(right)
        dynamic = {str(place[0]) for place, each in self.tool_args.leaves() if _is_dynamic(each)}
        literal = {name: value for name, value in written.items() if name not in dynamic}
        severity: Severity = "error"
        problems = tool.wrong_arguments({**dict.fromkeys(dynamic, ""), **literal})
        if problems is None:
            severity, problems = "warning", _against_schema(tool, literal, dynamic)
        takes_more = tool.parameters.get("additionalProperties") is not False
        known = dynamic if takes_more else dynamic & tool.parameters.get("properties", {}).keys()
        for name, text in problems:
            # The value of a known one, only the run knows, and what is wrong with all of them may be its fault.
            if name not in known and not (name == "" and dynamic):
                field = f"tool_args.{name}" if name in written else "tool_args" if written else "tool_name"
                check.note(f"{self.tool_name}: {text}", field=field, severity=severity)


def _is_dynamic(each: object) -> bool:
    """Whether only the run knows what the text stands for."""
    return bool(each.references) if isinstance(each, Template) else True


def _as_written(value: Any) -> Any:
    """An argument without the wrapping of what is passed untouched."""
    if isinstance(value, Mapping):
        if value.keys() == {"value", "template"} and value["template"] is False:
            return value["value"]
        return {key: _as_written(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_as_written(below) for below in value]
    return value


def _against_schema(tool: Tool, literal: Mapping[str, Any], dynamic: Iterable[str]) -> Iterator[tuple[str, str]]:
    from treadle_loop.fitting import validator_for, what_is_wrong

    schema = tool.parameters
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in literal and name not in dynamic:
            yield name, f"argument '{name}' is missing"
    for name in (*literal, *dynamic):
        if name not in properties:
            if schema.get("additionalProperties") is False:
                yield name, f"unknown argument '{name}'; it takes {', '.join(properties) or 'none'}"
        elif name in literal:
            # With the definitions of the whole, which the part may refer to.
            definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
            validator = validator_for({**definitions, **properties[name]} if definitions else properties[name])
            if not validator.is_valid(literal[name]):
                yield name, f"argument '{name}': {what_is_wrong(validator, literal[name])}"
