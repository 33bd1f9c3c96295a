"""``treadle plugins``: what is installed, how it fares, and what it offers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from treadle_cli.options import debug_option, host_options, host_without
from treadle_cli.output import out

if TYPE_CHECKING:
    from treadle import Host

__all__ = ["plugins"]


@click.command(short_help="List what is installed and what it offers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@host_options
@debug_option
def plugins(as_json: bool, without: Sequence[str]) -> None:
    """List plugins: name, distribution, version, state and what each offers.

    What could not be loaded is listed with its cause, as are names that two plugins offer. Nothing that is offered
    is imported.
    """
    host = host_without(without)
    stdout = out()
    if as_json:
        stdout.write(json.dumps(_as_json(host), indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)
        return
    if not host.reports:
        stdout.line("no plugins are installed; pip install treadle brings the usual ones")
        return
    rows = [("NAME", "DISTRIBUTION", "VERSION", "STATE", "OFFERS")]
    for report in sorted(host.reports, key=lambda each: each.name):
        offers = _offers_by_role(report.offers)
        first, *more = [f"{role.replace('_', ' ')}: {', '.join(names)}" for role, names in offers.items()] or [""]
        rows.append((report.name, report.distribution.name, report.distribution.version, str(report.state), first))
        rows.extend(("", "", "", "", line) for line in more)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True))
        stdout.line(f"{'  '.join(cells)}  {row[4]}".rstrip())
    for error in host.problems():
        stdout.line()
        stdout.line(str(error))


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
                "load_ms": round(report.load_seconds * 1000, 3),
                "offers": [
                    {"role": registered.role, "name": registered.name, "summary": registered.offer.summary}
                    for registered in report.offers
                ],
            }
            for report in sorted(host.reports, key=lambda each: each.name)
        ],
        "problems": [str(error) for error in host.problems()],
    }
