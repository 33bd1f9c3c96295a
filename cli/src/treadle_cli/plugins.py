"""``treadle plugins``: what is installed, how it fares, what it offers, and whether it keeps the contract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

import treadle
from treadle_cli.new import new
from treadle_cli.options import debug_option, host_options, host_without, is_debugging
from treadle_cli.output import Channel, err, out

if TYPE_CHECKING:
    from treadle import Host
    from treadle.testing.installed import CheckedPlugin

__all__ = ["plugins"]

SLOW = 0.25
"""Seconds of loading from which on a plugin is called slow: every command pays for them."""


@click.group(invoke_without_command=True, short_help="List what is installed and what it offers, or check it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@host_options
@debug_option
@click.pass_context
def plugins(ctx: click.Context, as_json: bool, without: Sequence[str]) -> None:
    """List plugins: name, distribution, version, state, how long each took to load and what it offers.

    What could not be loaded is listed with its cause, as are names that two plugins offer. Nothing that is offered
    is imported.
    """
    if ctx.invoked_subcommand is not None:
        ctx.meta["treadle_cli.plugins.json"] = as_json
        return
    _list(as_json, without)


@plugins.command("list", short_help="List what is installed, as without a command.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@host_options
@debug_option
@click.pass_context
def list_plugins(ctx: click.Context, as_json: bool, without: Sequence[str]) -> None:
    """List plugins, as ``treadle plugins`` does."""
    _list(as_json or bool(ctx.meta.get("treadle_cli.plugins.json")), without)


def _list(as_json: bool, without: Sequence[str]) -> None:
    host = host_without(without)
    stdout = out()
    if as_json:
        stdout.write(json.dumps(_as_json(host), indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)
        return
    if not host.reports:
        stdout.line("no plugins are installed; pip install treadle brings the usual ones")
        return
    rows = [("NAME", "DISTRIBUTION", "VERSION", "STATE", "LOADED IN", "OFFERS")]
    for report in sorted(host.reports, key=lambda each: each.name):
        offers = _offers_by_role(report.offers)
        first, *more = [f"{role.replace('_', ' ')}: {', '.join(names)}" for role, names in offers.items()] or [""]
        took = f"{report.load_seconds * 1000:.0f} ms" if report.state == "loaded" else ""
        owner = report.distribution
        rows.append((report.name, owner.name, owner.version, str(report.state), took, first))
        rows.extend(("", "", "", "", "", line) for line in more)
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:5], widths, strict=True))
        stdout.line(f"{'  '.join(cells)}  {row[5]}".rstrip())
    for text in (*_slow(host), *map(str, host.problems())):
        stdout.line()
        stdout.line(text)


def _slow(host: Host) -> list[str]:
    return [
        f"{report.owner} took {report.load_seconds:.1f} s to load, and so does every command; "
        f"treadle plugins check {report.name} says what it imports"
        for report in host.reports
        if report.load_seconds >= SLOW
    ]


def _offers_by_role(offers: Sequence[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for registered in offers:
        found.setdefault(registered.role, []).append(registered.name)
    return {role: sorted(names) for role, names in sorted(found.items())}


def _as_json(host: Host) -> dict[str, Any]:
    return {
        "plugins": [
            {
                "name": report.name,
                "distribution": report.distribution.name,
                "version": report.distribution.version,
                "state": str(report.state),
                "source": report.source,
                "error": str(report.error) if report.error else None,
                "remedy": report.remedy or None,
                "load_ms": round(report.load_seconds * 1000, 3),
                "slow": report.load_seconds >= SLOW,
                "offers": [
                    {"role": registered.role, "name": registered.name, "summary": registered.offer.summary}
                    for registered in report.offers
                ],
            }
            for report in sorted(host.reports, key=lambda each: each.name)
        ],
        "problems": [str(error) for error in host.problems()],
    }


@plugins.command(short_help="Hold installed plugins to their contract.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@host_options
@debug_option
@click.pass_context
def check(ctx: click.Context, names: Sequence[str], as_json: bool, without: Sequence[str]) -> None:
    """Check the plugins of these names, or all: metadata, what their import brings along, everything they offer.

    A plugin may ship a contract suite, as an entry point of the group treadle.checks; it is run, and what it offers
    beside what the labels of the suite name is told as not tried. A disabled plugin is not imported.

    Exit code: 0 where every plugin is good, 1 where one is not, 2 for a name that is not installed.
    """
    from treadle import PluginError
    from treadle.testing.installed import check_installed

    host = host_without(without)
    known = {report.name for report in host.reports}
    for name in names:
        if name not in known:
            near = treadle.close_match(name, known)
            hint = f"did you mean '{near}'?" if near else "`treadle plugins` lists those that are"
            raise PluginError(f"no plugin '{name}' is installed", hint=hint)
    stdout = out()
    chosen = [report for report in host.reports if not names or report.name in names]
    checked = []
    as_json = as_json or bool(ctx.meta.get("treadle_cli.plugins.json"))
    for report in sorted(chosen, key=lambda each: each.name):
        checked.append(check_installed(host, report))
        if not as_json:
            _print_checked(checked[-1], stdout)
        if is_debugging(ctx):
            import traceback

            for error in checked[-1].raised:
                err().write("".join(traceback.format_exception(error)))
    good = all(each.ok for each in checked)
    if as_json:
        data = {"ok": good, "plugins": [_checked_json(each) for each in checked]}
        stdout.write(json.dumps(data, indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)
    ctx.exit(0 if good else 1)


def _print_checked(checked: CheckedPlugin, stdout: Channel) -> None:
    report = checked.report
    who = f"{report.name} ({report.distribution})"
    if report.remedy:
        stdout.line(f"{who}: not checked, as it is disabled: {report.remedy}")
        return
    suite = checked.suite or []
    about = [f"{len(report.offers)} offers" if len(report.offers) != 1 else "1 offer"]
    about.append("no suite of its own" if checked.suite is None else f"{len(suite)} of its own checks run")
    if checked.import_seconds is not None:
        about.append(f"imported in {checked.import_seconds * 1000:.0f} ms")
    faults = len(checked.faults) + sum(bool(each.fault) for each in suite)
    verdict = "ok" if checked.ok else f"{faults} fault{'s' if faults > 1 else ''}"
    stdout.line(f"{who}: {verdict} ({', '.join(about)})")
    for fault in checked.faults:
        stdout.line(f"  {fault}")
    for each in suite:
        if each.fault:
            stdout.line(f"  {each.label}: {each.fault}")
        if each.doubt:
            stdout.line(f"  {each.label}: warning: {each.doubt}")
    if checked.untried:
        stdout.line(f"  not tried, as no label of its own checks names it: {', '.join(checked.untried)}")


def _checked_json(checked: CheckedPlugin) -> dict[str, Any]:
    report = checked.report
    return {
        "name": report.name,
        "distribution": report.distribution.name,
        "version": report.distribution.version,
        "state": str(report.state),
        "ok": checked.ok,
        "faults": checked.faults,
        "untried": checked.untried,
        "import_ms": None if checked.import_seconds is None else round(checked.import_seconds * 1000, 3),
        "suite": None
        if checked.suite is None
        else [
            {
                "label": each.label,
                "ok": not each.fault,
                "fault": each.fault or None,
                "warning": each.doubt or None,
                "seconds": round(each.seconds, 3),
            }
            for each in checked.suite
        ],
    }


plugins.add_command(new)
