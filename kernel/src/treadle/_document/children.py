"""Workflows that steps of a workflow run: found, read, and checked with it.

One may be below another any number of times, so nothing here calls itself: an examination of a document is a generator
that asks for its children, and is told what they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from treadle._dataclasses import dataclass
from treadle._document.dataflow import Edges
from treadle._document.envelope import inheritable, inherited
from treadle._document.linked import ChildRequest, Linked
from treadle._document.problems import Path, Reporter
from treadle._document.reading import decode, read, unreadable
from treadle._document.workflow import Workflow
from treadle._suggest import similar_file
from treadle.errors import DocumentError

if TYPE_CHECKING:
    from treadle.contracts.config import RunConfig

__all__ = ["Children", "Document", "Examination", "Wanted"]

_MOST_LOOKS = 16
"""How often a file is looked at anew because other keys are known around it."""

_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A workflow to be checked.

    :param source: its file, or the file that it stands in.
    :param keys: keys that its state will have besides its own.
    :param overrides: config values that win over its own; ``outer`` is its parent's config.
    :param doubtful: words of steps with mistakes around it, any of which may be a key.
    :param repeats: whether it goes on from what it wrote itself.
    :param order: what came of the checks between its steps when these were made, which are then not made again.
    """

    data: Any
    linked: Linked
    source: str | None
    keys: frozenset[str]
    doubtful: frozenset[str] = frozenset()
    overrides: Mapping[str, Any]
    outer: RunConfig | None = None
    repeats: bool = False
    order: Edges | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an examination asks for: a child, with the document that names it and its config and keys."""

    request: ChildRequest
    parent: Document
    config: RunConfig
    keys: frozenset[str]
    doubtful: frozenset[str]


Examination = Generator[Wanted, Workflow | None, Workflow | None]
_Way = list[tuple[str, str]]
"""The files from the outermost to here: what each is, and what it is called."""


@dataclass(slots=True)
class _File:
    report: Reporter
    data: Any = None
    looks: int = 0
    checked: dict[str, Workflow | None] = field(default_factory=dict)


class Children:
    """The child workflows of one workflow, at whatever depth."""

    def __init__(self, examine: Callable[[Document], Examination]) -> None:
        self._examine = examine
        self._files: dict[str, _File] = {}

    def check(self, outermost: Document) -> Workflow | None:
        """Check a workflow and everything below it; None where something is wrong with it."""
        source = outermost.source
        way = [(_identity(source), source)] if source is not None else []
        stack: list[tuple[Examination, _Way, Callable[[Workflow | None], None]]] = [
            (self._examine(outermost), way, lambda workflow: None)
        ]
        answer: Workflow | None = None
        while True:
            examination, way, note = stack[-1]
            try:
                wanted = examination.send(answer)
            except StopIteration as end:
                answer = end.value
                note(answer)
                stack.pop()
                if not stack:
                    return answer
                continue
            answer = None
            if wanted.request.form != "path":
                stack.append((self._examine(_inline(wanted)), way, lambda workflow: None))
                continue
            place = self._find(wanted, way)
            if place is None:
                continue
            identity, name = place
            file, document, known = self._file(wanted, identity, name)
            if document is None:
                answer = file.checked.get(known)
                continue

            def keep(workflow: Workflow | None, file: _File = file, known: str = known) -> None:
                file.checked[known] = workflow

            stack.append((self._examine(document), [*way, place], keep))

    def _find(self, wanted: Wanted, way: _Way) -> tuple[str, str] | None:
        """What file is meant, and what it is called. None, with the problem noted, where none can be."""
        request, report = wanted.request, wanted.parent.linked.report
        written = FilePath(str(request.written))
        tried = [written]
        if wanted.parent.source is not None and (beside := FilePath(wanted.parent.source).parent / written) != written:
            tried.append(beside)
        for file in tried:
            if not _is(file, FilePath.is_file):
                continue
            name = os.path.normpath(file)
            identity = _identity(name)
            if all(identity != each for each, _ in way):
                return identity, name
            names = [each for _, each in way]
            first = next(at for at, (each, _) in enumerate(way) if each == identity)
            circle = " -> ".join([*names[first:], name])
            report.add(request.path, "cycle", f"workflows run each other in a circle: {circle}")
            return None
        if any(_is(file, FilePath.exists) for file in tried):
            report.add(request.path, "missing-file", f"is a directory, not a file: '{written}'")
            return None
        match = next(filter(None, (similar_file(str(file)) for file in tried)), None)
        where = " and ".join(f"'{str(file)[:_SHOWN]}'" for file in tried)
        hint = f"did you mean '{match}'?" if match else None
        report.add(request.path, "missing-file", f"no such file: looked for {where}", hint=hint)
        return None

    def _file(self, wanted: Wanted, identity: str, name: str) -> tuple[_File, Document | None, str]:
        """The file, the document in it where it must be looked at, and under what its workflow is kept."""
        linked = wanted.parent.linked
        file = self._files.get(identity)
        if file is None:
            file = self._files[identity] = _read(name)
            linked.below(file.report)
        overrides = _overrides(wanted)
        config = json.dumps([inherited(linked.host, wanted.config), overrides], sort_keys=True, default=str)
        keys = _keys(wanted)
        known = f"{config}{sorted(keys)}{wanted.request.repeats}"
        if file.data is None or known in file.checked:
            return file, None, known
        if file.looks >= _MOST_LOOKS:  # only its warnings could be others
            alike = next((each for each in file.checked if each.startswith(config)), None)
            if alike is not None:
                return file, None, alike
        file.looks += 1
        document = Document(
            data=file.data,
            linked=linked.below(file.report),
            source=name,
            keys=keys,
            doubtful=wanted.doubtful,
            overrides=overrides,
            outer=wanted.config,
            repeats=wanted.request.repeats,
        )
        return file, document, known


def _identity(name: str) -> str:
    return os.path.realpath(name)


def _is(file: FilePath, question: Callable[[FilePath], bool]) -> bool:
    try:
        return question(file)
    except (OSError, ValueError):  # its name is too long, or holds a NUL
        return False


def _keys(wanted: Wanted) -> frozenset[str]:
    """What the child's state will have besides its own."""
    request = wanted.request
    own = request.keys | request.scoped
    return own if request.isolated else own | wanted.keys


