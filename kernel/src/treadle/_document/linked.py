"""Documents that steps name: read with positions, checked with the workflow, and kept with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field as dataclass_field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from treadle._dataclasses import dataclass
from treadle._document.mending import mended
from treadle._document.outside import check_reference
from treadle._document.problems import Path, Reporter, dotted_path, shown
from treadle._document.reading import decode, read, unreadable
from treadle.contracts.documents import CheckedChild, ChildForm, DocumentCheck, LoadedDocument
from treadle.contracts.step import Reference, Step
from treadle.contracts.tool import Tool
from treadle.errors import DocumentError, Severity, TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host
    from treadle.contracts.config import RunConfig

__all__ = ["ChildRequest", "Linked", "StepCheck", "read_document"]

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
        return None, Reporter(file=path, problems=[unreadable(path, error)])
    except DocumentError as error:
        return None, Reporter(file=path, problems=list(error.problems))
    report = Reporter(file=path, marks=marks, data=data, text=text)
    report.add_read(problems)
    if not isinstance(data, Mapping):
        report.add((), "wrong-type", f"must be a mapping, not {shown(data)}")
        return None, report
    return _checked(report, model)


def _checked(report: Reporter, model: type[ModelT]) -> tuple[ModelT | None, Reporter]:
    """The document, and what is wrong with it: of one with mistakes, what is left without them."""
    try:
        return model.model_validate(report.data), report
    except ValidationError as error:
        report.add_validation(error, (), model)
        return mended(model, report.data, error), report
    except TreadleError as error:  # a validator raised one of ours, which pydantic lets pass
        report.add((), "bad-value", error.message, hint=error.hint)
    return None, report


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """A workflow that a step has asked to be checked; see :meth:`DocumentCheck.workflow`. ``place`` is the step's."""

    written: Any
    place: Path
    step_id: str
    field: str
    form: ChildForm
    keys: frozenset[str]
    scoped: frozenset[str]
    isolated: bool
    repeats: bool
    then: Callable[[CheckedChild], None] | None

    @property
    def path(self) -> Path:
        """Where it is written in the parent."""
        return (*self.place, *dotted_path(self.field))


@dataclass(slots=True)
class _Read:
    """What has been read for a workflow and all below it."""

    values: dict[_Key, BaseModel] = dataclass_field(default_factory=dict)
    loaded: dict[_Key, LoadedDocument[Any] | None] = dataclass_field(default_factory=dict)
    reports: dict[int, Reporter] = dataclass_field(default_factory=dict)
    children: list[Reporter] = dataclass_field(default_factory=list)


class Linked:
    """The documents of one workflow, by file and model, and the child workflows that it asks for."""

    def __init__(self, host: Host, report: Reporter, outer: Linked | None = None) -> None:
        self.host = host
        self.report = report
        self.config: RunConfig | None = None
        self.requests: list[ChildRequest] = []
        self._all: _Read = _Read() if outer is None else outer._all

    @property
    def values(self) -> dict[_Key, BaseModel]:
        """Every document as it was read."""
        return self._all.values

    @property
    def files(self) -> dict[str, Any]:
        """What each file that was read holds, as plain data."""
        reports = (*self._all.reports.values(), *self._all.children)
        return {each.file: each.data for each in reports if each.file not in (None, self.report.file)}

    def below(self, report: Reporter) -> Linked:
        """That of a child workflow, whose problems go into that report. A file is read once for all of them."""
        if not any(report is each for each in self._all.children):
            self._all.children.append(report)
        return Linked(self.host, report, self)

    def load(self, path: str, model: type[BaseModel]) -> tuple[LoadedDocument[Any] | None, Reporter | None]:
        """The document, and what was found in it where it is read for the first time."""
        key = (path, model)
        loaded = self._all.loaded
        if key in loaded:
            return loaded[key], None
        value, report = _read(path, model)
        document = LoadedDocument(value, path) if value is not None else None
        loaded[key] = document
        if document is not None:
            self.values[key] = document.value
            self._all.reports[id(document)] = report
        return document, report

    def report_of(self, document: LoadedDocument[Any]) -> Reporter:
        """Where problems of a document are noted."""
        return self._all.reports[id(document)]

    def everything_found(self) -> None:
        """Pass on to the workflow's report what was noted in its documents and in its child workflows."""
        for report in (*self._all.reports.values(), *self._all.children):
            self.report.problems += report.problems


class StepCheck(DocumentCheck):
    """The check of one step."""

    def __init__(self, linked: Linked, place: Path, step: Step, *, is_broken: bool = False) -> None:
        self._is_broken = is_broken
        self._linked, self.config = linked, linked.config
        self._place = place
        self._step = step

    def load(
        self, path: str, model: type[ModelT], *, field: str, of: LoadedDocument[BaseModel] | None = None
    ) -> LoadedDocument[ModelT] | None:
        """Read a file as a model."""
        around, place = self._where(field, of)
        if around.is_wrong(place):  # what stands there now is a stand-in
            return None
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
        report, path = self._where(reference.field, of)
        if not report.is_wrong(path):
            check_reference(reference, path, f"step type '{self._step.type}'", self._linked.host, report)

    def _where(self, field: str, of: LoadedDocument[BaseModel] | None) -> tuple[Reporter, Path]:
        path = dotted_path(field) if field else ()
        return (self._linked.report, (*self._place, *path)) if of is None else (self._linked.report_of(of), path)

    def workflow(
        self,
        written: Any,
        *,
        field: str,
        form: ChildForm,
        keys: Iterable[str] = (),
        scoped: Iterable[str] = (),
        isolated: bool = False,
        repeats: bool = False,
        then: Callable[[CheckedChild], None] | None = None,
    ) -> None:
        """Have a workflow checked, after this step."""
        request = ChildRequest(
            written=written,
            place=self._place,
            step_id=self._step.id,
            field=field,
            form=form,
            keys=frozenset(keys),
            scoped=frozenset(scoped),
            isolated=isolated,
            repeats=repeats,
            then=then,
        )
        self._linked.requests.append(request)

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
        if of is not None or severity != "warning" or not self._is_broken:  # what is left may be doubted untruly
            report, path = self._where(field, of)
            report.add(path, code, message, hint=hint, severity=severity)
