"""Documents that steps name: read with positions, checked with the workflow, and kept with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from treadle._document.outside import check_reference
from treadle._document.problems import Path, Reporter, dotted_path, shown
from treadle._document.reading import decode, read, unreadable
from treadle.contracts.documents import DocumentCheck, LoadedDocument
from treadle.contracts.step import Reference
from treadle.contracts.tool import Tool
from treadle.errors import DocumentError, Severity, TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["Linked", "StepCheck", "read_document"]

ModelT = TypeVar("ModelT", bound=BaseModel)
_Key = tuple[str, type[BaseModel]]


def read_document(source: str | Mapping[str, Any], model: type[ModelT]) -> ModelT:
    """Read a YAML file, or plain data as one holds it, as a model.

    :param source: the file's path, or the data.
    :raises DocumentError: with everything that is wrong, each at its place.
    """
    if isinstance(source, Mapping):
        value, report = _checked(Reporter(data=source), model)
    else:
        value, report = _read(source, model)
    if value is None or report.errors:
        raise DocumentError(report.problems)
    return value


def _read(path: str, model: type[ModelT]) -> tuple[ModelT | None, Reporter]:
    try:
        text = decode(FilePath(path).read_bytes(), path)
        data, marks, problems = read(text, path)
    except (OSError, ValueError) as error:
        report = Reporter(file=path)
        report.problems.append(unreadable(path, error))
        return None, report
    except DocumentError as error:
        report = Reporter(file=path)
        report.problems += error.problems
        return None, report
    report = Reporter(file=path, marks=marks, data=data, text=text)
    report.add_read(problems)
    if not isinstance(data, Mapping):
        report.add((), "wrong-type", f"must be a mapping, not {shown(data)}")
        return None, report
    return _checked(report, model)


def _checked(report: Reporter, model: type[ModelT]) -> tuple[ModelT | None, Reporter]:
    try:
        return model.model_validate(report.data), report
    except ValidationError as error:
        report.add_validation(error, (), model)
    except TreadleError as error:  # a validator raised one of ours, which pydantic lets pass
        report.add((), "bad-value", error.message, hint=error.hint)
    return None, report


class Linked:
    """The documents of one workflow, by file and model."""

    def __init__(self, host: Host, report: Reporter) -> None:
        self.host = host
        self.report = report
        self.values: dict[_Key, BaseModel] = {}
        self._loaded: dict[_Key, LoadedDocument[Any] | None] = {}
        self._reports: dict[int, Reporter] = {}

    def load(self, path: str, model: type[BaseModel]) -> tuple[LoadedDocument[Any] | None, Reporter | None]:
        """The document, and what was found in it where it is read for the first time."""
        key = (path, model)
        if key in self._loaded:
            return self._loaded[key], None
        value, report = _read(path, model)
        document = LoadedDocument(value, path) if value is not None else None
        self._loaded[key] = document
        if document is not None:
            self.values[key] = document.value
            self._reports[id(document)] = report
        return document, report

    def report_of(self, document: LoadedDocument[Any]) -> Reporter:
        """Where problems of a document are noted."""
        return self._reports[id(document)]

    def everything_found(self) -> None:
        """Pass on to the workflow's report what was noted in its documents."""
        for report in self._reports.values():
            self.report.problems += report.problems


class StepCheck(DocumentCheck):
    """The check of one step."""

    def __init__(self, linked: Linked, place: Path, needed_by: str) -> None:
        self._linked = linked
        self._place = place
        self._needed_by = needed_by

    def load(
        self, path: str, model: type[ModelT], *, field: str, of: LoadedDocument[BaseModel] | None = None
    ) -> LoadedDocument[ModelT] | None:
        """Read a file as a model."""
        document, report = self._linked.load(path, model)
        if document is None and report is not None:
            for problem in report.problems:
                if problem.line is None:  # the file itself: told where it is named
                    self.note(f"{problem.message}: {path}", field=field, of=of, code=problem.code, hint=problem.hint)
                else:
                    self._linked.report.problems.append(problem)
        return document

    def refer(self, reference: Reference, *, of: LoadedDocument[BaseModel] | None = None) -> None:
        """Look up what is referred to."""
        path = dotted_path(reference.field)
        if of is None:
            check_reference(reference, (*self._place, *path), self._needed_by, self._linked.host, self._linked.report)
        else:
            check_reference(reference, path, self._needed_by, self._linked.host, self._linked.report_of(of))

    def tool(self, name: str) -> Tool | None:
        """A registered tool."""
        try:
            loaded = self._linked.host.load("tool", name)
            made: Tool = loaded if isinstance(loaded, Tool) else loaded()
        except Exception:  # what is wrong with it is told where it is referred to, or where the step calls it
            return None
        return made

    def note(
        self,
        message: str,
        *,
        field: str,
        of: LoadedDocument[BaseModel] | None = None,
        code: str = "bad-value",
        hint: str | None = None,
        severity: Severity = "error",
    ) -> None:
        """Note a problem where the field stands."""
        path = dotted_path(field) if field else ()
        if of is None:
            self._linked.report.add((*self._place, *path), code, message, hint=hint, severity=severity)
        else:
            self._linked.report_of(of).add(path, code, message, hint=hint, severity=severity)
