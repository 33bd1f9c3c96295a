"""Plugins found, loaded one by one, registered with pluggy, and asked what they offer."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import EntryPoint
from typing import Any

import pluggy

from treadle._plugins.catalogue import Catalogue
from treadle._plugins.finding import PLUGINS, Distribution, distribution_of, list_entry_points, load_entry_point
from treadle._plugins.registry import ROLES, Registered, Registry, hook_of
from treadle._suggest import close_match, did_you_mean
from treadle.contracts.offers import Offer, Role
from treadle.errors import NotInstalledError, PluginError, TreadleError
from treadle.hookspecs import PROJECT, TreadleHooks

__all__ = ["Host", "PluginReport", "PluginState"]

_HOOKS = {hook_of(role): role for role in ROLES}


class PluginState(StrEnum):
    """How a plugin fares."""

    LOADED = "loaded"
    BROKEN = "broken"
    DISABLED = "disabled"


@dataclass(slots=True)
class PluginReport:
    """What became of one plugin. ``error`` is set exactly where it is broken."""

    name: str
    source: str
    state: PluginState
    point: EntryPoint | None = None
    error: PluginError | None = None
    load_seconds: float = 0.0
    offers: list[Registered] = field(default_factory=list)

    @property
    def distribution(self) -> Distribution:
        """Whose it is."""
        return distribution_of(self.point) if self.point else Distribution()


class Host:
    """Every plugin of this process, and what they offer.

    One broken plugin never stops the others: it is kept in :attr:`reports` with its cause, and an error that
    concerns something it would have offered can name it.
    """

    def __init__(self, *, catalogue: Catalogue | None = None) -> None:
        self.registry = Registry()
        self.reports: list[PluginReport] = []
        self.catalogue = catalogue or Catalogue()
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(TreadleHooks)

    @classmethod
    def discover(cls, *, without: Collection[str] = ()) -> Host:
        """A host of everything installed, except the plugins named in ``without``, which are not imported.

        :raises PluginError: ``without`` names a plugin that is not there.
        """
        host = cls(catalogue=Catalogue.discover())
        points = list_entry_points(PLUGINS)
        names = Counter(point.name for point in points)
        for name in without:
            if name not in names:
                raise PluginError(f"no plugin '{name}' is installed", hint=did_you_mean(name, names))
        for point in points:
            host._add_entry_point(point, disabled=point.name in without, shared_name=names[point.name] > 1)
        return host

    @classmethod
    def of(cls, plugins: Mapping[str, object]) -> Host:
        """A host of the given plugins only, by name, without discovery.

        :raises PluginError: one of them is broken; in a test that is a fault, not a fact of life.
        """
        host = cls()
        for name, plugin in plugins.items():
            report = PluginReport(name, type(plugin).__name__, PluginState.LOADED)
            host.reports.append(report)
            host._register(plugin, report)
            if report.error:
                raise report.error
        return host

    def problems(self) -> Iterable[PluginError]:
        """Everything that is wrong with the plugins themselves."""
        yield from (report.error for report in self.reports if report.error)
        yield from self.registry.clashes()

    # --- finding what serves --------------------------------------------------------------------------

    def get(self, role: Role, name: str) -> Registered:
        """What serves the role under that name.

        :raises NotInstalledError: nothing does; the hint names the package, a close match, or what is there.
        :raises PluginError: two plugins offer it.
        """
        found = self.registry.get(role, name)
        if found is None:
            raise self._missing(role, name)
        return found

    def load(self, role: Role, name: str) -> Any:
        """The object that serves the role under that name; raises as :meth:`get`, or PluginError."""
        return self.get(role, name).load()

    def sole(self, role: Role, needed_by: str) -> Registered:
        """What serves a role of which a deployment has one, such as the sandbox.

        :raises NotInstalledError: nothing does, or several could and none was chosen.
        """
        names = self.registry.names(role)
        if len(names) == 1:
            return self.get(role, names[0])
        what = role.replace("_", " ")
        if names:
            raise NotInstalledError(
                f"{needed_by} needs a {what}, and several are installed: {', '.join(names)}",
                hint="keep one, or disable the others with --without",
            )
        packages = self.catalogue.distributions(role)
        raise NotInstalledError(
            f"{needed_by} needs a {what}, and none is installed",
            hint=f"pip install {packages[0]}" if packages else None,
        )

    def _missing(self, role: Role, name: str) -> NotInstalledError:
        what = role.replace("_", " ")
        distribution = self.catalogue.distribution(role, name)
        if distribution is not None:
            broken = self._broken_of(distribution)
            if broken is not None:
                return NotInstalledError(f"{what} '{name}' is not available: {broken.message}", hint=broken.hint)
            return NotInstalledError(f"{what} '{name}' is not installed", hint=f"pip install {distribution}")
        installed = self.registry.names(role)
        match = close_match(name, [*installed, *self.catalogue.names(role)])
        if match is None:
            return NotInstalledError(f"no {what} '{name}'", hint=did_you_mean(name, installed))
        registered = self.registry.all(role).get(match)
        whose = registered.distribution if registered else self.catalogue.distribution(role, match)
        return NotInstalledError(f"no {what} '{name}'", hint=f"did you mean '{match}' ({whose})?")

    def _broken_of(self, distribution: str) -> TreadleError | None:
        for report in self.reports:
            if report.state is not PluginState.LOADED and report.distribution.name == distribution:
                return report.error or PluginError(f"plugin '{report.name}' is disabled", hint="leave out --without")
        return None

    # --- loading --------------------------------------------------------------------------------------

    def _add_entry_point(self, point: EntryPoint, *, disabled: bool, shared_name: bool) -> None:
        report = PluginReport(point.name, point.value, PluginState.DISABLED, point)
        self.reports.append(report)
        if disabled:
            return
        report.state = PluginState.LOADED
        if shared_name:
            self._break(report, "another installed distribution has a plugin of the same name")
            return
        started = time.perf_counter()
        try:
            plugin = load_entry_point(point)
        except (Exception, SystemExit) as error:  # a plugin that calls sys.exit() on import must not end the host
            self._break(report, f"{type(error).__name__}: {error}", cause=error)
            return
        finally:
            report.load_seconds = time.perf_counter() - started
        self._register(plugin, report)

    def _break(self, report: PluginReport, cause_text: str, *, cause: BaseException | None = None) -> None:
        report.state = PluginState.BROKEN
        whose = f" ({report.distribution})" if report.point else ""
        report.error = PluginError(
            f"plugin '{report.name}'{whose} could not be loaded from {report.source}: {cause_text}",
            hint=f"disable it with --without {report.name}, or upgrade it",
        )
        report.error.__cause__ = cause
        report.offers.clear()

    def _register(self, plugin: object, report: PluginReport) -> None:
        try:
            _check_hooks(plugin)
            self._manager.register(plugin, report.name)
            self._collect(plugin, report)
        except (Exception, SystemExit) as error:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            text = str(error) if isinstance(error, PluginError | pluggy.PluginValidationError) else None
            self._break(report, text or f"{type(error).__name__}: {error}", cause=error)
            return
        for registered in report.offers:
            self.registry.add(registered)

    def _collect(self, plugin: object, report: PluginReport) -> None:
        others = [each for each in self._manager.get_plugins() if each is not plugin]
        for caller in self._manager.get_hookcallers(plugin) or ():
            role = _HOOKS[caller.name]
            # pluggy's way to know whose an answer is: the same call with everyone else left out.
            for offers in self._manager.subset_hook_caller(caller.name, others)():
                if not isinstance(offers, Mapping):
                    raise PluginError(f"{caller.name} must return a mapping of offers, not {type(offers).__name__}")
                for name, offer in offers.items():
                    if not isinstance(offer, Offer):
                        raise PluginError(f"{caller.name} must return offers; '{name}' is {type(offer).__name__}")
                    report.offers.append(Registered(role, name, offer, report.name, report.point))


def _check_hooks(plugin: object) -> None:
    """Refuse what pluggy would register without a word: unknown hooks and async ones."""
    for name in dir(plugin):
        if not name.startswith(f"{PROJECT}_"):
            continue
        implementation = getattr(plugin, name)
        if not hasattr(implementation, f"{PROJECT}_impl"):
            continue
        if name not in _HOOKS:
            raise PluginError(f"unknown hook '{name}'; {did_you_mean(name, _HOOKS, list_up_to=0) or 'see treadle.hookspecs'}")
        if inspect.iscoroutinefunction(implementation) or inspect.isasyncgenfunction(implementation):
            raise PluginError(f"hook '{name}' is async; hooks are plain functions")

