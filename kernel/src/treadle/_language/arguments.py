"""Arguments of a tool or a child workflow: nested data whose texts are templates.

How an argument is written, and what is passed for it:

    written                              passed
    "a {state.b} c"                      the rendered template
    "state.b"                            the value at the path itself, of whatever type
    {value: "{as is}", template: false}  the value, untouched
    anything else                        itself; keys are never templates
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Self

from treadle._dataclasses import dataclass
from treadle._language.fields import DocumentField
from treadle._language.paths import MISSING, Part, StatePath, look_up
from treadle._language.templates import Reference, Template
from treadle._language.values import excerpt
from treadle.errors import StateError, TemplateError

__all__ = ["ArgumentTree", "compile_arguments", "faults"]

_DEEPEST_NESTING = 100

_WHOLE_PATH = re.compile(r"state\.\S+")


@dataclass(frozen=True, slots=True)
class _Untouched:
    value: Any


@dataclass(frozen=True, slots=True)
class ArgumentTree(DocumentField):
    """Nested arguments, compiled once. Made by ``compile_arguments``.

    ``references`` are those of all templates within, ``state_paths`` the texts that are a path. As a
    pydantic field it accepts a mapping with text as keys.
    """

    source: Any
    references: tuple[Reference, ...] = field(compare=False, repr=False)
    state_paths: tuple[StatePath, ...] = field(compare=False, repr=False)
    _tree: Any = field(compare=False, repr=False)

    _error_code = "arguments"
    _json_note = "Texts within are templates; one that is exactly state.key passes the value itself"
    _written_as = Mapping
    _wrong_type_error = "dict_type"
    _json_type = "object"

    def render(
        self,
        state: Mapping[str, Any],
        names: Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
        warn: Callable[[str], None] | None = None,
    ) -> Any:
        """The arguments with their templates rendered and their paths read, as new containers.

        The parameters are those of ``Template.render``. Raises TemplateError as that does, and
        StateError where the state has nothing at a path.
        """

        def passed(path: StatePath) -> Any:
            value = look_up(state, path.parts)
            if value is MISSING:
                shown = excerpt(f"state.{path}", 200)
                raise StateError(f"{shown} is missing, so it cannot be passed as an argument")
            return value

        return _filled(self._tree, lambda text: text.render(state, names, strict=strict, warn=warn), passed)

    def preview(self, state: Mapping[str, Any], is_open: Callable[[Reference | StatePath], bool]) -> Any:
        """The arguments as far as they are known: what is still to come stays as it is written."""

        def passed(path: StatePath) -> Any:
            value = MISSING if is_open(path) else look_up(state, path.parts)
            return f"state.{path}" if value is MISSING else value

        return _filled(self._tree, lambda text: text.preview(state, is_open), passed)

    def leaves(self) -> Iterator[tuple[tuple[Part, ...], Template | StatePath]]:
        """Each template and path within, with its place: the keys and indices that lead to it."""
        for place, node in _walk(self._tree):
            if isinstance(node, Template | StatePath):
                yield place, node

    @classmethod
    def _from_document(cls, written: Mapping[Any, Any]) -> Self:
        if not all(isinstance(key, str) for key in written):
            raise TemplateError("the name of an argument is text", hint="put the name in quotes")
        return cls._compile(written, names_at_top=True)

    def _to_document(self) -> Any:
        return self.source

    @classmethod
    def _compile(cls, value: Any, *, names_at_top: bool) -> Self:
        references: list[Reference] = []
        state_paths: list[StatePath] = []

        def compiled(node: Any, depth: int) -> Any:
            if depth > _DEEPEST_NESTING:
                raise TemplateError(f"arguments are nested more than {_DEEPEST_NESTING} levels deep")
            if isinstance(node, str):
                if path := _whole_path(node):
                    state_paths.append(path)
                    return path
                template = Template.compile(node)
                references.extend(template.references)
                return template
            if isinstance(node, Mapping):
                # An argument may itself be called value, or template.
                is_argument = depth > 0 or not names_at_top
                if is_argument and _is_untouched(node):
                    return _Untouched(node["value"])
                return {key: compiled(below, depth + 1) for key, below in node.items()}
            if isinstance(node, (list, tuple)):
                return [compiled(below, depth + 1) for below in node]
            return _Untouched(node)

        tree = compiled(value, 0)
        return cls(value, tuple(references), tuple(state_paths), tree)


def compile_arguments(value: Any) -> ArgumentTree:
    """Compile nested arguments: dictionaries, lists and scalars as YAML has them.

    Raises TemplateError for a template that does not parse, or for nesting beyond 100 levels.
    """
    return ArgumentTree._compile(value, names_at_top=False)


def faults(written: Any) -> Iterator[tuple[tuple[Part, ...], TemplateError]]:
    """Each template within that does not parse, with its place and what is wrong with it."""
    for place, node in _walk(written):
        if isinstance(node, str):
            try:
                Template.compile(node)
            except TemplateError as error:
                yield place, error


def _filled(node: Any, text: Callable[[Template], str], passed: Callable[[StatePath], Any]) -> Any:
    """The arguments as new containers, with what these make of templates and paths."""
    match node:
        case Template():
            return text(node)
        case StatePath():
            return passed(node)
        case _Untouched():
            return node.value
        case dict():
            return {key: _filled(below, text, passed) for key, below in node.items()}
        case list():
            return [_filled(below, text, passed) for below in node]
        case _:
            return node


def _walk(tree: Any) -> Iterator[tuple[tuple[Part, ...], Any]]:
    """Everything in nested data but containers and what is passed untouched, in order."""
    pending: list[tuple[tuple[Part, ...], Any]] = [((), tree)]
    while pending:
        place, node = pending.pop()
        if isinstance(node, Mapping):
            if not (place and _is_untouched(node)):
                pending.extend(((*place, key), below) for key, below in reversed(list(node.items())))
        elif isinstance(node, list | tuple):
            pending.extend(((*place, index), node[index]) for index in reversed(range(len(node))))
        else:
            yield place, node


def _is_untouched(node: Mapping[Any, Any]) -> bool:
    return node.keys() == {"value", "template"} and node["template"] is False


def _whole_path(text: str) -> StatePath | None:
    """The path that a text consists of; None if it is anything else."""
    if not _WHOLE_PATH.fullmatch(text):
        return None
    try:
        return StatePath.parse_state(text)
    except StateError:
        return None
