"""A model that goes in circles: the same call, again and again, with the same result."""

from __future__ import annotations

from dataclasses import dataclass, field

from treadle import ToolCallPart, ToolResultPart
from treadle_loop.arguments import canonical
from treadle_loop.tools import with_note

__all__ = ["StallPolicy", "StallWatch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StallPolicy:
    """When a model is told, and when it is stopped: at so many calls of a tool with like arguments and result.

    Calls of tools that do not exist count together under the name, whatever their arguments.
    """

    tell_at: int = 3
    stop_at: int = 6

    def __post_init__(self) -> None:
        if not 2 <= self.tell_at < self.stop_at:
            raise ValueError("stalling is told of from the second call on, and stopped after it was told of")


@dataclass(slots=True)
class StallWatch:
    """Counts the calls of one turn. ``stalled`` names the tool once it is time to stop."""

    policy: StallPolicy
    stalled: str | None = None
    _counts: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def note(self, call: ToolCallPart, result: ToolResultPart, *, exists: bool) -> ToolResultPart:
        """The result, with a word to the model where it is time for one."""
        arguments = canonical(call.arguments, call.raw_arguments) if exists else ""
        key = (call.tool_name, arguments, result.content)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count >= self.policy.stop_at:
            self.stalled = self.stalled or call.tool_name
        if count < self.policy.tell_at:
            return result
        return with_note(
            result,
            f"this is the same result as before, {count} times now; do something else, or answer with what you have",
        )
