"""Tools for a conversation: what the model is shown, what runs, and what tools are handed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

import treadle
from treadle_loop.errors import ConfigurationError
from treadle_loop.transcript import ToolCallPart

__all__ = [
    "Deps",
    "HostedTool",
    "Registry",
    "ToolDeps",
    "ToolSpec",
    "allow_all",
    "check_client",
    "check_deps",
    "check_iterable",
    "check_tools",
    "tool",
]


def allow_all(call: ToolCallPart) -> None:
    """Let every tool call run."""
    return


@runtime_checkable
class ToolDeps(Protocol):
    """What is asked of dependencies: who may run. Everything else on them is the application's."""

    @property
    def before_tool(self) -> Callable[[ToolCallPart], str | None]:
        """Asked before each call: None lets it run, a text denies it and is told to the model."""
        ...


class Deps(BaseModel):
    """The dependencies that tools are handed. Subclass it to carry state of your own."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    before_tool: Callable[[ToolCallPart], Any] = allow_all


@dataclass(frozen=True)
class ToolSpec:
    """A tool.

    :param parameters: the JSON Schema of its arguments, kept as the object that was given.
    :param handler: called as ``handler(deps, **arguments)``; what it gives is turned into text. May be async.
    :param timeout_seconds: after so long the model is told that the outcome is unknown.
    :param parallel_safe: whether it may run beside the other calls of a reply.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(compare=False)
    handler: Callable[..., Any] = field(compare=False)
    timeout_seconds: float | None = None
    parallel_safe: bool = True

    def __post_init__(self) -> None:
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise ValueError(f"tool '{self.name}': timeout_seconds is above 0, not {self.timeout_seconds}")


