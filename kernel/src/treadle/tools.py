"""Tools of one's own: functions and classes of a program, and arguments checked before they are called."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails

from treadle._bridges.loops import CALLERS_LOOP, call_on
from treadle._docstrings import described
from treadle._suggest import did_you_mean
from treadle._wording import in_words
from treadle.contracts.tool import Effect, Tool, ToolContext
from treadle.errors import NotInstalledError, ToolError

__all__ = [
    "BaseTool",
    "FunctionTool",
    "ToolRegistry",
    "as_tool",
    "parse_arguments",
    "schema_of",
    "tool",
    "wrong_arguments",
]

P = ParamSpec("P")
R = TypeVar("R")
ModelT = TypeVar("ModelT", bound=BaseModel)

_FIELD = "arg_"
"""Before the names of fields, so that a parameter may be called as it likes; the name itself is the alias."""


# --- arguments --------------------------------------------------------------------------------------------


def parse_arguments(tool_name: str, model: type[ModelT], arguments: Mapping[str, Any]) -> ModelT:
    """The arguments, checked.

    An optional argument that is null counts as not given, as models send it, unless null is one of its values. A
    text that is a number is a number where one is wanted, as a template gives it.

    :raises ToolError: permanent, naming the tool and everything that is wrong with the arguments.
    """
    parsed, problems = _parsed(model, arguments)
    if parsed is None:
        raise ToolError(f"{tool_name}: {'; '.join(dict.fromkeys(text for _, text in problems))}", transient=False)
    return parsed


def wrong_arguments(model: type[BaseModel], arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What :func:`parse_arguments` would say against the arguments, with the name of each."""
    return _parsed(model, arguments)[1]


