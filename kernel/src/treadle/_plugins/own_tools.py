"""Tools of one's own: Python files and modules that ``tools:`` of ``treadle.yaml`` or ``--tools`` names."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle._plugins.registry import Registered, cause_of
from treadle._suggest import did_you_mean, similar_file
from treadle.contracts.offers import Offer
from treadle.contracts.tool import Tool
from treadle.errors import ConfigurationError, PluginError
from treadle.tools import FunctionTool, ToolRegistry, as_tool

__all__ = ["ToolSource", "find_source", "tools_of"]


@dataclass(frozen=True, slots=True)
class ToolSource:
    """Where tools are.

    :param text: as it was written.
    :param module: a module's name; empty for a file.
    :param file: the file; None for a module.
    :param attribute: the one object that is meant, dotted; empty for every tool defined there.
    :param folder: whose modules can be imported too, after all those that are installed.
    :param origin: who says so: ``treadle.yaml:3:5`` or ``--tools``.
    """

    text: str = field(compare=False)
    module: str
    file: Path | None
    attribute: str
    folder: Path = field(compare=False)
    origin: str = field(default="", compare=False)

    @property
    def owner(self) -> str:
        """For messages."""
        return f"{self.text} ({self.origin})" if self.origin else self.text


def find_source(text: str, folder: Path, origin: str = "") -> ToolSource:
    """The source that a text names: a ``.py`` file, or a module, each with ``:name`` or not. Nothing is imported.

    :param folder: from where paths go.
    :raises ConfigurationError: it names neither, or the file is not there.
    """
    place, separator, attribute = text.strip().partition(":")
    if separator and not all(part.isidentifier() for part in attribute.split(".")):
        raise ConfigurationError(f"'{text}' names no tools", hint="write path/to/file.py, module or module:name")
    if not place.endswith(".py"):
        if ("." in place and (folder / place).is_file()) or not all(part.isidentifier() for part in place.split(".")):
            raise ConfigurationError(f"'{text}' names no tools", hint="write path/to/file.py, module or module:name")
        return ToolSource(text, place, None, attribute, folder.absolute(), origin)
    file = folder / place
    if not file.is_file():
        what = "it is a directory, not a file" if file.is_dir() else "no such file"
        match = similar_file(str(file)) if what == "no such file" else None
        raise ConfigurationError(f"{what}: '{place}'", hint=f"did you mean '{match}'?" if match else None)
    file = file.resolve()
    return ToolSource(text, "", file, attribute, file.parent, origin)


def tools_of(sources: Iterable[ToolSource]) -> dict[str, Registered]:
    """The tools of all sources, by name. Their modules are imported.

    :raises PluginError: one cannot be imported, has no tools, or two have tools of one name.
    """
    found: dict[str, tuple[Tool, ToolSource]] = {}
    for source in sources:
        for each in _tools_in(source):
            other, of = found.setdefault(each.name, (each, source))
            if other is not each:
                raise PluginError(f"tool '{each.name}' is in {source.owner} and in {of.owner}", hint="rename one")
    return {name: Registered("tool", name, _offer(each), source.owner) for name, (each, source) in found.items()}


def _offer(each: Tool) -> Offer:
    summary = (each.description or "").strip().partition("\n")[0]
    return Offer(functools.partial(_itself, each), summary or each.name)


def _itself(made: Tool) -> Tool:
    return made


@functools.cache
def _tools_in(source: ToolSource) -> tuple[Tool, ...]:
    """Once a process: a tool that two hosts ask for is one."""
    module = _imported(source)
    hint: str | None
    if not source.attribute:
        tools = tuple(_defined_in(module, source))
        if not tools:
            hint = "put @treadle.tool above a function, or derive a class from treadle.BaseTool"
            raise PluginError(f"nothing in {source.owner} is a tool", hint=hint)
        return tools
    named: Any = module
    for part in source.attribute.split("."):
        if not hasattr(named, part):
            hint = did_you_mean(part, (each for each in dir(named) if not each.startswith("_")))
            raise PluginError(f"{source.owner} has no '{source.attribute}'", hint=hint)
        named = getattr(named, part)
    if isinstance(named, ToolRegistry):
        return tuple(named)
    if not _is_tool(named):
        hint = "put @treadle.tool above it" if inspect.isfunction(named) else None
        raise PluginError(f"{source.owner} is no tool: it is of type {type(named).__name__}", hint=hint)
    return (_made(named, source),)


def _is_tool(each: Any) -> bool:
    return isinstance(each, Tool) or (isinstance(each, type) and issubclass(each, Tool))


_instance = functools.cache(as_tool)  # a class makes one tool, from however many places it is named


def _made(each: Any, source: ToolSource) -> Tool:
    try:
        return _instance(each) if isinstance(each, type) else as_tool(each)
    except Exception as error:
        raise PluginError(
            f"class {each.__name__} of {source.owner} cannot be made into a tool: {cause_of(error)}",
            hint="name an instance of it instead",
        ) from error


def _defined_in(module: Any, source: ToolSource) -> Iterator[Tool]:
    """What a module defines and does not merely import; names that begin with an underscore are its own affair."""
    named = {name: each for name, each in vars(module).items() if not name.startswith("_")}
    listed: dict[int, Any] = {
        id(each): each for registry in named.values() if isinstance(registry, ToolRegistry) for each in registry
    }
    for each in named.values():
        imported = isinstance(each, FunctionTool | type) and each.__module__ != module.__name__
        if _is_tool(each) and not imported and not inspect.isabstract(each):
            listed.setdefault(id(each), each)
    instances: set[type] = {type(each) for each in listed.values()}
    for each in listed.values():
        # Of a class and its instance, the instance is meant; a class without a name is there to be derived from.
        if not isinstance(each, type) or (each not in instances and isinstance(getattr(each, "name", None), str)):
            yield _made(each, source)


def _imported(source: ToolSource) -> Any:
    folder = str(source.folder)
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: nothing there hides what is installed
    name = source.module
    if source.file is not None:
        digest = hashlib.sha256(str(source.file).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        name = f"treadle_tools_of_{digest}"
    try:
        if source.file is None or name in sys.modules:
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(name, source.file)
        assert spec is not None, "it ends with .py"
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)  # type hints are looked up there
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() among it
        where = next(
            (each for each in reversed(traceback.extract_tb(error.__traceback__)) if _is_own(each, source)), None
        )
        place = f", line {where.lineno}" if where else ""
        raise PluginError(f"{source.owner} could not be imported{place}: {cause_of(error)}") from error


def _is_own(frame: traceback.FrameSummary, source: ToolSource) -> bool:
    return Path(frame.filename).is_relative_to(source.folder)
