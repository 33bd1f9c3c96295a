"""Problems of a document, put where they stand and in words that its author knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, reduce
from operator import getitem
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from treadle._dataclasses import dataclass
from treadle._document.reading import LINE_BREAK, Marks, Place, Span
from treadle._language.arguments import faults
from treadle._language.expressions import Expression
from treadle._suggest import did_you_mean, only_match
from treadle._wording import EMPTY, TYPES, in_words
from treadle.errors import ExpressionError, Problem, Severity, TemplateError, TreadleError

__all__ = ["KEY_LIKE", "Fix", "Inside", "Path", "Reporter", "dotted_path", "explain", "part_of", "shown"]

Path = tuple[str | int, ...]

_SHOWN = 60
_MOST_HINTS = 100
"""Close matches are looked for until so many problems are found: a search reads every name there is."""

KEY_LIKE = re.compile(
    r"(?<![\w/.-])(?:(?:sk|pk|rk|gsk|xai|glpat|AKIA|AIza|eyJ|hf|ghp|gho|ghs|xox[a-z])[-_A-Z0-9][\w.+/=-]{3,}"
    r"|(?=[\w+-]*\d)(?=[\w+-]*[A-Za-z])[\w+-]{20,}={0,2})"
)
"""What is likely a key: it begins as vendors' keys do, or is a long word of letters and digits."""

_PATTERNS = {r"^\w[\w.-]*$": "use letters, digits, _, . and -, beginning with a letter, a digit or _"}

_COMPILED = {
    "template": "bad-template",
    "expression": "bad-expression",
    "arguments": "bad-template",
    "state_path": "bad-path",
}

Inside = tuple[str, int, int]
"""A piece of a text value: the whole of it, and where in it the piece begins and ends."""

Fix = tuple[str, str] | None
"""A misspelt name, and the only one it can have been meant for."""


