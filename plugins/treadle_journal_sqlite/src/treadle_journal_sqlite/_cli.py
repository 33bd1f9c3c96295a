"""The commands ``treadle runs`` and ``treadle show``."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

import treadle
from treadle import ConfigurationError, Record, amounts
from treadle.contracts.results import json_value
from treadle_journal_sqlite.journal import SqliteJournal
from treadle_journal_sqlite.settings import JournalSettings
from treadle_journal_sqlite.store import NoJournalError
from treadle_journal_sqlite.views import find_run, list_runs, run_object, run_versions, step_notes

__all__ = ["runs", "show"]

_STATUSES = ["success", "failed", "timeout", "paused", "cancelled", "budget_exceeded", "running", "interrupted"]
_FOLDER = "treadle_journal_sqlite.folder"
_DAYS = re.compile(r"(\d+)(d|h)")


@contextmanager
def _journal(ctx: click.Context, folder: str | None = None) -> Iterator[SqliteJournal]:
    """The journal of this directory, as ``treadle.yaml`` says."""
    named = ctx.find_root().meta.get("treadle.config", ctx.meta.get("treadle.config"))
    file = (named or None) if named is not None else treadle.find_settings()
    settings = JournalSettings()
    if file is not None:
        loaded = treadle.load_settings(file)
        settings = JournalSettings.model_validate(loaded.journal or {}, context={"folder": loaded.folder})
    if folder is not None:
        settings = settings.model_copy(update={"path": Path(folder) / "journal.db"})
    journal = SqliteJournal(settings, create=False)
    try:
        yield journal
    finally:
        journal.close()


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _folder_option(function: _Function) -> _Function:
    return click.option(
        "--checkpoint-dir",
        "--runs-dir",
        "folder",
        metavar="DIR",
        help="Look in DIR/journal.db, whatever treadle.yaml says.",
    )(function)


class _Time(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no date; write 2026-01-31 or 2026-01-31T12:00:00", param, ctx)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


@click.group(short_help="List the runs that were recorded here, newest first.", invoke_without_command=True)
@click.option("--workflow", metavar="NAME", help="Only runs of the workflow of that name.")
@click.option("--provider", metavar="NAME", help="Only runs that NAME answered in: the beginning of provider/model.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only runs that stand so.")
@click.option("--since", type=_Time(), metavar="DATE", help="Only runs that began then (UTC) or later.")
@click.option("--until", type=_Time(), metavar="DATE", help="Only runs that began before that (UTC).")
@click.option("--min-cost", type=float, metavar="USD", help="Only runs that cost so much or more.")
@click.option("--max-cost", type=float, metavar="USD", help="Only runs that cost so much or less.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="The most runs to list.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@_folder_option
@click.pass_context
def runs(ctx: click.Context, /, as_json: bool, folder: str | None, limit: int, **filters: Any) -> None:
    """List runs that were recorded here, the newest first. A run whose cost is unknown is in no range of costs.

    On a terminal the columns have names. Elsewhere every line is a run, for programs that read lines; --json is for
    all others.
    """
    if ctx.invoked_subcommand is not None:
        ctx.meta[_FOLDER] = folder
        for each in ctx.command.params:
            is_given = ctx.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
            if is_given and each.name in {"as_json", "limit", *filters}:
                raise click.UsageError(f"{each.opts[0]} is for the list, and not for {ctx.invoked_subcommand}")
        return
    try:
        with _journal(ctx, folder) as journal:
            found = list_runs(journal, limit=limit + 1, **filters)
    except NoJournalError:
        found = []
    found, is_cut = found[:limit], len(found) > limit
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif not found:
        click.echo("no runs", err=True)
    else:
        for line in _table(found, has_head=sys.stdout.isatty()):
            click.echo(line)
        if is_cut and sys.stdout.isatty():
            click.echo("there are more; --limit says how many to list", err=True)


def _table(found: Sequence[Mapping[str, Any]], *, has_head: bool) -> Iterator[str]:
    rows = [("RUN", "STATUS", "BEGAN (UTC)", "COST", "WORKFLOW")] if has_head else []
    for run in found:
        cost, name = amounts.cost(run["total_cost_usd"]), _safe(run["workflow_name"])
        rows.append((run["run_id"], run["status"], run["started_at"][:19], cost, name))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)), row[4]])


@runs.command(short_help="Delete runs from the journal.")
@click.option("--older-than", metavar="AGE", required=True, help="Those that began longer ago: 30d, 12h.")
@click.option("--dry-run", is_flag=True, help="Only say how many.")
@_folder_option
@click.pass_context
def prune(ctx: click.Context, older_than: str, dry_run: bool, folder: str | None) -> None:
    """Delete runs that began long ago. Those under way stay."""
    age = _DAYS.fullmatch(older_than)
    if age is None:
        raise click.BadParameter(f"{older_than!r} is no age; write 30d or 12h", param_hint="--older-than")
    before = time.time() - int(age[1]) * (86400 if age[2] == "d" else 3600)
    with _journal(ctx, folder or ctx.meta.get(_FOLDER)) as journal:
        old = [run["run_id"] for run in list_runs(journal, until=before) if run["status"] != "running"]
        if not dry_run:
            journal.delete(old)
    click.echo(f"{len(old)} {'run' if len(old) == 1 else 'runs'} {'would be ' if dry_run else ''}deleted")


@click.command(short_help="Show what a run did.")
@click.argument("run_id", metavar="RUN")
@click.option("--calls", is_flag=True, help="Show what models and tools were asked, and what they answered.")
@click.option("--json", "as_json", is_flag=True, help="Print the result object, as `treadle run --json` does.")
@_folder_option
@click.pass_context
def show(ctx: click.Context, run_id: str, calls: bool, as_json: bool, folder: str | None) -> None:
    """Show the steps of a run, what they called and cost, and why each was skipped or tried again.

    A run that was killed is shown as far as it came.
    """
    if calls and as_json:
        raise click.UsageError("--calls is for people; the journal's entries are read in Python: session.journal")
    with _journal(ctx, folder) as journal:
        run = find_run(journal, run_id)
        if run is None:
            like = [each["run_id"] for each in list_runs(journal) if each["run_id"].startswith(run_id)]
            hint = f"did you mean '{like[0]}'?" if len(like) == 1 else "`treadle runs` lists them"
            raise ConfigurationError(f"there is no run '{run_id}' in {journal.store.path}", hint=hint)
        entries = list(journal.entries(run_id))
    record = Record(run_id, entries)
    result = run_object(record, run)
    if as_json:
        click.echo(json.dumps(json_value(result), indent=2))
        return
    click.echo(f"{_safe(run['workflow_name'])}: {run['status']}, begun {run['started_at']}, {_cost(result)}")
    if forked := record.facts.get("forked"):
        click.echo(f"forked from {forked['run_id']} at step '{forked['at']}'")
    if result["error"]:
        click.echo(f"error: {_safe(result['error'])}")
    notes = step_notes(entries, with_texts=calls)
    for line in notes.pop("", []):
        click.echo(_safe(line))
    children = {path: f"{step.result.status if step.result else 'running'}" for path, step in record.steps.items()}
    for path in [*result["step_results"], *(path for path in children if path not in result["step_results"])]:
        own = result["step_results"].get(path)
        status = own["status"] if own else children[path]
        why = (own and (own["error"] or own["reason"])) or ""
        click.echo(f"  {path}: {status}{f', {_cost(own)}' if own else ''}{f': {_safe(why)}' if why else ''}")
        for line in notes.pop(path, ()):
            click.echo(f"      {_safe(line)}")
        for asked in own["pending"] if own else ():
            choices = f" ({', '.join(asked['choices'])})" if asked["choices"] else ""
            click.echo(f"      waits{_at(asked['gate'])}: {_safe(asked['question'] + choices)}")
    if result["pending"]:
        click.echo(f"treadle resume {run_id} says how that is answered")
    for warning in result["warnings"]:
        click.echo(f"warning: {_safe(warning['message'])}")
    click.echo(f"document {run['workflow_hash']}")
    versions = f"run with {', '.join(_versions(run_versions(record)))}"
    click.echo(click.wrap_text(versions, shutil.get_terminal_size().columns, subsequent_indent="  "))


def _versions(of: Mapping[str, str]) -> Iterator[str]:
    """Those of Python, of the kernel and of what has another one, as nearly all of ours have one and the same."""
    kernel = of.get("treadle-kernel")
    alike = [name for name in of if name.startswith("treadle-") and of[name] == kernel]
    for name, version in of.items():
        if name == "treadle-kernel" and len(alike) > 1:
            more = "1 more package" if len(alike) == 2 else f"{len(alike) - 1} more packages"
            yield f"{name} {version} and {more} of that version"
        elif name == "treadle-kernel" or name not in alike:
            yield f"{name} {version}"


def _cost(result: dict[str, Any]) -> str:
    tokens = result.get("total_tokens") if "total_tokens" in result else result["token_usage"]["total_tokens"]
    cost = result.get("total_cost_usd") if "total_cost_usd" in result else result["cost_usd"]
    return f"{amounts.tokens(tokens)}, {amounts.cost(cost)}"


def _at(gate: str | None) -> str:
    return f" at gate {gate}" if gate else ""


def _safe(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)
