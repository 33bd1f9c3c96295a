"""YAML text to plain data with the place of everything in it.

The reader works on libyaml's events, without recursion, so that neither depth nor size can take the process
down. It differs from YAML 1.1 where that surprises people:

* only ``true`` and ``false`` are booleans, and only the number forms of the YAML 1.2 core schema are numbers
  (https://yaml.org/spec/1.2.2/#103-core-schema): ``yes``, ``on``, ``NO`` and ``2026-01-01`` stay text;
* a key that stands twice in one mapping is an error that names both lines;
* keys are text;
* an alias may not stand inside what it stands for, and may not blow the document up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import yaml

from treadle._dataclasses import dataclass
from treadle._suggest import similar_file
from treadle.errors import DocumentError, Problem

__all__ = ["LINE_BREAK", "MAX_BYTES", "MAX_DEPTH", "Marks", "Span", "decode", "read"]

MAX_BYTES = 32_000_000
MAX_DEPTH = 100
_MAX_NODES = 5_000_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MAY_BE_NUMBER = frozenset("0123456789+-.")
_TAG = "tag:yaml.org,2002:"
_BRACES = 'a value that begins with { or [ needs quotes: "{state.name}"'
LINE_BREAK = re.compile("\r\n|[\r\n]")
_UTF_16 = "it looks like UTF-16; save it as UTF-8"

Place = tuple[int, int]
"""Line and column, both from 1, in characters."""


class Span(NamedTuple):
    """From where to where something stands; the end is the place behind its last character.

    ``style`` is that of a scalar: ``'`` or ``"`` in quotes, ``|`` or ``>`` as a block, empty where it is plain.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    style: str = ""


@dataclass(slots=True)
class Marks:
    """Where a container and everything in it stands. Leaves are spans; containers are marks again.

    ``dropped``, of the whole document, are the values of keys that stand there again.
    """

    place: Span
    keys: dict[str, Span] = field(default_factory=dict)
    children: dict[str | int, Marks | Span] = field(default_factory=dict)
    dropped: Sequence[Any] = ()

    def span(self, path: tuple[str | int, ...], *, at_key: bool = False) -> Span:
        """Where the value at the path stands, or the nearest container that is there; or the key that ends the path."""
        here: Marks | Span = self
        for part in path[:-1] if at_key else path:
            if not isinstance(here, Marks) or part not in here.children:
                break
            here = here.children[part]
        else:
            if at_key and isinstance(here, Marks) and path:
                return here.keys.get(str(path[-1])) or self.span(path)
        return here.place if isinstance(here, Marks) else here

    def value(self, path: tuple[str | int, ...]) -> Place:
        """Where the value at the path begins."""
        return self.span(path)[:2]

    def key(self, path: tuple[str | int, ...]) -> Place:
        """Where the key that ends the path begins, or its value where it has none."""
        return self.span(path, at_key=True)[:2]


