"""Tools: what a step or a model may call."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from treadle._dataclasses import dataclass
from treadle.messages import ToolSpec

if TYPE_CHECKING:
    from treadle.contracts.sandbox import Sandbox

__all__ = ["Effect", "Right", "RightKind", "Tool", "ToolContext", "canonical_arguments"]

Effect = Literal["pure", "idempotent", "once"]
"""What running a tool twice does: nothing at all, nothing more than once, or harm."""

RightKind = Literal["tool", "model", "command", "read", "write", "host"]


def canonical_arguments(arguments: Mapping[str, Any]) -> str:
    """The same JSON text for the same arguments, whatever the order of their keys."""
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Something that a workflow asks for. It grants nothing: it is for people who look before they run.

    :param name: the tool, model, program, path or host; a template as it is written; ``*`` where it may be any.
    """

    kind: RightKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may use besides its arguments.

    :param sandbox: the way to files, commands and the network; None where no sandbox is installed.
    :param call_id: names this one call; stable when a run is taken up again.
    :param warn: tell the run's owner something that does not stop it.
    """

    run_id: str
    step_id: str
    call_id: str
    sandbox: Sandbox | None = None
    warn: Callable[[str], None] = field(default=lambda message: None)

    def require_sandbox(self, tool_name: str) -> Sandbox:
        """The sandbox, or a permanent error with the way to get one."""
        if self.sandbox is None:
            from treadle.errors import SandboxError

            raise SandboxError(
                f"tool '{tool_name}' reaches the world through a sandbox, and none is installed",
                hint="pip install treadle-sandbox",
            )
        return self.sandbox


class Tool(ABC):
    """Something that can be done, with a name and typed arguments.

    Set the class attributes (or instance attributes of the same names) and write :meth:`call`.

    :cvar parameters: JSON Schema of the arguments; its root is an object.
    :cvar effect: what running it twice does; None is treated as ``once`` after a crash.
    :cvar timeout: most seconds one call may take.
    :cvar parallel_safe: whether calls of one reply may run at once.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    parameters: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {}}
    effect: ClassVar[Effect | None] = None
    timeout: ClassVar[float | None] = None
    parallel_safe: ClassVar[bool] = True

    @abstractmethod
    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Do it and give a JSON value.

        :raises ToolError: it failed; trying again may help. ``SandboxError``: it was refused.
            Anything else is taken for a fault of the tool and is reported with its type.
        """

    def effect_of(self, arguments: Mapping[str, Any]) -> Effect | None:
        """The effect of this one call, where it depends on the arguments."""
        return self.effect

    def rights(self, arguments: Mapping[str, Any] | None) -> Iterable[Right]:
        """What a call with these arguments would reach: programs, files and hosts.

        :param arguments: as a document has them, with templates as texts; None where a model will choose them.
        """
        return ()

    def wrong_arguments(self, arguments: Mapping[str, Any]) -> Iterable[tuple[str, str]] | None:
        """What :meth:`call` would refuse in the arguments: the name of each, and what is wrong with it.

        None where only the schema is known, which a call may or may not hold its arguments to.
        """
        return None

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)
