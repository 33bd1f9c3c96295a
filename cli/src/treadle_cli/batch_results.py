"""The output of ``treadle batch``: one JSON object a line, in the order of the inputs."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any, Self, TextIO

from treadle import ConfigurationError, RunResult, Workflow
from treadle_cli.batch_items import Item
from treadle_cli.output import Channel
from treadle_cli.summary import written

__all__ = ["Results", "result_line", "run_id_of", "workflow_digest"]

_GOOD = ("success", "paused")
_WRITTEN: Mapping[str, Any] = {"status": "success"}
"""Stands for what is in the file and need not be in memory."""
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_NEEDED: dict[str, tuple[type, ...]] = {
    "line": (int,),
    "input": (str,),
    "workflow": (str,),
    "status": (str,),
    "cost_usd": (int, float, NoneType),
}
_BEGINNING = '{"line": '
"""How every result begins: an unfinished line that begins otherwise is somebody's text."""


def result_line(item: Item, result: RunResult, workflow: Workflow, digest: str) -> dict[str, Any]:
    """What the output says of a run."""
    line: dict[str, Any] = {
        "line": item.line,
        "key": item.key,
        "run_id": result.run_id,
        "status": str(result.status),
        "output": written(workflow, result),
        "error": result.error,
        "cost_usd": result.total_cost_usd,
        "tokens": result.total_tokens,
        "duration_ms": round(result.total_duration_ms, 3),
        "input": item.digest,
        "workflow": _short(digest),
    }
    if result.pending:
        line["pending"] = [each.to_json() for each in result.pending]
    return line


class Results:
    """The results so far. Each is written as soon as all before it are there; the file is whole lines at any time but
    for the last one, which a killed process may have left unfinished. Where failed ones are run again, the file is
    put in place whole when the batch ends: till then it stays as it was.

    :param file: where they go; None for ``stdout``, which has all of them each time.
    :param place: what tells this batch from others.
    :param found: those that the file had, by line.
    :param retry_failed: whether what has failed is run again.
    :param was_there: whether there may have been an earlier start, so that the journal may know more than the file.
    """

    def __init__(
        self,
        file: Path | None,
        place: str,
        items: Sequence[Item],
        found: dict[int, Mapping[str, Any]],
        *,
        stdout: Channel | None = None,
        retry_failed: bool = False,
        was_there: bool = False,
        is_torn: bool = False,
    ) -> None:
        self.file = file
        self.place = place
        self.retry_failed = retry_failed
        failed = (line for line, each in found.items() if each["status"] not in _GOOD)
        to_retry = frozenset(failed) if retry_failed else frozenset()
        self._is_put_in_place = bool(to_retry)
        self._stdout = stdout
        self.was_there = was_there
        self._is_torn = is_torn
        self._order = [item.line for item in items]
        self._found = found
        self._known = {line: each for line, each in found.items() if line not in to_retry}
        self._failed = sum(each["status"] not in _GOOD for each in self._known.values())
        self._paused: int = sum(each["status"] == "paused" for each in self._known.values())
        self._next = 0
        self._stream: TextIO | None = None
        self._costs = {line: each["cost_usd"] for line, each in found.items()}
        self._known_usd = sum(each or 0.0 for each in self._costs.values())
        self._unknown = sum(each is None for each in self._costs.values())

    @classmethod
    def open(
        cls, file: str, inputs: str, items: Sequence[Item], workflow: Workflow, *, restart: bool, retry_failed: bool
    ) -> Results:
        """A file; read what is there.

        :param inputs: the file of the inputs, which is never written to.
        :param restart: replace what is there, if it is what a batch has written.
        :raises ConfigurationError: it is not of these inputs and this workflow, or no output of a batch at all.
        """
        path = Path(file)
        place = str(path.absolute())
        if not path.parent.is_dir():
            raise ConfigurationError(f"{file}: there is no folder {path.parent}")
        if _is_one_file(path, Path(inputs)):
            raise ConfigurationError(
                f"{file}: is the file of the inputs, {inputs}, and results would replace them",
                hint="name another --output",
            )
        if not path.exists() or (restart and not path.is_file()):
            return cls(path, place, items, {})
        lines, is_torn = _read_lines(path, file)
        if restart:
            return cls(path, place, items, {})
        found = _belonging(lines, file, items, workflow)
        return cls(path, place, items, found, retry_failed=retry_failed, was_there=True, is_torn=is_torn)

    @classmethod
    def to_stdout(
        cls, stdout: Channel, inputs: str, items: Sequence[Item], *, restart: bool, retry_failed: bool
    ) -> Results:
        """Results that are written there. What earlier starts have done is in the journal alone."""
        place = f"{Path(inputs).absolute()} > stdout"
        return cls(None, place, items, {}, stdout=stdout, retry_failed=retry_failed, was_there=not restart)

    def __enter__(self) -> Self:
        try:
            if self._is_torn:
                self._write_whole()
            if self.file is not None and not self._is_put_in_place:
                self._stream = self.file.open("a" if self.was_there else "w", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{self.file}: cannot be written: {error.strerror or error}") from error
        while self._next < len(self._order) and self._order[self._next] in self._known:
            self._next += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()
        elif self.file is not None:
            self._write_whole()

    def __contains__(self, line: int) -> bool:
        return line in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, result: Mapping[str, Any]) -> None:
        """Keep a result, and write what is now in order."""
        line = result["line"]
        self._known[line] = result
        self._failed += result["status"] not in _GOOD
        self._paused += result["status"] == "paused"
        self.note_cost(line, result["cost_usd"])
        if self._is_put_in_place:
            return
        lines = []
        while self._next < len(self._order) and (each := self._known.get(self._order[self._next])) is not None:
            lines.append(_text(each))
            if each["status"] == "success":
                self._known[self._order[self._next]] = _WRITTEN
            self._next += 1
        if self._stdout is not None:
            self._stdout.write("".join(lines), raw=True)
        elif self._stream is not None:
            self._stream.write("".join(lines))
            self._stream.flush()

    def note_cost(self, line: int, usd: float | None) -> None:
        """What the run of a line has cost so far, whether it has a result or not; None is unknown."""
        before = self._costs.get(line, 0.0)
        self._costs[line] = usd
        self._known_usd += (usd or 0.0) - (before or 0.0)
        self._unknown += (usd is None) - (before is None)

    @property
    def spent_usd(self) -> float:
        """What they have cost, as far as that is known; see :attr:`is_cost_known`."""
        return round(self._known_usd, 12)  # sums of decimal fractions have an end that nobody has paid

    def spent_of(self, lines: Iterable[int]) -> float:
        """What those lines have cost, as far as that is known."""
        return round(sum(self._costs.get(line) or 0.0 for line in lines), 12)

    @property
    def is_cost_known(self) -> bool:
        """Whether that is all of it."""
        return not self._unknown

    @property
    def failed_count(self) -> int:
        """How many did not succeed."""
        return self._failed

    @property
    def paused_count(self) -> int:
        """How many wait for somebody."""
        return self._paused

    @property
    def paused(self) -> list[Mapping[str, Any]]:
        """Those that wait for somebody, in order."""
        known = (self._known[line] for line in self._order if line in self._known)
        return [each for each in known if each["status"] == "paused"]

    def replace(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Put other results in the place of paused ones, before any is added. The file has all of them at once."""
        replaced = False
        for result in results:
            replaced = True
            line, self._paused = result["line"], self._paused - 1
            self._found[line] = self._known[line] = result
            self._failed += result["status"] not in _GOOD
            self.note_cost(line, result["cost_usd"])
        if replaced and self._stream is not None and self.file is not None:
            self._stream.close()
            self._write_whole()
            self._stream = self.file.open("a", encoding="utf-8")

    @property
    def failures(self) -> list[Mapping[str, Any]]:
        """Those that did not succeed, in order."""
        known = (self._known[line] for line in self._order if line in self._known)
        return [each for each in known if each["status"] not in _GOOD]

    def _write_whole(self) -> None:
        """Put all that is in order in the file's place: at once, or not at all."""
        assert self.file is not None
        part = self.file.with_name(f"{self.file.name}.part")
        all_known = {**self._found, **self._known}
        lines = itertools.takewhile(all_known.__contains__, self._order)
        part.write_text("".join(_text(all_known[line]) for line in lines), encoding="utf-8")
        part.replace(self.file)


def _text(result: Mapping[str, Any]) -> str:
    text = _ENCODER.encode(result)
    return (text if text.isascii() else text.encode("utf-8", "replace").decode()) + "\n"


def _is_one_file(one: Path, other: Path) -> bool:
    """Whether both names lead to one file, by links too."""
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return one.resolve() == other.resolve()


def _read_lines(path: Path, file: str) -> tuple[list[dict[str, Any]], bool]:
    """The results in the file, and whether its last line is torn.

    :raises ConfigurationError: it has something else than results of a batch.
    """
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror or error}") from error
    *lines, rest = text.split("\n")
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            result = json.loads(line)
            is_result = all(type(result[name]) in kinds for name, kinds in _NEEDED.items())
        except (ValueError, LookupError, TypeError, RecursionError):
            raise _foreign(file, number) from None
        if not is_result:
            raise _foreign(file, number)
        found.append(result)
    if not rest.startswith(_BEGINNING[: len(rest)]):
        raise _foreign(file, len(lines) + 1)
    return found, bool(rest)