@dataclass
class Reporter:
    """Collects the problems of one document.

    :param marks: where things stand, None for a document that did not come from text.
    :param text: that text; without it problems stand at values, not within them, and have no fixes.
    :param within: the place of this document in the one around it, dotted; empty where it stands alone.
    :param hidden: how many parts of the paths of its steps are written nowhere: where only its steps stand there one,
        where only its first step does two.
    :param is_discreet: whether what looks like a key is not repeated, as it may stand in the wrong place.
    """

    file: str | None = None
    marks: Marks | None = None
    data: Any = None
    text: str = ""
    within: str = ""
    hidden: int = 0
    is_discreet: bool = False
    problems: list[Problem] = field(default_factory=list)
    _seen: set[tuple[Place, str]] = field(default_factory=set)
    _wrong: set[Path] = field(default_factory=set)

    def add_read(self, problems: Iterable[Problem]) -> None:
        """Note what the reader found. Its places are settled: nothing further is said of the values there."""
        for problem in problems:
            self.problems.append(replace(problem, message=self._without_keys(problem.message)))
            self._seen.add(((problem.line or 0, problem.column or 0), ""))

    @property
    def looks_for_names(self) -> bool:
        """Whether close matches are still looked for."""
        return len(self.problems) < _MOST_HINTS

    def did_you_mean(self, name: str, known: Iterable[str], *, list_up_to: int = 8) -> str | None:
        """A hint, unless there are so many problems that none is read."""
        return did_you_mean(name, known, list_up_to=list_up_to) if self.looks_for_names else None

    def is_wrong(self, path: Path) -> bool:
        """Whether something is said of the value at the path."""
        return path in self._wrong

    def only(self, name: str, known: Iterable[str]) -> Fix:
        """The fix of a misspelt name, where only one of the known ones is like it."""
        match = only_match(name, known) if self.looks_for_names else None
        return (name, match) if match is not None else None

    def add(
        self,
        path: Path,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        severity: Severity = "error",
        at_key: bool = False,
        inside: Inside | None = None,
        fix: Fix = None,
    ) -> None:
        """Note a problem with the value at the path, with a piece of it, or with the key that ends the path."""
        self._wrong.add(path)
        line = column = end_line = end_column = mended = None
        if self.marks is not None:
            span = self.marks.span(path, at_key=at_key)
            whole = span[:2]
            if inside is not None:
                span = self._piece(span, *inside)
            line, column, end_line, end_column, style = span
            # A value that stands in several places by aliases is wrong once.
            place = (line, column)
            if not self._seen.isdisjoint(((whole, ""), (place, ""), (place, message))):
                return
            self._seen.add((place, message))
            if fix is not None and style in ("", "'", '"'):
                written = self._lines[line - 1][column - 1 : end_column - 1] if line <= len(self._lines) else ""
                mended = f"{style}{fix[1]}{style}" if written == f"{style}{fix[0]}{style}" else None
        self.problems.append(
            Problem(
                message=self._without_keys(message),
                code=code,
                path=self._dotted(path),
                hint=hint and self._without_keys(hint),
                severity=severity,
                file=self.file,
                line=line,
                column=column,
                end_line=end_line,
                end_column=end_column,
                fix=mended,
            )
        )

    def _without_keys(self, text: str) -> str:
        return KEY_LIKE.sub("***", text) if self.is_discreet else text

    @cached_property
    def _lines(self) -> list[str]:
        return LINE_BREAK.split(self.text)

    def _piece(self, span: Span, value: str, start: int, end: int) -> Span:
        """Where a piece of a text value stands, if it stands there as it is; else where the value does.

        Told by looking: nothing but the rules of YAML says where the text of a folded or escaped value came from.
        """
        line, column, *_, style = span
        source = self._lines[line - 1] if line <= len(self._lines) else ""
        if style == "|":
            line += value.count("\n", 0, start) + 1
            begin = value.rfind("\n", 0, start) + 1
            content = value[begin:].partition("\n")[0]
            source = self._lines[line - 1] if line <= len(self._lines) else ""
            column = len(source) - len(content) + 1
            start, end, value = start - begin, end - begin, content
        elif style:
            column += 1
        if column < 1 or source[column - 1 :][:end] != value[:end]:
            return span
        return Span(line, column + start, line, column + end)

    def add_validation(
        self,
        error: ValidationError,
        path: Path,
        model: type[BaseModel],
        *,
        missing: Callable[[str], TreadleError | None] = lambda name: None,
    ) -> None:
        """Note everything that pydantic found under the path.

        ``missing`` tells why an unknown top-level field is not there, where that is known.
        """
        for details in error.errors(include_url=False):
            name = str(details["loc"][-1]) if details["loc"] else ""
            cause = missing(name) if details["type"] == "extra_forbidden" and len(details["loc"]) == 1 else None
            if cause is not None:
                self.add((*path, name), "not-installed", cause.message, hint=cause.hint, at_key=True)
            else:
                self._add_details(details, path, model)

    @property
    def errors(self) -> list[Problem]:
        """The problems that stop a run."""
        return [problem for problem in self.problems if problem.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        """Those that do not, sorted by position."""
        found = (problem for problem in self.problems if problem.severity == "warning")
        return sorted(found, key=lambda problem: problem.position)

    def _add_details(self, details: ErrorDetails, path: Path, model: type[BaseModel]) -> None:
        kind = details["type"]
        where = (*path, *_inside(self.data, path, details["loc"]))
        if kind == "extra_forbidden" or kind == "unexpected_keyword_argument":
            name = str(details["loc"][-1])
            known = _fields_at(model, details["loc"][:-1])
            hint = self.did_you_mean(name, known, list_up_to=14)
            self.add(where, "unknown-field", "unknown field", hint=hint, at_key=True, fix=self.only(name, known))
        elif kind == "missing" or kind == "missing_argument":
            self.add(where, "missing-field", f"the field '{details['loc'][-1]}' is missing")
        else:
            found: list[tuple[Path, TemplateError | ExpressionError]] = []
            if kind in ("template", "arguments"):
                found += faults(details["input"])
            elif kind == "expression" and (misread := _misread(details["input"])):
                found.append(((), misread))
            for place, error in found:
                self._add_fault((*where, *place), _code(kind), error)
            if not found:
                message, hint = explain(details)
                if TYPES.get(kind) == "must be a mapping" and (fields := _fields_at(model, details["loc"])):
                    is_name = fields[0] == "name" and isinstance(details["input"], str)
                    hint = f"write {{name: {details['input']}}}" if is_name else f"it takes {', '.join(fields[:8])}"
                where, message = self._at_field(where, message) if kind == "value_error" else (where, message)
                self.add(where, _code(kind), message, hint=hint)

    def _at_field(self, path: Path, message: str) -> tuple[Path, str]:
        """What a validator of several fields says of one, as ``tools: 'a' is named twice``, stands at that one."""
        name, colon, rest = message.partition(": ")
        value: Any = reduce(getitem, path, self.data)
        return ((*path, name), rest) if colon and isinstance(value, Mapping) and name in value else (path, message)

    def _add_fault(self, path: Path, code: str, error: TemplateError | ExpressionError) -> None:
        """A template or an expression that goes wrong, where it does."""
        text: Any = reduce(getitem, path, self.data)
        start = error.offset or 0
        end = re.compile(r"[^}\n]*\}?" if isinstance(error, TemplateError) else r"\w+|.?").match(text, start)
        assert end is not None, "it matches the empty text"
        self.add(path, code, error.message, hint=error.hint, inside=(text, start, end.end()))

    def _dotted(self, path: Path) -> str:
        """``steps.<id>.field`` where the step has an id, else its number from 0."""
        parts = list(path)
        if len(parts) > 1 and parts[0] == "steps" and isinstance(parts[1], int) and isinstance(self.data, Mapping):
            steps = self.data.get("steps")
            step = steps[parts[1]] if isinstance(steps, Sequence) and parts[1] < len(steps) else None
            if isinstance(step, Mapping) and isinstance(step.get("id"), str):
                parts[1] = step["id"]
        if path[:1] == ("steps",):
            del parts[: self.hidden]
        shown = [self._without_keys(str(part)) for part in parts]
        return ".".join([self.within, *shown] if self.within else shown)

    def inner(self, path: Path, data: Any, way: Path = ()) -> Reporter:
        """A report of a document that stands in this one, at the path.

        :param data: that document, as if it stood alone.
        :param way: the way in it to what is written at the path; the rest of it is written nowhere.
        """
        marks: Marks | None = None
        if self.marks is not None:
            here: Marks | Span = self.marks
            for part in path:
                here = here.children.get(part, here.place) if isinstance(here, Marks) else here
            marks = here if isinstance(here, Marks) else Marks(here)
            for part in reversed(way):
                marks = Marks(marks.place, children={part: marks})
        report = Reporter(self.file, marks, data, self.text, self._dotted(path), len(way), self.is_discreet)
        report._seen = self._seen
        return report


def _misread(source: str) -> ExpressionError | None:
    try:
        Expression.compile(source)
    except ExpressionError as error:
        return None if error.offset is None else error
    return None


def dotted_path(dotted: str) -> Path:
    """A place that a plugin names: ``conditions.0.target``."""
    return tuple(int(part) if part.isdecimal() else part for part in dotted.split("."))


def _code(kind: str) -> str:
    if kind in _COMPILED:
        return _COMPILED[kind]
    return "wrong-type" if kind in TYPES else "bad-value"


def explain(details: ErrorDetails) -> tuple[str, str | None]:
    """What pydantic found, as message and hint."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    words = in_words(kind, context)
    if words is not None:
        return words if words == EMPTY else f"{words}, not {shown(value)}", _type_hint(kind, value)
    if kind == "string_pattern_mismatch":
        pattern = str(context.get("pattern"))
        return f"{shown(value)} is not allowed here", _PATTERNS.get(pattern, f"it must match {pattern}")
    if kind in ("value_error", "assertion_error"):
        return details["msg"].partition(", ")[2] or details["msg"], None
    if kind in _COMPILED:
        message, _, hint = details["msg"].partition("; ")
        return message, hint or None
    message = details["msg"]
    return message[:1].lower() + message[1:], None


def _type_hint(kind: str, value: Any) -> str | None:
    if kind == "string_type" and isinstance(value, Mapping) and len(value) == 1 and next(iter(value.values())) is None:
        return f'in YAML a value that begins with {{ needs quotes: "{{{next(iter(value))}}}"'
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "put it in quotes"
    if kind == "dict_type" and value is None:
        return "write {} or leave it out"
    if kind in ("list_type", "tuple_type") and isinstance(value, str):
        return f"write [{value}]" if len(value) < _SHOWN else "write it as a list"
    return None


def shown(value: Any) -> str:
    """A value in a message: short, and what kind it is where that is not plain."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _inside(data: Any, path: Path, loc: Iterable[str | int]) -> Iterator[str | int]:
    """The part of pydantic's location that is a path in the data: tags of unions are left out."""
    here = reduce(part_of, path, data)
    for part in loc:
        if _has(here, part):
            here = here[part]
            yield part


def part_of(here: Any, part: str | int) -> Any:
    """What stands there in data that may be of any shape, None where nothing does."""
    return here[part] if _has(here, part) else None


def _has(here: Any, part: str | int) -> bool:
    if isinstance(here, Mapping):
        return part in here
    return isinstance(here, list | tuple) and isinstance(part, int) and 0 <= part < len(here)


def _fields_at(model: type[BaseModel], loc: Iterable[str | int]) -> list[str]:
    """Names of the fields of the models that the location leads to."""
    here: list[Any] = [model]
    part: str | int | None = None
    for part in loc:
        fields = [each.model_fields[part].annotation for each in here if part in each.model_fields]
        if fields:
            here = [inner for each in fields for inner in _models_in(each)]
        elif isinstance(part, str):
            here = [each for each in here if _is_tagged(each, part)] or here
    # A step's own type is what it is known by: it is there.
    return [
        field.alias or name
        for each in here
        for name, field in each.model_fields.items()
        if part is not None or name != "type"
    ]


def _is_tagged(model: type[BaseModel], tag: str) -> bool:
    """Whether a model of a union is the one with that tag: the tag is the one value of a field."""
    return any(get_args(field.annotation) == (tag,) for field in model.model_fields.values())


def _models_in(annotation: Any) -> list[Any]:
    """The pydantic models inside an annotation such as ``tuple[Condition, ...] | None``."""
    found: list[Any] = []
    pending = [annotation]
    while pending:
        each = pending.pop()
        if isinstance(each, type) and issubclass(each, BaseModel):
            found.append(each)
        else:
            pending.extend(getattr(each, "__args__", ()))
    return found
