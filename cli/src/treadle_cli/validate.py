"""``treadle validate``: everything wrong with workflow files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import treadle
from treadle import DocumentError, Problem
from treadle_cli.options import debug_option, find_settings_file, host_options, host_without, tools_option
from treadle_cli.output import Channel, err, out
from treadle_cli.problems import count_problems, plural, problem_json, warn_of_plugins

if TYPE_CHECKING:
    from treadle import Workflow

__all__ = ["validate"]


@click.command(short_help="Report everything wrong with workflow files.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list on stdout: each file with its problems.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.option(
    "--rights", is_flag=True, help="Say what each workflow asks for: tools, models, commands, paths and hosts."
)
@tools_option
@host_options
@debug_option
@click.pass_context
def validate(
    ctx: click.Context,
    files: Sequence[str],
    as_json: bool,
    strict: bool,
    rights: bool,
    tools: Sequence[str],
    without: Sequence[str],
) -> None:
    """Check workflow files and report every problem in them.

    An error is what cannot work; a warning is what may not. A problem is a line FILE:LINE:COLUMN: PLACE: CAUSE on
    stderr, as compilers do it; files without errors are named on stdout.

    The settings that count here, and a FILE named treadle.yaml, are checked as settings. Where those that count have
    errors, nothing else is checked, as it depends on them.

    With --rights, what the steps name is listed, templates as they are written, and what limits it: a step whose
    arguments a model chooses asks for anything that its tools can reach. It grants nothing.

    Exit code: 0 where every file is good, else 2.
    """
    stdout, stderr = out(), err()
    results: list[dict[str, Any]] = []
    good = True
    for file, content, workflow, problems in _check(files, without, tools, stderr):
        ok = content is not None and not (strict and problems)
        good &= ok
        if as_json:
            results.append(
                {
                    "file": file,
                    "ok": ok,
                    "steps": len(workflow.steps) if workflow else None,
                    "placeholders": _placeholders(workflow) if workflow else {},
                    "problems": [problem_json(problem) for problem in problems],
                    **({"rights": _rights_json(workflow) if workflow else None} if rights else {}),
                }
            )
            continue
        for problem in problems:
            stderr.line(str(problem))
        if ok:
            warned = f", {count_problems(problems)}" if problems else ""
            stdout.line(f"{file}: ok ({content}{warned})")
            for line in _rights_lines(workflow) if rights and workflow else ():
                stdout.line(line)
        else:
            stderr.line(f"{file}: {count_problems(problems)}")
    if as_json:
        stdout.write(json.dumps(results, indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)
    ctx.exit(0 if good else 2)


def _check(
    files: Sequence[str], without: Sequence[str], tools: Sequence[str], stderr: Channel
) -> Iterator[tuple[str, str | None, Workflow | None, Sequence[Problem]]]:
    """Each file, what is in it unless it has errors, the workflow if it is one, and the problems."""
    settings_file, _ = find_settings_file()
    try:
        host = host_without(without, tools=tools, check_providers=True)
    except DocumentError as error:
        yield settings_file or "", None, None, error.problems
        return
    warn_of_plugins(host, stderr)
    if host.warnings and settings_file is not None:
        yield settings_file, "settings", None, host.warnings
    for file in files:
        try:
            if Path(file).name == "treadle.yaml":
                settings = host_without(without, check_providers=True, file=file)
                if file != settings_file or not settings.warnings:
                    yield file, "settings", None, settings.warnings
                continue
            workflow = treadle.load_workflow(file, host=host)
        except DocumentError as error:
            yield file, None, None, error.problems
        else:
            yield file, plural(len(workflow.steps), "step"), workflow, workflow.warnings


# Imported in the two: most look for mistakes only.


def _rights_json(workflow: Workflow) -> Any:
    from treadle_cli.rights import rights_json

    return rights_json(workflow)


def _rights_lines(workflow: Workflow) -> Iterable[str]:
    from treadle_cli.rights import rights_lines

    return rights_lines(workflow)


def _placeholders(workflow: Workflow) -> dict[str, list[str]]:
    """The references of each template, by its place: every other brace in it is text."""
    found: dict[str, list[str]] = {}
    for step in workflow.steps:
        for field, value in step.reads():
            if isinstance(value, treadle.Template | treadle.ArgumentTree) and value.references:
                names = dict.fromkeys(reference.text for reference in value.references)
                found[f"steps.{step.id}.{field}"] = list(names)
    return found