def _parsed(model: type[ModelT], arguments: Mapping[str, Any]) -> tuple[ModelT | None, list[tuple[str, str]]]:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in fields or fields[name].is_required() or _takes_null(fields[name].annotation)
    }
    try:
        return model.model_validate(given), []
    except ValidationError as error:
        return None, [
            (str(each["loc"][0]) if each["loc"] else "", _problem(list(fields), each["loc"], each["type"], _told(each)))
            for each in error.errors(include_url=False, include_input=False)
        ]


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON Schema without the titles and the docstring that pydantic adds, which a model need not read."""
    schema = model.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    for argument in schema["properties"].values():
        argument.pop("title", None)
    return schema


def _takes_null(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


def _problem(names: list[str], loc: tuple[int | str, ...], kind: str, text: str) -> str:
    if not loc:  # a validator of the whole
        return _clause(text)
    name = str(loc[0])
    if kind == "missing" and len(loc) == 1:
        return f"argument '{name}' is missing"
    if kind == "extra_forbidden" and len(loc) == 1:
        remedy = did_you_mean(name, names, list_up_to=0)
        return f"unknown argument '{name}'; {remedy or _what_there_is(names)}"
    # The rest of a place names the keys within a mapping; the branches of a union are no place in the arguments.
    inner = "".join(f".{part}" for part in loc[1:] if part != "[key]")
    return f"argument '{name}{inner}': {_clause(text)}"


def _what_there_is(names: list[str]) -> str:
    return f"it takes {', '.join(names)}" if names else "it takes none"


def _told(details: ErrorDetails) -> str:
    return in_words(details["type"], details.get("ctx", {})) or details["msg"]


def _clause(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return f"{text[:1].lower()}{text[1:]}"


# --- functions --------------------------------------------------------------------------------------------


class FunctionTool(Tool, Generic[P, R]):
    """A function as a tool; made by :func:`tool`. Called as the function, it is the function."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect | None = None,
        timeout: float | None = None,
        parallel_safe: bool = True,
        loop: Literal["asyncio"] | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"a tool is a function, a class of treadle.Tool or an object of one, not {function!r:.60}")
        functools.update_wrapper(self, function)
        name = name or getattr(function, "__name__", "")
        if not isinstance(name, str) or name in ("", "<lambda>"):
            raise TypeError("a function without a name needs one to be a tool: @tool(name=...)")
        if effect not in (None, *get_args(Effect)):
            raise TypeError(f"tool '{name}': effect is pure, idempotent or once, not {effect!r}")
        self.function = function
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        if loop not in (None, "asyncio"):
            raise TypeError(
                f"tool '{name}': loop is 'asyncio' or not given, not {loop!r}; without it, async means trio"
            )
        if loop is not None and not self._is_async:
            raise TypeError(f"tool '{name}': loop='asyncio' is for async functions; any other runs in a thread")
        self._loop = loop
        about, texts = described(inspect.getdoc(function))
        self._model, self._context = _arguments_of(name, function, texts)
        vars(self).update(
            name=name,
            description=about if description is None else inspect.cleandoc(description),
            parameters=schema_of(self._model),
            effect=effect,
            timeout=timeout,
            parallel_safe=parallel_safe,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: nothing is checked, nothing goes to another thread."""
        return self.function(*args, **kwargs)

    def wrong_arguments(self, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What a call would refuse in the arguments."""
        return wrong_arguments(self._model, arguments)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Check the arguments and call the function.

        One that is not ``async`` runs in a worker thread. Where the call is cancelled or takes too long, the call
        ends and the thread is left to end by itself: what it gives then is dropped.

        :raises ToolError: permanent, where the arguments are wrong.
        """
        checked = parse_arguments(self.name, self._model, arguments)
        given = {name.removeprefix(_FIELD): getattr(checked, name) for name in checked.model_fields_set}
        call: Callable[..., Any] = self.function
        if self._loop is not None:
            return await self._call_on_asyncio(given, context)
        if self._is_async:
            if self._context:
                given[self._context] = context
            return await call(**given)
        import trio

        if self._context:

            def warn(message: str) -> None:
                trio.from_thread.run_sync(context.warn, message)

            given[self._context] = dataclasses.replace(context, warn=warn)
        return await trio.to_thread.run_sync(
            functools.partial(call, **given), abandon_on_cancel=True, thread_name=f"treadle tool {self.name}"
        )

    async def _call_on_asyncio(self, given: dict[str, Any], context: ToolContext) -> Any:
        import trio

        loop = CALLERS_LOOP.get()
        if loop is None:
            raise ToolError(
                f"tool '{self.name}' runs on the asyncio loop of its program, and this run was not started from one",
                hint="start it by await treadle.run(...) or treadle.open() under asyncio",
                transient=False,
            )
        if self._context:
            token = trio.lowlevel.current_trio_token()

            def warn(message: str) -> None:
                token.run_sync_soon(context.warn, message)

            given[self._context] = dataclasses.replace(context, warn=warn)
        call: Callable[..., Any] = self.function
        return await call_on(loop, functools.partial(call, **given))


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect | None = None,
    timeout: float | None = None,
    parallel_safe: bool = True,
    loop: Literal["asyncio"] | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Turn a function into a tool: ``@tool`` above it, or ``@tool(name=..., timeout=...)``.

    Its parameters become the tool's, by their type hints: whatever pydantic knows. One without a hint is a text, one
    without a default is required. A text in ``Annotated`` describes it, else the docstring. One typed ``ToolContext``
    is not shown: it is given who calls and the sandbox. An ``async`` function runs on trio, any other in a worker
    thread, from which ``trio.from_thread`` reaches what is async in the context.

    :param name: the function's own without it.
    :param description: what a model reads; without it the docstring, up to its parameters (Sphinx, Google, numpy).
    :param effect: what running it twice does; see :class:`Tool`.
    :param timeout: most seconds that one call may take.
    :param parallel_safe: whether calls of one reply may run at once.
    :param loop: ``"asyncio"`` for an ``async`` function that needs the asyncio loop of the program which started the
        run. It runs there, and a cancelled call cancels it. In its context only what is not async can be used.
    :raises TypeError: a parameter cannot be given by name, its hint is none that pydantic knows, or an option is wrong.
    """
    if function is None:
        return functools.partial(FunctionTool, **options)
    return FunctionTool(function, **options)


def _arguments_of(
    tool_name: str, function: Callable[..., Any], texts: Mapping[str, str]
) -> tuple[type[BaseModel], str | None]:
    """The model of the arguments, and the parameter that takes the context."""
    own = function
    while isinstance(own, functools.partial):
        own = own.func
    try:
        hints = get_type_hints(own if inspect.isroutine(own) else type(own).__call__, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"tool '{tool_name}': a type hint cannot be read: {error}; define it at module level"
        ) from error
    fields: dict[str, Any] = {}
    context: str | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool '{tool_name}': parameter '{name}' cannot be given by name, as arguments are")
        hint = hints.get(name, str)
        if hint is ToolContext:
            context = name
            continue
        annotated = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        about = next((each for each in annotated if isinstance(each, str)), None)
        told = any(getattr(each, "description", None) for each in annotated)
        if about := about or (None if told else texts.get(name)):
            hint = Annotated[hint, Field(description=about)]
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"{_FIELD}{name}"] = (hint, Field(default, alias=name))
    try:
        model = create_model(tool_name, __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except PydanticUserError as error:
        raise TypeError(f"tool '{tool_name}': {str(error).partition(chr(10))[0]}") from error
    return model, context


# --- classes ----------------------------------------------------------------------------------------------


class BaseTool(Tool):
    """A tool that takes its arguments as keywords: set ``name``, ``description`` and ``parameters_schema``, a JSON
    Schema, and write :meth:`execute`. :class:`Tool` also gets who calls and the sandbox.

    The arguments are not checked against the schema, only against the parameters of ``execute``.
    """

    parameters_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    @property
    def parameters(self) -> Mapping[str, Any]:  # type: ignore[override]  # read where the class attribute is read
        """The JSON Schema of the arguments."""
        return self.parameters_schema

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Pass the arguments on to :meth:`execute`."""
        try:
            inspect.signature(self.execute).bind(**arguments)
        except TypeError as error:
            raise ToolError(f"{self.name}: {error}", transient=False) from error
        return await self.execute(**arguments)

    @abstractmethod
    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Do it and give a JSON value. The parameters are yours to choose; they are given by name."""


class ToolRegistry:
    """Tools by name, for ``treadle.open(tools=...)``. Iterating gives the tools in the order of their names."""

    def __init__(self, tools: Iterable[Tool | type[Tool] | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for each in tools:
            self.register(each)

    def register(self, tool: Tool | type[Tool] | Callable[..., Any], *, replace: bool = False) -> None:
        """Add a tool, or a function as one. One of the same name is replaced, with a warning.

        :param replace: to replace it without one.
        """
        made = as_tool(tool)
        if made.name in self._tools and not replace:
            text = f"tool '{made.name}' is registered already and is replaced; replace=True does so without a warning"
            warnings.warn(text, UserWarning, stacklevel=2)
        self._tools[made.name] = made

    def get(self, name: str) -> Tool:
        """The tool of that name.

        :raises NotInstalledError: there is none.
        """
        if name not in self._tools:
            raise NotInstalledError(f"no tool '{name}'", hint=did_you_mean(name, self._tools))
        return self._tools[name]

    def names(self) -> list[str]:
        """The names of all, sorted."""
        return sorted(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return (self._tools[name] for name in self.names())

    def __len__(self) -> int:
        return len(self._tools)


def as_tool(each: Tool | type[Tool] | Callable[..., Any]) -> Tool:
    """A tool as it is, the one that a class makes, or a function as one."""
    if isinstance(each, Tool):
        return each
    if isinstance(each, type) and issubclass(each, Tool):
        return each()
    return FunctionTool(each)