def tool(
    parameters: Mapping[str, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_seconds: float | None = None,
    parallel_safe: bool = True,
) -> Callable[[Callable[..., Any]], ToolSpec]:
    """Make a tool of a function, with a schema written by hand.

    A parameter ``deps`` of the function is given the conversation's dependencies; the model does not see it.

    :param description: what the model reads; without it the first paragraph of the docstring.
    :raises ValueError: there is neither.
    """
    if not isinstance(parameters, Mapping):
        raise ValueError("@tool(...) takes the JSON Schema of the tool's arguments")

    def make(function: Callable[..., Any]) -> ToolSpec:
        tool_name = name or function.__name__
        told = description or _first_paragraph(function)
        if not told:
            raise ValueError(f"tool '{tool_name}' has no description; give it a docstring, or description=")
        return ToolSpec(tool_name, told, parameters, _handler(function), timeout_seconds, parallel_safe)

    return make


def _first_paragraph(function: Callable[..., Any]) -> str:
    paragraph = (inspect.getdoc(function) or "").strip().split("\n\n", 1)[0]
    return " ".join(paragraph.split())


def _handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as ``handler(deps, **arguments)``, with a signature that says so."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return lambda deps, **arguments: function(**arguments)
    wants_deps = "deps" in signature.parameters

    def given(deps: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "deps": deps} if wants_deps else arguments

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def handler(deps: Any, /, **arguments: Any) -> Any:
            return await function(**given(deps, arguments))
    else:

        @functools.wraps(function)
        def handler(deps: Any, /, **arguments: Any) -> Any:
            return function(**given(deps, arguments))

    first = inspect.Parameter("deps", inspect.Parameter.POSITIONAL_ONLY)
    others = [each for each in signature.parameters.values() if each.name != "deps"]
    handler.__signature__ = signature.replace(parameters=[first, *_by_keyword(others)])  # type: ignore[attr-defined]  # what inspect looks for
    return handler


def _by_keyword(parameters: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    """As they are reached from here: by name."""
    named = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in parameters
        if each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    ]
    return [*named, *(each for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD)]


class Registry:
    """Tools by name.

    :raises ConfigurationError: something is no tool for a conversation.
    :raises ValueError: two have one name, or a handler's signature cannot be read.
    """

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        self._specs: dict[str, ToolSpec] = {}
        self._signatures: dict[str, inspect.Signature] = {}
        check_iterable(specs)
        given: Iterable[Any] = specs
        for spec in given:
            if not isinstance(spec, ToolSpec):
                made_for_workflows = isinstance(spec, treadle.Tool)
                what = f"the @treadle.tool '{spec.name}' of workflows" if made_for_workflows else type(spec).__name__
                raise ConfigurationError(
                    f"a tool of a conversation is what treadle_loop.tool makes, or a ToolSpec, not {what}",
                    hint="put @treadle_loop.tool({...}) with the schema of its arguments above the function",
                )
            if spec.name in self._specs:
                raise ValueError(f"two tools are named '{spec.name}'")
            try:
                self._signatures[spec.name] = inspect.signature(spec.handler)
            except (TypeError, ValueError) as error:
                raise ValueError(f"the signature of tool '{spec.name}' cannot be read: {error}") from error
            self._specs[spec.name] = spec

    def get(self, name: str) -> ToolSpec | None:
        """The tool of that name, or None."""
        return self._specs.get(name)

    def signature(self, name: str) -> inspect.Signature:
        """How the tool's handler is called, the dependencies first."""
        return self._signatures[name]

    def names(self) -> list[str]:
        """The names, in the order in which the tools were given."""
        return list(self._specs)

    def schemas(self) -> list[ToolSpec]:
        """What requests show the model."""
        return list(self._specs.values())

    def __len__(self) -> int:
        return len(self._specs)

    def __contains__(self, name: object) -> bool:
        return name in self._specs


_OPTIONS = frozenset(
    {
        "allowed_domains",
        "blocked_domains",
        "dynamic_filtering",
        "max_uses",
        "search_context_size",
        "user_location",
    }
)


@dataclass(frozen=True)
class HostedTool:
    """A tool that the provider runs itself: ``HostedTool("web_search")``.

    :param options: ``allowed_domains`` or ``blocked_domains``, ``max_uses``, ``user_location``,
        ``dynamic_filtering``, ``search_context_size``.
    :raises ConfigurationError: there is no such kind or option, or both lists of domains are given.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind != "web_search":
            raise ConfigurationError(f"there is no hosted tool '{self.kind}'; there is web_search")
        if unknown := sorted(set(self.options) - _OPTIONS):
            raise ConfigurationError(
                f"hosted tool '{self.kind}' has no option {', '.join(unknown)}; there are {', '.join(sorted(_OPTIONS))}"
            )
        if self.options.get("allowed_domains") and self.options.get("blocked_domains"):
            raise ConfigurationError(
                f"hosted tool '{self.kind}': allowed_domains and blocked_domains exclude each other; give one"
            )


def check_client(client: Any) -> None:
    """Whether it is one.

    :raises TypeError: it is not.
    """
    missing = [name for name in ("name", "model", "complete") if not hasattr(client, name)]
    if missing:
        raise TypeError(f"a client has name, model and complete(request); {type(client).__name__} has no {missing[0]}")


def check_iterable(tools: Any) -> None:
    """Whether they are several tools.

    :raises TypeError: they are not.
    """
    if not isinstance(tools, Iterable):
        one = "one tool; write [...] around it" if isinstance(tools, ToolSpec) else type(tools).__name__
        raise TypeError(f"tools come as a list, not as {one}")


def check_deps(deps: Any) -> None:
    """Whether they can be asked before each call.

    :raises TypeError: they cannot.
    """
    if deps is not None and not callable(getattr(deps, "before_tool", None)):
        raise TypeError(f"deps have the method before_tool(call), which Deps has; {type(deps).__name__} has none")


def check_tools(client: Any, registry: Registry, hosted: Iterable[HostedTool]) -> None:
    """Whether a client can run the hosted tools, and no local one has the name of one.

    :raises ConfigurationError: it cannot.
    """
    can = frozenset(getattr(client, "hosted_tools", ()))
    for each in hosted:
        if each.kind not in can:
            raise ConfigurationError(f"client '{client.name}' cannot run the hosted tool '{each.kind}'")
        if each.kind in registry:
            raise ConfigurationError(f"a local tool is named '{each.kind}', as is a hosted one; rename the local tool")
