"""The runs of a batch. Imports the engine."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

import treadle
from treadle import Budget, BudgetTerms, Journal, Pending, Record, RunStatus, Session, TreadleError, Workflow
from treadle.nurseries import open_nursery
from treadle_cli import amounts
from treadle_cli.batch_items import Item
from treadle_cli.batch_results import Results, result_line, run_id_of, workflow_digest
from treadle_cli.output import Channel
from treadle_cli.signals import Interrupts, cancel_on_signals
from treadle_cli.summary import pending_lines

__all__ = ["Batch", "run_batch"]

_REDRAWN = 0.2
_TOLD = 10.0
"""Seconds between two lines of progress where none can be drawn anew."""
_APART = 0.0005
"""Seconds between the beginnings of two runs, which take the processor as long. Begun at once, they would all come to
their model calls late, and then wait for these together."""
_MOST_FAILURES = 20
_MOST_PAUSED = 10
_ENDED_WELL = (RunStatus.SUCCESS, RunStatus.PAUSED)
_TO_GO_ON = (RunStatus.CANCELLED, RunStatus.BUDGET_EXCEEDED, RunStatus.TIMEOUT)
"""A run that was ended so is gone on with, as one that was killed."""


@dataclass(slots=True, kw_only=True)
class Batch:
    """What is to be run, and how far it has come.

    :param common: state of every run, where its line does not say otherwise.
    :param is_drawn: whether a line of progress may be drawn anew.
    :param again: options that a command which answers a paused run needs as well; None where the runs are not recorded.
    :param is_over: the budget of all is used up: no further run is begun.
    """

    workflow: Workflow
    items: Sequence[Item]
    results: Results
    common: Mapping[str, Any]
    concurrency: int
    budget_usd: float | None
    stderr: Channel
    quiet: bool
    is_drawn: bool
    again: str | None
    is_over: bool = False
    over: str = ""
    done_now: int = 0
    last_begun: float = 0.0
    started: float = field(default_factory=time.monotonic)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        self.digest = workflow_digest(self.workflow)

    @property
    def left(self) -> int:
        """How many lines have no result."""
        return len(self.items) - len(self.results)

    async def turn(self) -> None:
        """Wait until the next run may begin."""
        now = trio.current_time()
        self.last_begun = max(now, self.last_begun + _APART)
        if self.last_begun > now:
            await trio.sleep_until(self.last_begun)

    def end_by_budget(self, error: Exception) -> None:
        """Begin no further run."""
        self.is_over, self.over = True, self.over or str(error)

    def progress(self) -> str:
        """``412/1,000 done, 3 failed, 98.2 a second, 6.0 s left, $0.12``."""
        seconds = time.monotonic() - self.started
        failed, rate = self.results.failed_count, self.done_now / seconds if seconds else 0.0
        paused = self.results.paused_count
        parts = [f"{len(self.results) - paused:,}/{len(self.items):,} done"]
        parts += [f"{failed:,} failed"] if failed else []
        parts += [f"{paused:,} paused"] if paused else []
        if self.done_now:
            parts.append(f"{rate:.1f} a second" if rate >= 0.1 else f"{rate * 60:.1f} a minute")
            parts += [f"{amounts.duration(self.left / rate)} left"] if self.left else []
        results = self.results
        parts.append(amounts.total_cost(results.spent_usd, is_whole=results.is_cost_known, budget=self.budget_usd))
        return ", ".join(parts)


def run_batch(batch: Batch, journal: Journal | None, stdout: Channel | None) -> int:
    """Run what has no result yet, say what came of it, and give the exit code.

    :param journal: where the runs are recorded; closed with it.
    :param stdout: where a summary goes as JSON, if anywhere.
    """
    gc.freeze()  # what has been loaded stays, and is not looked at again and again
    try:
        interrupts = trio.run(_run, batch, journal)
    except BaseExceptionGroup as group:
        raise _spokesman(group) from None
    finally:
        gc.unfreeze()
    failures = batch.results.failures
    for text in _about_failed(failures):
        batch.stderr.line(text)
    for text in _about_paused(batch):
        batch.stderr.line(text)
    if batch.over:
        batch.stderr.line(f"[BUDGET] {batch.over}")
    if batch.left:
        why = "interrupted" if interrupts.exit_code else "ended by its budget"
        more = "" if interrupts.exit_code else ", with a larger --budget"
        batch.stderr.line(f"{why}: {batch.left:,} lines have no result; the same command goes on with them{more}")
    if not batch.quiet:
        batch.stderr.line(f"{batch.progress()}, {amounts.duration(time.monotonic() - batch.started)}")
    if stdout is not None:
        stdout.write(json.dumps(_summary(batch), indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)
    return interrupts.exit_code or (1 if failures or batch.left else 0)


def _about_failed(failures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why runs failed. What many say alike, such as that there is no key, is told once."""
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for each in failures:
        alike.setdefault(each["error"] or each["status"], []).append(each)
    told = list(alike.items())[:_MOST_FAILURES]
    lines = []
    for error, those in told:
        first = f"line {those[0]['line']}" + (f" ({those[0]['key']})" if those[0]["key"] is not None else "")
        more = f" and {len(those) - 1:,} more" if len(those) > 1 else ""
        lines.append(f"failed: {first}{more}: {error}")
    rest = len(failures) - sum(len(those) for _, those in told)
    if rest:
        lines.append(f"failed: {rest:,} more, which the output names too")
    if failures:
        lines.append("--retry-failed tries them again" if len(failures) > 1 else "--retry-failed tries it again")
    return lines


