"""An installed plugin held to its contract, as ``treadle plugins check`` does it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from treadle._plugins import Host, PluginReport, PluginState
from treadle._plugins.finding import distribution_of, list_entry_points, load_entry_point
from treadle._plugins.registry import cause_of
from treadle._plugins.versions import KERNEL, normal_name
from treadle.testing.cancellation import BlockingWarning
from treadle.testing.imports import measure_import
from treadle.testing.offers import faults_of_offer
from treadle.testing.plugins import faults_of_import

__all__ = ["CHECKS", "CheckedPlugin", "SuiteResult", "check_installed"]

CHECKS = "treadle.checks"
"""Entry points of this group, each named like the plugin it belongs to, are functions without arguments that give the
plugin's contract suite: label -> async function without arguments. A label names the offer that it tries, as in
``tool acme``. Nothing but the check imports them."""

_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """One entry of a plugin's own suite. ``fault`` is empty where it passed; ``doubt`` does not count as one."""

    label: str
    fault: str
    seconds: float
    doubt: str = ""


@dataclass(slots=True)
class CheckedPlugin:
    """What was found about one plugin.

    :param faults: a sentence for each thing that is wrong with it as it stands.
    :param suite: what came of its own contract suite; None where it ships none.
    :param import_seconds: what importing its module of hooks takes in a fresh interpreter; None where it was not done.
    :param raised: what came out of the plugin's own code, for its author to see where.
    """

    report: PluginReport
    faults: list[str] = field(default_factory=list)
    suite: list[SuiteResult] | None = None
    import_seconds: float | None = None
    raised: list[BaseException] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults and not any(each.fault for each in self.suite or ())

    @property
    def untried(self) -> list[str]:
        """What it offers beside what the labels of its own suite name, each as ``tool 'acme'``; nothing without one."""
        if self.suite is None:
            return []
        labels = "\n".join(each.label for each in self.suite)
        return [
            f"{each.role.replace('_', ' ')} '{each.name}'"
            for each in self.report.offers
            if not re.search(rf"(?<![\w-]){re.escape(each.name)}(?![\w-])", labels)
        ]


def check_installed(host: Host, report: PluginReport) -> CheckedPlugin:
    """Look at a plugin of the host: metadata, imports, offers; and run the suite that it ships.

    A disabled one is not looked at. This starts an interpreter and runs trio, so it cannot be called under one.
    """
    checked = CheckedPlugin(report)
    if report.state is PluginState.DISABLED:
        return checked
    if report.error is not None:
        if report.state is PluginState.BROKEN and report.error.__cause__ is not None:
            checked.faults.append(report.error.message)  # who checks a plugin mends it, and does not disable it
            checked.raised.append(report.error.__cause__)
        else:
            checked.faults.append(str(report.error))
        return checked
    checked.faults += _faults_of_metadata(report)
    mine = f"plugin '{report.name}'"
    checked.faults += [str(error) for error in host.registry.clashes() if mine in str(error)]
    try:
        imported = measure_import(report.source.partition(":")[0])
    except AssertionError as error:
        checked.faults.append(str(error))
    else:
        if imported is not None:
            checked.import_seconds = imported.seconds
            checked.faults += faults_of_import(imported, report.offers)
    for registered in report.offers:
        checked.faults += faults_of_offer(registered, checked.raised)
    _run_suite(checked)
    return checked


def _faults_of_metadata(report: PluginReport) -> Iterator[str]:
    if not report.offers:
        yield "it offers nothing"
    owner = report.distribution
    if owner.name == "unknown" or owner.version == "unknown":
        yield "its distribution has no readable metadata; install it again"
        return
    if not any(normal_name(re.split(r"[^\w.-]", each, maxsplit=1)[0]) == KERNEL for each in owner.requires):
        yield (
            f"{owner.name} does not require {KERNEL}, so that nobody is told when the two do not go together; "
            f"add '{KERNEL}>=0.1,<0.2' to its dependencies"
        )


def _run_suite(checked: CheckedPlugin) -> None:
    report = checked.report
    for point in list_entry_points(CHECKS):
        if point.name != report.name or distribution_of(point) != report.distribution:
            continue
        try:
            cases: Any = load_entry_point(point)()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            checked.faults.append(f"its checks could not be had from {point.value}: {cause_of(error, point.value)}")
            checked.raised.append(error)
            return
        if not isinstance(cases, Mapping) or not all(callable(each) for each in cases.values()):
            checked.faults.append(f"{point.value} must give a mapping of labels to async functions without arguments")
            return
        checked.suite = [_run_case(str(label), case) for label, case in cases.items()]


def _run_case(label: str, case: Callable[[], Awaitable[Any]]) -> SuiteResult:
    async def run() -> None:
        with trio.fail_after(_SECONDS):
            await case()

    started, fault = time.perf_counter(), ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BlockingWarning)
        try:
            trio.run(run)
        except AssertionError as error:
            fault = str(error) or "AssertionError without a sentence"
        except trio.TooSlowError:
            fault = f"it took longer than {_SECONDS:g} s"
        except Exception as error:
            fault = f"it raised {cause_of(error)}"
    doubts = [str(each.message) for each in caught if issubclass(each.category, BlockingWarning)]
    for each in caught:
        if not issubclass(each.category, BlockingWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return SuiteResult(label, fault, time.perf_counter() - started, "; ".join(doubts))