def _foreign(file: str, line: int) -> ConfigurationError:
    return ConfigurationError(f"{file}:{line}: is no result of treadle batch", hint="name another --output")


def _belonging(
    lines: Sequence[dict[str, Any]], file: str, items: Sequence[Item], workflow: Workflow
) -> dict[int, Mapping[str, Any]]:
    """The results by line, which are of these inputs and this workflow."""
    by_line = {item.line: item for item in items}
    digest = _short(workflow_digest(workflow))
    maker, change = workflow.source or "the workflow", "as it was before it changed"
    if workflow.files:
        maker, change = f"{maker} and the files that it names", "as they were before one of them changed"
    found: dict[int, Mapping[str, Any]] = {}
    for number, result in enumerate(lines, start=1):
        at = result["line"]
        item = by_line.get(at)
        if item is None or item.digest != result["input"]:
            raise ConfigurationError(
                f"{file}:{number}: is the result of line {at} of the inputs, which has changed since",
                hint="give the inputs as they were, name another --output, or give --restart",
            )
        if result["workflow"] != digest:
            raise ConfigurationError(
                f"{file}:{number}: was made by {maker} {change}",
                hint="name another --output, or give --restart",
            )
        found[at] = result
    return found


def run_id_of(item: Item, results: Results, digest: str) -> str:
    """The same for the same line, output and workflow, so that another process finds the record of the run."""
    what = f"{results.place}\n{digest}\n{item.digest}"
    return f"batch-{hashlib.sha256(what.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}-{item.line}"


def workflow_digest(workflow: Workflow) -> str:
    """The hash of what the workflow says, with the agents and child workflows that its steps name.

    It is made anew at each call: a batch asks once.
    """
    if not workflow.files:
        return workflow.digest
    whole = json.dumps([workflow.digest, workflow.files], default=str)
    return f"sha256:{hashlib.sha256(whole.encode('ascii')).hexdigest()}"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:16]
