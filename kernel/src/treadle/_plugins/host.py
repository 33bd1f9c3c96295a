"""Plugins found, loaded one by one, registered with pluggy, and asked what they offer."""

from __future__ import annotations

import inspect
import re
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
from treadle._plugins.registry import ROLES, Registered, Registry, cause_of, hook_of
from treadle._suggest import close_match, did_you_mean
from treadle.contracts.offers import ConfigOffer, LayerOffer, Offer, ProviderOffer, Role
from treadle.errors import ConfigurationError, NotInstalledError, PluginError, TreadleError
from treadle.hookspecs import PROJECT, TreadleHooks

__all__ = ["Host", "PluginReport", "PluginState"]

_HOOKS = {hook_of(role): role for role in ROLES}
_OFFER_TYPES: Mapping[Role, type[Offer]] = {
    "provider": ProviderOffer,
    "provider_layer": LayerOffer,
    "config_field": ConfigOffer,
}


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

    @property
    def owner(self) -> str:
        """The plugin and whose it is, for messages: ``plugin 'acme' (acme-treadle 0.9)``."""
        return f"plugin '{self.name}' ({self.distribution})" if self.point else f"plugin '{self.name}'"


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
            report = PluginReport(name, getattr(plugin, "__name__", type(plugin).__name__), PluginState.LOADED)
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

    def default_provider(self) -> str:
        """The model provider of documents and deployments that name none.

        :raises ConfigurationError: none is the default.
        """
        offers = self.registry.all("provider")
        defaults = [name for name, each in offers.items() if getattr(each.offer, "is_default", False)]
        if len(defaults) == 1:
            return defaults[0]
        there = f"there is {', '.join(offers)}" if offers else "pip install treadle-openai, or another provider"
        raise ConfigurationError("no model provider is set", hint=f"set config.provider, or use -p; {there}")

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
            return NotInstalledError(f"no {what} '{name}'", hint=self._who_may(installed))
        registered = self.registry.all(role).get(match)
        whose: object = self.catalogue.distribution(role, match)
        if registered is not None:
            whose = registered.distribution if registered.point else None
        return NotInstalledError(
            f"no {what} '{name}'", hint=f"did you mean '{match}' ({whose})?" if whose else f"did you mean '{match}'?"
        )

    def _who_may(self, installed: list[str]) -> str | None:
        """A hint about a name that nobody knows: a plugin that is out of order may be the one that offers it."""
        for report in self.reports:
            if report.error is not None:
                return f"it may be offered by {report.owner}, which is broken: see treadle plugins"
            if report.state is PluginState.DISABLED:
                return f"it may be offered by {report.owner}, which is disabled: leave out --without {report.name}"
        return did_you_mean("", installed)

    def _broken_of(self, distribution: str) -> TreadleError | None:
        for report in self.reports:
            if report.state is PluginState.LOADED or _normal(report.distribution.name) != _normal(distribution):
                continue
            return report.error or PluginError(f"{report.owner} is disabled", hint=f"leave out --without {report.name}")
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
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() and the panics of extensions must not end the host
            self._break(report, cause_of(error), cause=error)
            return
        finally:
            report.load_seconds = time.perf_counter() - started
        self._register(plugin, report)

    def _break(self, report: PluginReport, cause_text: str, *, cause: BaseException | None = None) -> None:
        report.state = PluginState.BROKEN
        report.error = PluginError(
            f"{report.owner} could not be loaded from {report.source}: {cause_text}",
            hint=f"disable it with --without {report.name}, or upgrade it" if report.point else None,
        )
        report.error.__cause__ = cause
        report.offers.clear()

    def _register(self, plugin: object, report: PluginReport) -> None:
        try:
            _check_hooks(plugin)
            twin = self._manager.get_name(plugin)
            if twin is not None:
                raise PluginError(f"it is the same object as plugin '{twin}'")
            self._manager.register(plugin, report.name)
            self._collect(plugin, report)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if self._manager.get_plugin(report.name) is plugin:
                self._manager.unregister(plugin)
            ours = isinstance(error, PluginError)
            self._break(report, str(error) if ours else cause_of(error), cause=None if ours else error)
            return
        for registered in report.offers:
            self.registry.add(registered)

    def _collect(self, plugin: object, report: PluginReport) -> None:
        others = [each for each in self._manager.get_plugins() if each is not plugin]
        for caller in self._manager.get_hookcallers(plugin) or ():
            role = _HOOKS[caller.name]
            # pluggy's way to know whose an answer is: the same call with everyone else left out. It drops None.
            for offers in self._manager.subset_hook_caller(caller.name, others)() or [None]:
                if not isinstance(offers, Mapping):
                    kind = "None" if offers is None else type(offers).__name__
                    raise PluginError(f"{caller.name} must return a mapping of offers, not {kind}")
                for name, offer in offers.items():
                    _check_offer(caller.name, role, name, offer)
                    report.offers.append(Registered(role, name, offer, report.name, report.point))


def _check_offer(hook: str, role: Role, name: object, offer: object) -> None:
    if not isinstance(name, str) or not name:
        raise PluginError(f"{hook} must return offers by name; {name!r} is no name")
    wanted = _OFFER_TYPES.get(role, Offer)
    if not isinstance(offer, wanted):
        raise PluginError(f"{hook} must return {wanted.__name__} objects; '{name}' is {type(offer).__name__}")


def _check_hooks(plugin: object) -> None:
    """Refuse what pluggy would pass over in silence, or refuse in words of its own."""
    for name in dir(plugin):
        implementation = getattr(plugin, name, None)
        if not inspect.isroutine(implementation):
            continue
        options = getattr(implementation, f"{PROJECT}_impl", None)
        if not isinstance(options, dict):
            if name in _HOOKS:
                raise PluginError(f"'{name}' is not marked as a hook; put @hookimpl above it")
            continue
        hook = options.get("specname") or name
        if hook not in _HOOKS:
            hint = did_you_mean(hook, _HOOKS, list_up_to=0) or "see treadle.hookspecs"
            raise PluginError(f"unknown hook '{hook}'; {hint}")
        if inspect.iscoroutinefunction(implementation) or inspect.isasyncgenfunction(implementation):
            raise PluginError(f"hook '{name}' is async; hooks are plain functions")
        if options.get("wrapper") or options.get("hookwrapper"):
            raise PluginError(f"hook '{name}' is a wrapper; a plugin speaks for itself only")
        asked = [
            each.name for each in inspect.signature(implementation).parameters.values() if each.default is each.empty
        ]
        if asked:
            raise PluginError(f"hook '{name}' takes no arguments, and this one asks for '{asked[0]}'")


def _normal(name: str) -> str:
    """A distribution's name as the packaging specifications normalize it."""
    return re.sub(r"[-_.]+", "-", name).lower()