def _about_paused(batch: Batch) -> list[str]:
    """What the paused runs wait for, with the commands that answer."""
    paused = batch.results.paused
    lines: list[str] = []
    for each in paused[:_MOST_PAUSED]:
        pending = [Pending.from_json(one) for one in each.get("pending", ())]
        name = f" ({each['key']})" if each["key"] is not None else ""
        lines += [f"paused: line {each['line']}{name}", *pending_lines(each["run_id"], pending, batch.again)]
    if len(paused) > _MOST_PAUSED:
        lines.append(f"paused: {len(paused) - _MOST_PAUSED:,} more, which the output names too")
    if paused and batch.again is not None:
        lines.append("the same command takes in what has been finished since")
    return lines


def _spokesman(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Runs at once meet the same trouble, such as a journal that another process writes: the first speaks for all.
    The group itself where there is more than one kind."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if not isinstance(first, TreadleError):
        return group
    return first if group.split(type(first))[1] is None else group


def _summary(batch: Batch) -> dict[str, Any]:
    failures = [{name: each[name] for name in ("line", "key", "status", "error")} for each in batch.results.failures]
    return {
        "lines": len(batch.items),
        "done": len(batch.results) - batch.results.paused_count,
        "paused": batch.results.paused_count,
        "failed": failures,
        "total_cost_usd": batch.results.spent_usd if batch.results.is_cost_known else None,
        "known_cost_usd": batch.results.spent_usd,
        "budget_usd": batch.budget_usd,
    }


async def _run(batch: Batch, journal: Journal | None) -> Interrupts:
    async with treadle.open(host=batch.workflow.host, journal=journal) as session:
        if not session.journal.outlives_process:
            batch.again = None
        _take_in_finished(batch, session.journal)
        records = _records(batch, session.journal)
        budget = _budget(batch, session, records)
        waiting = (item for item in batch.items if item.line not in batch.results)
        async with open_nursery() as nursery:
            with cancel_on_signals(lambda _reason: nursery.cancel_scope.cancel()) as interrupts:
                if not batch.quiet:
                    nursery.start_soon(_tell, batch)
                async with open_nursery() as workers:
                    for _ in range(min(batch.concurrency, batch.left)):
                        workers.start_soon(_work, batch, session, waiting, records, budget)
                nursery.cancel_scope.cancel()
    return interrupts


def _records(batch: Batch, journal: Journal) -> dict[int, Record]:
    """What the journal knows of lines that the output does not have; what has ended becomes a result."""
    records: dict[int, Record] = {}
    if not batch.results.was_there:
        return records
    for item in batch.items:
        if item.line in batch.results:
            continue
        run_id = run_id_of(item, batch.results, batch.digest)
        entries = list(journal.entries(run_id))
        if not entries:
            continue
        record = Record(run_id, entries)
        ended = record.result
        if (
            ended is None
            or ended.status in _TO_GO_ON
            or (batch.results.retry_failed and ended.status not in _ENDED_WELL)
        ):
            records[item.line] = record
            batch.results.note_cost(item.line, None if ended is None else ended.total_cost_usd)
        else:
            batch.results.add(result_line(item, ended, batch.workflow, batch.digest))
    return records


def _take_in_finished(batch: Batch, journal: Journal) -> None:
    """What was paused when the output was written, and has been gone on with to its end since."""
    found: list[Mapping[str, Any]] = []
    paused = {each["line"]: each["run_id"] for each in batch.results.paused}
    for item in batch.items:
        if item.line not in paused:
            continue
        entries = list(journal.entries(paused[item.line]))
        ended = Record(paused[item.line], entries).result if entries else None
        if ended is not None and ended.status is not RunStatus.PAUSED and ended.status not in _TO_GO_ON:
            found.append(result_line(item, ended, batch.workflow, batch.digest))
    batch.results.replace(found)


def _budget(batch: Batch, session: Session, records: Mapping[int, Record]) -> Budget | None:
    if batch.budget_usd is None:
        return None
    spent = batch.results.spent_of(item.line for item in batch.items if item.line not in records)
    spent += sum(record.spent("") for record in records.values())
    return session.new_budget(
        BudgetTerms(
            limit_usd=batch.budget_usd,
            whose="the batch",
            spent_usd=spent,
            config=batch.workflow.config,
            warn=lambda message: batch.stderr.line(f"warning: {message}"),
            exceeded=batch.end_by_budget,
        )
    )


async def _work(
    batch: Batch, session: Session, waiting: Iterator[Item], records: Mapping[int, Record], budget: Budget | None
) -> None:
    for item in waiting:
        await batch.turn()
        if batch.is_over:
            return
        run = session.start(
            batch.workflow,
            state={**batch.common, **item.state},
            run_id=run_id_of(item, batch.results, batch.digest),
            earlier=records.get(item.line),
            budget=budget,
        )
        try:
            result = await run.execute()
        except trio.Cancelled:
            batch.results.note_cost(item.line, None)  # of a call that was cut off nobody knows what it costs
            raise
        if run.halted is not None and not run.halted.run_id:
            batch.end_by_budget(run.halted)
            if result.status is RunStatus.BUDGET_EXCEEDED and any(
                each.status != "success" for each in result.step_results.values()
            ):
                batch.results.note_cost(item.line, result.total_cost_usd)
                continue  # it has no result: with a larger budget it goes on
        batch.results.add(result_line(item, result, batch.workflow, batch.digest))
        batch.done_now += 1


async def _tell(batch: Batch) -> None:
    """Draw a line anew on a terminal; elsewhere write one now and then."""
    try:
        while True:
            if batch.is_drawn:
                batch.stderr.write(f"\r{batch.progress()}\x1b[K", raw=True)
                await trio.sleep(_REDRAWN)
            else:
                await trio.sleep(_TOLD)
                batch.stderr.line(batch.progress())
    finally:
        if batch.is_drawn:
            batch.stderr.write("\r\x1b[K", raw=True)
