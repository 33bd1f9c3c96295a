"""What the built-in tools share: a model of the arguments, which both checks a call and is the schema that a model
sees, and the words for what the sandbox refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from treadle import SandboxError, Tool
from treadle.tools import wrong_arguments

__all__ = ["CheckedTool", "ToolArguments", "refusals_of", "text_of"]


class ToolArguments(BaseModel):
    """Base of a tool's arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CheckedTool(Tool):
    """A tool that holds every call to a model of its arguments."""

    model: ClassVar[type[ToolArguments]]

    def wrong_arguments(self, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What a call would refuse in the arguments."""
        return wrong_arguments(self.model, arguments)


@contextmanager
def refusals_of(tool_name: str) -> Iterator[None]:
    """Name the tool in what the sandbox refuses."""
    try:
        yield
    except SandboxError as error:
        raise SandboxError(
            f"Sandbox violation ({tool_name}): {error.message}", hint=error.hint, transient=error.transient
        ) from error


def text_of(arguments: Mapping[str, Any] | None, name: str) -> str:
    """An argument as a document has it; ``*`` where a model chooses it."""
    value = None if arguments is None else arguments.get(name)
    return value if isinstance(value, str) else "*"
