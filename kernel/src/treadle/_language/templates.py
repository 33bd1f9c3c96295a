"""Templates: text with placeholders that are filled from the state.

``treadle._language.placeholders`` says which braces are placeholders. What they become:

    the value                        becomes
    text                             itself; it is never expanded again
    None, true, a number             str() of it
    a list, a dict                   JSON
    a pydantic instance              JSON of its dump
    missing                          empty text and a warning; strict: an error
    a bare name that is not known    what was written; strict: an error

A conversion or a format spec applies to text, numbers, booleans and None. On any other value it is
ignored, with a warning; a spec that does not fit the value is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Self

from treadle._dataclasses import dataclass
from treadle._language.fields import DocumentField
from treadle._language.paths import MISSING, look_up, path_text
from treadle._language.placeholders import Placeholder, Reference, scan
from treadle._language.values import SCALARS, excerpt, kind_of, text_of
from treadle.errors import TemplateError

__all__ = ["Reference", "Template"]

_CONVERSIONS: Mapping[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}


@dataclass(frozen=True, slots=True)
class Template(DocumentField):
    """Text with placeholders, compiled once. Made by ``compile``; equal if the source is equal."""

    source: str
    references: tuple[Reference, ...] = field(compare=False, repr=False)
    _pieces: tuple[str | Placeholder, ...] = field(compare=False, repr=False)

    _error_code = "template"
    _json_note = "A template: {state.key} becomes the value there, and {{ is one brace"

    @classmethod
    def compile(cls, source: str) -> Self:
        """Read a template. Raises TemplateError for a reference that is begun and goes wrong."""
        pieces = scan(source)
        references = tuple(piece.reference for piece in pieces if isinstance(piece, Placeholder))
        return cls(source, references, pieces)

    @property
    def is_literal(self) -> bool:
        """Whether the template has no placeholders, so that it always renders to the same text."""
        return not self.references

    def render(
        self,
        state: Mapping[str, Any],
        names: Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
        warn: Callable[[str], None] | None = None,
    ) -> str:
        """Fill the placeholders.

        :param state: what ``{state.x}`` looks into; its top-level keys are bare names as well.
        :param names: further bare names, which win over keys of the state.
        :param strict: refuse a missing value instead of writing empty text for it.
        :param warn: called with each warning, once for each reference.

        Raises TemplateError for a missing value if strict, for a format spec that does not fit its
        value, and for a value that has no text (one that contains itself, say).
        """
        if not self.references:
            return str(self._pieces[0]) if self._pieces else ""
        written: list[str] = []
        warnings: dict[str, None] = {}
        for piece in self._pieces:
            if isinstance(piece, str):
                written.append(piece)
            else:
                written.append(_fill(piece, state, names, strict, warnings))
        if warnings and warn is not None:
            for warning in warnings:
                warn(warning)
        return "".join(written)

    def preview(self, state: Mapping[str, Any], is_open: Callable[[Reference], bool]) -> str:
        """The text as far as it is known: a placeholder whose value is still to come stays as it is written, and so
        does one that cannot be filled."""
        written: list[str] = []
        for piece in self._pieces:
            if isinstance(piece, str):
                written.append(piece)
                continue
            warnings: dict[str, None] = {}
            try:
                filled = piece.source if is_open(piece.reference) else _fill(piece, state, None, False, warnings)
            except TemplateError:
                filled = piece.source
            written.append(piece.source if warnings else filled)
        return "".join(written)

    @classmethod
    def _from_document(cls, written: str) -> Self:
        return cls.compile(written)

    def _to_document(self) -> str:
        return self.source


def _fill(
    placeholder: Placeholder,
    state: Mapping[str, Any],
    names: Mapping[str, Any] | None,
    strict: bool,
    warnings: dict[str, None],
) -> str:
    reference = placeholder.reference
    root = reference.root
    if root == "state":
        base: Any = state
    elif names is not None and root in names:
        base = names[root]
    elif root in state:
        base = state[root]
    elif strict:
        raise TemplateError(f"{_shown(reference)} is missing: the state has no {excerpt(root)}")
    else:
        return placeholder.source
    value = look_up(base, reference.parts)
    if value is MISSING:
        reason = _why_missing(reference, base)
        if strict:
            raise TemplateError(reason)
        warnings[f"{reason}; it is rendered as empty text"] = None
        return ""
    if not (placeholder.conversion or placeholder.spec):
        return value if isinstance(value, str) else _plain(reference, value)
    if not isinstance(value, SCALARS):
        warnings[
            f"{_shown(reference)} is {kind_of(value)}, to which no conversion or format spec "
            "applies; it is rendered as plain text"
        ] = None
        return _plain(reference, value)
    return _formatted(placeholder, value)


def _plain(reference: Reference, value: object) -> str:
    try:
        return text_of(value)
    except RecursionError:
        raise TemplateError(f"{_shown(reference)} is nested too deeply to be written as text") from None
    except (TypeError, ValueError) as error:
        raise TemplateError(f"{_shown(reference)} cannot be written as text: {error}") from error


def _formatted(placeholder: Placeholder, value: object) -> str:
    """A scalar, converted and formatted. Its width is bounded by the grammar of the spec."""
    try:
        if placeholder.conversion:
            return format(_CONVERSIONS[placeholder.conversion](value), placeholder.spec)
        return format(value, placeholder.spec)
    except (TypeError, ValueError, OverflowError) as error:
        raise TemplateError(
            f"format spec {excerpt(placeholder.spec)} does not fit {_shown(placeholder.reference)}, "
            f"which is {kind_of(value)}"
        ) from error


def _why_missing(reference: Reference, base: Any) -> str:
    """The sentence that names the first part of a reference that is not there."""
    depth = 0
    while (below := look_up(base, reference.parts[depth : depth + 1])) is not MISSING:
        base = below
        depth += 1
    prefix = excerpt(path_text((reference.root, *reference.parts[:depth])), 200)
    part = reference.parts[depth]
    of_its_kind = isinstance(base, Mapping if isinstance(part, str) else list | tuple)
    shown = excerpt(part) if isinstance(part, str) else f"[{part}]"
    return f"{_shown(reference)} is missing: {prefix} {'' if of_its_kind else f'is {kind_of(base)} and '}has no {shown}"


def _shown(reference: Reference) -> str:
    return excerpt(reference.text, 200)
