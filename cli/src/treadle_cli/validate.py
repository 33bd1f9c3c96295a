"""``treadle validate``: everything wrong with workflow files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

import treadle
from treadle import DocumentError, Problem
from treadle_cli.options import debug_option, host_without, without_option
from treadle_cli.output import err, out
from treadle_cli.problems import count_problems, plural

__all__ = ["validate"]


@click.command(short_help="Report everything wrong with workflow files.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list on stdout: each file with its problems.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@without_option
@debug_option
@click.pass_context
def validate(ctx: click.Context, files: Sequence[str], as_json: bool, strict: bool, without: Sequence[str]) -> None:
    """Check workflow files and report every problem in them.

    An error is what cannot work; a warning is what may not. A problem is a line FILE:LINE:COLUMN: PLACE: CAUSE on
    stderr, as compilers do it; files without errors are named on stdout.

    Exit code: 0 where every file is good, else 2.
    """
    host = host_without(without)
    stdout, stderr = out(), err()
    results: list[dict[str, Any]] = []
    good = True
    for file in files:
        steps: int | None = None
        problems: Sequence[Problem]
        try:
            workflow = treadle.load_workflow(file, host=host)
        except DocumentError as error:
            problems = error.problems
        else:
            problems, steps = workflow.warnings, len(workflow.steps)
        ok = steps is not None and not (strict and problems)
        good &= ok
        if as_json:
            results.append(
                {"file": file, "ok": ok, "steps": steps, "problems": [_problem_json(problem) for problem in problems]}
            )
            continue
        for problem in problems:
            stderr.line(str(problem))
        if ok:
            warned = f", {count_problems(problems)}" if problems else ""
            stdout.line(f"{file}: ok ({plural(steps or 0, 'step')}{warned})")
        else:
            stderr.line(f"{file}: {count_problems(problems)}")
    if as_json:
        stdout.write(json.dumps(results, indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)
    ctx.exit(0 if good else 2)


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }
