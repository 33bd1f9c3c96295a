"""Where the placeholders of a template are, and which of its braces are only text.

    written                          read as
    {state.a.b}  {state[a][0]}       a reference into the state
    {name}  {name.a[0]}              a reference by a bare name
    {x!r}  {x:>10}  {x!s:.3}         the same with a conversion (r, s, a) and a format spec
    {{                               one brace; opens an escape (escapes nest)
    }}                               one brace while an escape is open, else two
    {  }  {}  { a }  {"a": 1}        text: no name follows the brace
    {a b}  {a, b}  {a!x}  {a: b}     text: what follows the name is no part of a reference

A reference that has begun with a dot or a bracket and then goes wrong (``{state.}``, ``{state..a}``,
``{a.b, c}``, ``{a[0`` ...) is

    an error    if its name is ``state``, or no ``}`` follows on the same line
    text        otherwise

    name     = a letter or _, then letters, digits, combining marks, _ and -
    segment  = "." and a name, which may begin with a digit here
             | "[" index or key "]": a whole number with or without a sign is an index, any other
               text without brackets, braces and line breaks is a key
    spec     = [[fill]align][sign][z][#][0][width][, or _][.precision][type], without quotes and
               without a space except as fill
"""

from __future__ import annotations

import re
import unicodedata

from treadle._dataclasses import dataclass
from treadle._language.paths import Part
from treadle._language.values import excerpt
from treadle.errors import TemplateError

__all__ = ["Placeholder", "Reference", "scan"]

_LARGEST_WIDTH = 10_000

_HINT = (
    "a reference looks like {state.key}, {state[some key]} or {state.list[0]}, and a literal brace is written twice, {{"
)