def _overrides(wanted: Wanted) -> dict[str, Any]:
    """Config values that win over the parent's own, as far as they are a child's matter."""
    names = inheritable(wanted.parent.linked.host)
    return {name: value for name, value in wanted.parent.overrides.items() if name in names}


def _read(name: str) -> _File:
    """A file as plain data, whatever is wrong with it noted."""
    try:
        text = decode(FilePath(name).read_bytes(), name)
        data, marks, problems = read(text, name)
    except (OSError, ValueError) as error:
        return _File(Reporter(file=name, problems=[unreadable(name, error)]))
    except DocumentError as error:
        return _File(Reporter(file=name, problems=list(error.problems)))
    report = Reporter(file=name, marks=marks, data=data, text=text)
    report.add_read(problems)
    return _File(report, {} if data is None else data)


def _inline(wanted: Wanted) -> Document:
    """The document that stands in its parent's."""
    request, parent = wanted.request, wanted.parent
    written = request.written
    way: Path = ()
    if request.form == "steps":
        written, way = {"name": request.step_id, "steps": written}, ("steps",)
    elif request.form == "step":
        written, way = {"name": request.step_id, "steps": [written]}, ("steps", 0)
    report = parent.linked.report.inner(request.path, written, way)
    return Document(
        data=written,
        linked=parent.linked.below(report),
        source=parent.source,
        keys=_keys(wanted),
        doubtful=wanted.doubtful,
        overrides=_overrides(wanted),
        outer=wanted.config,
        repeats=request.repeats,
    )