def decode(raw: bytes, file: str) -> str:
    """Bytes of a document as text: UTF-8, with or without a byte order mark, whatever the locale.

    :raises DocumentError: too large, or not UTF-8; the message says where.
    """
    if len(raw) > MAX_BYTES:
        raise _error(file, (1, 1), "too-large", f"the file has {len(raw):,} bytes; the limit is {MAX_BYTES:,}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The error's own bytes: its position counts from after a byte order mark.
        place = _place_at_end(error.object[: error.start].decode("utf-8"))
        hint = _UTF_16 if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "save it as UTF-8"
        raise _error(file, place, "encoding", f"byte {error.object[error.start]:#04x} is not UTF-8", hint) from error


def read(text: str, file: str) -> tuple[Any, Marks, list[Problem]]:
    """The document's data, where everything in it stands, and problems that leave the rest readable.

    :raises DocumentError: the text is not a single YAML document, or one of the refusals above; the problems
        found before that place are in it.
    """
    reader = _Reader(file, _place_of_marks(text))
    try:
        _feed(reader, text, file)
    except DocumentError as error:
        raise DocumentError([*reader.problems, *error.problems]) from error.__cause__
    value, marks = reader.result()
    return value, marks, reader.problems


def _feed(reader: _Reader, text: str, file: str) -> None:
    try:
        loader = _Loader(text)
        try:
            reader.feed(_events(loader))
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if error.context == "while scanning a quoted scalar":  # to the end of the text
            mark, error.context, error.problem = error.context_mark, None, "a quote opens here and is closed nowhere"
        # At the end of a text without a line break libyaml stands on a line that is not there.
        place = min(reader.place(mark), _place_at_end(text)) if mark else (1, 1)
        message = " ".join(part for part in (error.context, error.problem) if part)
        raise _error(
            file, place, "yaml-syntax", f"not valid YAML: {message}", _syntax_hint(text, place, error, reader.quoted)
        ) from error
    except yaml.reader.ReaderError as error:
        # libyaml counts bytes, PyYAML's own reader characters.
        in_bytes = issubclass(_Loader, getattr(yaml, "CSafeLoader", ()))
        before = text.encode()[: error.position].decode(errors="ignore") if in_bytes else text[: error.position]
        hint = _UTF_16 if "\0" in text else "write it as an escape in double quotes, or take it out"
        raise _error(file, _place_at_end(before), "yaml-syntax", f"not valid YAML: {error.reason}", hint) from error
    except UnicodeEncodeError as error:
        place = _place_at_end(text[: error.start])
        raise _error(file, place, "encoding", f"{text[error.start]!r} is half a character, a lone surrogate") from error


def _place_of_marks(text: str) -> Callable[[Any], Place]:
    """From the parser's marks to places as editors count them.

    YAML 1.1 also ends a line at NEL, U+2028 and U+2029; editors and YAML 1.2 do not.
    """
    if not re.search("[\x85\u2028\u2029]", text):
        return lambda mark: (mark.line + 1, mark.column + 1)
    line = start = 0
    starts = [(0, 0)]  # of each of the parser's lines: line and column
    for found in re.finditer("\r\n|[\n\r\x85\u2028\u2029]", text):
        if found[0] in "\r\n":
            line, start = line + 1, found.end()
        starts.append((line, found.end() - start))
    starts.append((line + 1, 0))  # a mark may stand behind the end
    return lambda mark: (starts[mark.line][0] + 1, starts[mark.line][1] + mark.column + 1)


def _place_at_end(before: str) -> Place:
    """The place of what follows the text."""
    lines = LINE_BREAK.split(before)
    return len(lines), len(lines[-1]) + 1


def _events(loader: Any) -> Iterator[Any]:
    while loader.check_event():
        yield loader.get_event()


def _syntax_hint(text: str, place: Place, error: yaml.MarkedYAMLError, quoted: Span) -> str | None:
    lines = LINE_BREAK.split(text)
    line = lines[place[0] - 1] if place[0] <= len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with spaces; YAML does not allow tabs"
    if quoted.end_line == place[0]:
        return f"the quote that opens on line {quoted.line} is closed only here; close it where its text ends"
    if not line[: place[1] - 1].strip() and re.search("expected (key|'-' indicator|<block end>)", error.problem or ""):
        return f"this line is less far in than what stands above it, and belongs to nothing in column {place[1]}"
    if re.match(r"\s*(- +)*[\w-]+:\s+[{\[].*[}\]]\s*[^\s,}\]]", line):
        return _BRACES
    if re.match(r"\s*(- +)*[\w-]+:\s+[^\"'|>{\[].*:(\s|$)", line):
        return "put the value in quotes, or use a block with |, as it has a colon in it"
    return None


def _problem(file: str, place: Place | Span, code: str, message: str, hint: str | None = None) -> Problem:
    at: dict[str, Any] = dict(zip(("line", "column", "end_line", "end_column"), place, strict=False))
    return Problem(message=message, code=code, hint=hint, file=file, **at)


def _error(file: str, place: Place | Span, code: str, message: str, hint: str | None = None) -> DocumentError:
    return DocumentError([_problem(file, place, code, message, hint)])


_START = Span(1, 1, 1, 1)


@dataclass(slots=True)
class _Frame:
    """A container being read. ``key`` is the mapping key that waits for its value."""

    value: Any
    marks: Marks
    anchor: str | None
    key: str | None = None
    expects_key: bool = True
    key_place: Span = _START
    nodes: int = 1
    merging: bool = False
    end: Place = (1, 1)
    merges: list[tuple[dict[str, Any], Marks]] = field(default_factory=list)


class _Reader:
    def __init__(self, file: str, place: Callable[[Any], Place]) -> None:
        self._file = file
        self.place = place
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, Marks | Span, int] | None] = {}
        self._root: tuple[Any, Marks | Span] | None = None
        self.problems: list[Problem] = []
        self._documents = 0
        self.quoted = Span(0, 0, 0, 0)  # the last text in quotes that has several lines
        self._dropped: list[Any] = []

    def result(self) -> tuple[Any, Marks]:
        if self._root is None:
            raise _error(self._file, (1, 1), "empty", "the document is empty")
        value, marks = self._root
        marks = marks if isinstance(marks, Marks) else Marks(marks)
        marks.dropped = self._dropped
        return value, marks

    def feed(self, events: Iterator[Any]) -> None:
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                span = self._span(event)
                value = event.value if self._wants_key() else self._scalar(event, span)
                nodes = 1 + len(event.value) // 16  # or aliases of one long text would count as little as of a word
                if span.style in ("'", '"') and span.line < span.end_line:
                    self.quoted = span
                if event.anchor:
                    self._anchors[event.anchor] = (value, span, nodes)
                self._take(value, span, nodes, event)
            elif kind is yaml.MappingStartEvent:
                self._open({}, event)
            elif kind is yaml.SequenceStartEvent:
                self._open([], event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                self._documents += 1
                if self._documents > 1:
                    place = self.place(event.start_mark)
                    raise _error(self._file, place, "yaml-syntax", "a second document begins; a file holds one")

    def _wants_key(self) -> bool:
        return bool(self._frames) and self._frames[-1].expects_key and type(self._frames[-1].value) is dict

    def _span(self, event: Any) -> Span:
        style = event.style if type(event) is yaml.ScalarEvent else None
        return Span(*self.place(event.start_mark), *self.place(event.end_mark), style or "")

    def _problem(self, place: Span, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(_problem(self._file, place, code, message, hint))

    def _open(self, value: Any, event: Any) -> None:
        place = self._span(event)
        if len(self._frames) >= MAX_DEPTH:
            raise _error(self._file, place, "too-deep", f"nested more than {MAX_DEPTH} levels deep")
        if self._wants_key():
            raise _error(
                self._file, place, "bad-key", "a key must be text, not a list or a mapping", _braces_hint(event)
            )
        if event.tag and event.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            self._problem(place, "unknown-tag", f"unknown tag {event.tag}", "write plain YAML")
        if event.anchor:
            self._anchors[event.anchor] = None  # not finished: an alias in here would be a cycle
        self._frames.append(_Frame(value, Marks(place), event.anchor, end=place[2:4]))

    def _close(self, event: Any) -> None:
        frame = self._frames.pop()
        # The end of a block is no token: its parser's mark stands at what follows, be it many lines below.
        of_block = event.start_mark.index == event.end_mark.index
        end = frame.end if of_block else self.place(event.end_mark)
        frame.marks.place = Span(*frame.marks.place[:2], *end)
        for merged, marks in frame.merges:
            for key, item in merged.items():
                if key not in frame.value:
                    frame.value[key] = item
                    frame.marks.keys[key], frame.marks.children[key] = marks.keys[key], marks.children[key]
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.value, frame.marks, frame.nodes)
        self._take(frame.value, frame.marks, frame.nodes, None)

    def _alias(self, event: Any) -> None:
        place = self._span(event)
        if event.anchor not in self._anchors:
            raise _error(self._file, place, "unknown-alias", f"no anchor &{event.anchor} before this alias")
        target = self._anchors[event.anchor]
        if target is None:
            raise _error(self._file, place, "alias-cycle", f"alias *{event.anchor} stands inside what it stands for")
        value, marks, nodes = target
        if self._wants_key():
            if not isinstance(value, str):
                raise _error(self._file, place, "bad-key", "a key must be text, not a list or a mapping")
            marks = place
        self._take(value, marks, nodes, None, at=place)

    def _take(self, value: Any, marks: Marks | Span, nodes: int, event: Any, at: Span | None = None) -> None:
        """Put a finished node where it belongs."""
        place = at or (marks.place if isinstance(marks, Marks) else marks)
        if not self._frames:
            self._root = (value, marks)
            return
        frame = self._frames[-1]
        frame.end = place[2:4]
        frame.nodes += nodes
        if frame.nodes > _MAX_NODES:
            raise _error(self._file, place, "too-large", f"aliases blow the document up beyond {_MAX_NODES:,} values")
        if type(frame.value) is list:
            frame.marks.children[len(frame.value)] = marks
            frame.value.append(value)
        elif frame.expects_key:
            self._take_key(frame, value, place, event)
        else:
            self._take_value(frame, value, marks, place)

    def _take_key(self, frame: _Frame, key: str, place: Span, event: Any) -> None:
        if event is not None and event.implicit[0] and (key in _WORDS or _INT.match(key) or _FLOAT.match(key)):
            hint = f'write "{key}"' if key else None
            self._problem(place, "bad-key", f"a key must be text, and {key or 'an empty one'} is not", hint)
        if key in frame.marks.keys:
            line = frame.marks.keys[key][0]
            self._problem(
                place, "duplicate-key", f"the key '{key}' already stands on line {line}", "remove one of them"
            )
        frame.key, frame.key_place, frame.expects_key = key, place, False
        frame.merging = key == "<<" and event is not None and bool(event.implicit[0])

    def _take_value(self, frame: _Frame, value: Any, marks: Marks | Span, place: Span) -> None:
        key = frame.key
        assert key is not None, "a value follows its key"
        frame.expects_key = True
        frame.marks.keys[key] = frame.key_place
        if frame.merging:
            self._take_merge(frame, value, marks, place)
            return
        if key in frame.value:
            self._dropped.append(frame.value[key])
        frame.marks.children[key] = marks
        frame.value[key] = value

    def _take_merge(self, frame: _Frame, value: Any, marks: Marks | Span, place: Span) -> None:
        for merged in value if type(value) is list else [value]:
            if not isinstance(merged, dict):
                self._problem(place, "bad-merge", "<< merges mappings only")
                return
        of_list = type(value) is list and isinstance(marks, Marks)
        parts = marks.children.values() if of_list and isinstance(marks, Marks) else [marks]
        values = value if of_list else [value]
        frame.merges.extend(
            (merged, place) for merged, place in zip(values, parts, strict=True) if isinstance(place, Marks)
        )

    def _scalar(self, event: Any, place: Span) -> Any:
        text: str = event.value
        tag: str | None = event.tag
        try:
            if tag is None:
                return _resolve(text) if event.implicit[0] else text
            if tag in ("!", f"{_TAG}str"):
                return text
            if tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null"):
                return _resolve(text)
        except ValueError as error:
            why = str(error).partition(";")[0]  # what follows is about Python
            self._problem(place, "bad-number", f"a number that cannot be read: {why}", "put it in quotes")
            return None
        self._problem(place, "unknown-tag", f"unknown tag {tag}", "write plain YAML; values are not built by tags")
        return text


def _braces_hint(event: Any) -> str | None:
    return _BRACES if event.flow_style else None


def _resolve(text: str) -> Any:
    """A plain scalar's value by the core schema.

    :raises ValueError: an integer of more digits than Python converts, or a number that is larger than any.
    """
    if text and text[0] in _MAY_BE_NUMBER:
        if _INT.match(text):
            number = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
            str(number)  # which Python reads of any length in these bases, and does not write
            return number
        if _FLOAT.match(text):
            if abs(value := float(text)) == float("inf"):
                raise ValueError("it is larger than the largest there is, 1.8e308")
            return value
        return text
    return _WORDS.get(text, text)


def unreadable(file: str, error: OSError | ValueError) -> Problem:
    """That a file cannot be read, and which one may be meant."""
    hint = None
    if "\n" in file:
        return Problem(
            message="this is a text, not the name of a file", code="unreadable", hint="parse_workflow reads it"
        )
    if isinstance(error, FileNotFoundError):
        match = similar_file(file)
        hint = f"did you mean '{match}'?" if match else None
    elif isinstance(error, IsADirectoryError):
        hint = "name a file in it"
    reason = str(getattr(error, "strerror", None) or error).lower()
    message = "no such file" if isinstance(error, FileNotFoundError) else reason
    return Problem(message=message, code="unreadable", file=file, hint=hint)