_BRACES = re.compile(r"\{\{|\}\}|[{}]")
_NAME_START = re.compile(r"[^\W\d][\w-]*")
_NAME_REST = re.compile(r"[\w-]*")
_BRACKETS = re.compile(r"\[([^\[\]{}\n]+)\]")
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
_LINE_STOP = re.compile(r"[}\n]")
_TAIL = re.compile(
    r"""
    (?: ! (?P<conversion> [rsa] ) )?
    (?: : (?P<spec>
        (?: [^{}\n'"]? [<>=^] )?
        [-+]? z? \#? 0?
        (?P<width> [0-9]*+ ) [,_]?
        (?: \. (?P<precision> [0-9]++ ) )?
        [bcdeEfFgGnosxX%]?
    ) )?
    \}
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """What a placeholder or an expression refers to.

    ``text`` is the reference as written (``state.report.body``), ``root`` is ``state``, ``steps`` or a bare
    name, ``parts`` is what follows it, ``offset`` is where the placeholder begins in the source; None in an
    expression, which may refer to a thing more than once.
    """

    text: str
    root: str
    parts: tuple[Part, ...]
    offset: int | None


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One placeholder: its reference, how to write the value, and the source of it all."""

    reference: Reference
    source: str
    conversion: str = ""
    spec: str = ""


def scan(source: str) -> tuple[str | Placeholder, ...]:
    """Cut a template into literal text, with its escapes resolved, and placeholders.

    Takes time in proportion to the source. Raises TemplateError for a reference that goes wrong.
    """
    reader = _Reader(source)
    pieces: list[str | Placeholder] = []
    literal: list[str] = []
    open_escapes = taken = position = 0
    while brace := _BRACES.search(source, position):
        position = brace.end()
        placeholder = None
        match brace[0]:
            case "{{":
                open_escapes += 1
            case "}}" if open_escapes:
                open_escapes -= 1
            case "{" if placeholder := reader.placeholder(brace.start()):
                position += len(placeholder.source) - 1
            case _:
                continue
        literal.append(source[taken : brace.start()])
        taken = position
        if placeholder is None:
            literal.append(brace[0][0])
            continue
        if text := "".join(literal):
            pieces.append(text)
        literal.clear()
        pieces.append(placeholder)
    literal.append(source[taken:])
    if text := "".join(literal):
        pieces.append(text)
    return tuple(pieces)


class _Reader:
    """Reads placeholders of one source, from its beginning to its end."""

    __slots__ = ("_line_stop", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._line_stop = -1

    def placeholder(self, brace: int) -> Placeholder | None:
        """The placeholder that begins at ``brace``; None if the brace is only text."""
        source = self._source
        end = _end_of_name(source, brace + 1)
        if end == brace + 1:
            return None
        root = source[brace + 1 : end]
        parts: list[Part] = []
        while source[end : end + 1] in {".", "["}:
            segment = self._segment(end)
            if segment is None:
                self._refuse_if_meant(brace, root, end)
                return None
            part, end = segment
            parts.append(part)
        tail = _TAIL.match(source, end)
        if tail is None:
            if parts:
                self._refuse_if_meant(brace, root, end)
            return None
        if any(_is_too_large(tail[group]) for group in ("width", "precision")):
            raise self._error(brace, f"a width or precision above {_LARGEST_WIDTH} is not allowed")
        return Placeholder(
            Reference(source[brace + 1 : end], root, tuple(parts), brace),
            source[brace : tail.end()],
            tail["conversion"] or "",
            tail["spec"] or "",
        )

    def _segment(self, start: int) -> tuple[Part, int] | None:
        """The part written at a dot or bracket and where it ends; None if it is malformed."""
        source = self._source
        if source[start] == ".":
            end = _end_of_name(source, start + 1, digit_first=True)
            return (source[start + 1 : end], end) if end > start + 1 else None
        brackets = _BRACKETS.match(source, start)
        if brackets is None:
            return None
        key = brackets[1]
        return (int(key) if _INDEX.fullmatch(key) else key), brackets.end()

    def _refuse_if_meant(self, brace: int, root: str, position: int) -> None:
        """Raise if what goes wrong at ``position`` was meant as a reference; else it is text."""
        if root == "state" or not self._is_closed_on_line(position):
            before = self._source[brace:position]
            if self._source[position : position + 1] in ("", "\n"):
                raise self._error(brace, "the reference is not closed by }", _HINT)
            where = excerpt(before if len(before) < 30 else "…" + before[-29:])
            raise self._error(brace, f"the reference goes wrong after {where}", _HINT)

    def _is_closed_on_line(self, position: int) -> bool:
        # The last stop is kept: looking for it anew at each brace would take quadratic time.
        if self._line_stop < position:
            stop = _LINE_STOP.search(self._source, position)
            self._line_stop = stop.start() if stop else len(self._source)
        return self._source[self._line_stop : self._line_stop + 1] == "}"

    def _error(self, brace: int, what: str, hint: str | None = None) -> TemplateError:
        line = self._source.count("\n", 0, brace) + 1
        on_line = f"line {line}, " if "\n" in self._source.rstrip("\n") else ""
        column = brace - self._source.rfind("\n", 0, brace)
        text = excerpt(self._source[brace : brace + 41].partition("\n")[0], 40)
        error = TemplateError(f"{text} at {on_line}column {column} of the template: {what}", hint=hint)
        error.offset = brace
        return error


def _end_of_name(source: str, start: int, *, digit_first: bool = False) -> int:
    """Where the name that begins at ``start`` ends; ``start`` itself if there is none."""
    name = (_NAME_REST if digit_first else _NAME_START).match(source, start)
    if name is None or name.end() == start:
        return start
    end = name.end()
    # Regular expressions do not count combining marks and joiners as parts of a word, yet many
    # scripts, and every decomposed accent, are written with them.
    while end < len(source) and _joins_a_word(source[end]):
        name = _NAME_REST.match(source, end + 1)
        end = name.end() if name else end + 1
    return end


def _joins_a_word(character: str) -> bool:
    return character in "\u200c\u200d" or unicodedata.category(character).startswith("M")


def _is_too_large(digits: str | None) -> bool:
    significant = (digits or "").lstrip("0")
    return len(significant) > len(str(_LARGEST_WIDTH)) or int(significant or 0) > _LARGEST_WIDTH
