"""Plugins found, loaded one by one, registered with pluggy, and asked what they offer."""

from __future__ import annotations

import copy
import inspect
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from treadle._dataclasses import dataclass
from treadle._plugins.catalogue import Catalogue
from treadle._plugins.finding import (
    PLUGINS,
    Distribution,
    distribution_of,
    distributions_of,
    list_entry_points,
    load_entry_point,
)
from treadle._plugins.registry import ROLES, Registered, Registry, cause_of, hook_of
from treadle._plugins.versions import KERNEL, kernel_misfit, kernel_version, normal_name
from treadle._suggest import close_match, did_you_mean
from treadle.contracts.offers import ConfigOffer, LayerOffer, Offer, ProviderOffer, Role
from treadle.errors import ConfigurationError, NotInstalledError, PluginError, Problem, TreadleError
from treadle.hookspecs import PROJECT, TreadleHooks

if TYPE_CHECKING:
    from treadle.contracts.settings import Settings

__all__ = ["OFFER_TYPES", "Host", "PluginReport", "PluginState"]

_OWN_TOOL = "give a tool of your own with --tools FILE, or under tools: in treadle.yaml"
_HOOKS = {hook_of(role): role for role in ROLES}
OFFER_TYPES: Mapping[Role, type[Offer]] = {
    "provider": ProviderOffer,
    "provider_layer": LayerOffer,
    "config_field": ConfigOffer,
}


class PluginState(StrEnum):
    """How a plugin fares."""

    LOADED = "loaded"
    BROKEN = "broken"
    INCOMPATIBLE = "incompatible"
    """Made for another kernel, as its metadata says. Never imported."""
    DISABLED = "disabled"


@dataclass(slots=True)
class PluginReport:
    """What became of one plugin. ``error`` is set exactly where it is broken or incompatible.

    :param cause: the same in few words.
    :param remedy: what to do about it where it is disabled.
    """

    name: str
    source: str
    state: PluginState
    point: EntryPoint | None = None
    error: PluginError | None = None
    cause: str = ""
    remedy: str = ""
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

    :param settings: which offer serves under which name and role; everything as it is without them.
    :raises ConfigurationError: aliases of the settings go round in a circle.
    """

    def __init__(self, *, catalogue: Catalogue | None = None, settings: Settings | None = None) -> None:
        self.registry = Registry()
        self.reports: list[PluginReport] = []
        self.warnings: tuple[Problem, ...] = ()
        """What is doubtful about the settings."""
        self._settings = settings
        self._aliases = _resolved(settings) if settings else {}
        self._own_tools = _tool_sources(settings)
        self._given_tools: frozenset[str] = frozenset()
        self.catalogue = catalogue or Catalogue()
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(TreadleHooks)

    @classmethod
    def discover(
        cls, *, without: Collection[str] = (), settings: Settings | None = None, only_of: Collection[str] | None = None
    ) -> Host:
        """A host of everything installed, except the plugins named in ``without``, those that the settings leave
        out, and those made for another kernel. These are not imported.

        :param only_of: distributions; plugins of others are left out too.
        :raises PluginError: ``without`` names a plugin that is not there.
        """
        host = cls(settings=settings)
        del host.catalogue  # every one that is installed, when it is first asked for
        points = list_entry_points(PLUGINS)
        names = Counter(point.name for point in points)
        for name in without:
            if name not in names:
                hint = did_you_mean(name, names) or "`treadle plugins` lists those that are"
                raise PluginError(f"no plugin '{name}' is installed", hint=hint)
        first_party = None if only_of is None else {normal_name(each) for each in only_of}
        for point in points:
            remedy = f"leave out --without {point.name}" if point.name in without else _left_out(point.name, settings)
            if first_party is not None and normal_name(distribution_of(point).name) not in first_party:
                remedy = "leave out --safe"
            host._add_entry_point(point, remedy=remedy, shared_name=names[point.name] > 1)
        return host

    @classmethod
    def of(cls, plugins: Mapping[str, object], *, settings: Settings | None = None) -> Host:
        """A host of the given plugins only, by name, without discovery.

        :raises PluginError: one of them is broken; in a test that is a fault, not a fact of life.
        """
        host = cls(settings=settings)
        for name, plugin in plugins.items():
            report = PluginReport(name, getattr(plugin, "__name__", type(plugin).__name__), PluginState.LOADED)
            host.reports.append(report)
            host._register(plugin, report)
            if report.error:
                raise report.error
        return host

    def extended(self, plugins: Mapping[str, object]) -> Host:
        """A host with these plugins as well; this one stays as it is.

        What they offer wins over what is installed under the same name, and over what the settings say of that name.

        :raises PluginError: one of them is broken, or two of them offer the same.
        """
        added = Host.of(plugins)
        for problem in added.problems():
            raise problem
        host = copy.copy(self)
        host.reports = [*self.reports, *added.reports]
        host.registry = self.registry.covered_by(added.registry)
        host._given_tools = self._given_tools.union(added.registry.names("tool"))
        host._aliases = {
            role: {name: end for name, end in ends.items() if name not in added.registry.names(role)}
            for role, ends in self._aliases.items()
        }
        if self._settings is not None:
            own = added.registry.names("provider")
            kept = {name: entry for name, entry in self._settings.providers.items() if name not in own}
            host._settings = self._settings.model_copy(update={"providers": kept})
        return host

    def with_tools(self, sources: Iterable[str], *, origin: str = "") -> Host:
        """A host with the tools of these files and modules as well, which are imported.

        :param sources: as under ``tools:`` in ``treadle.yaml``; paths go from the working directory.
        :param origin: who names them, for messages.
        :raises ConfigurationError: one names no tools.
        :raises PluginError: one cannot be imported, has no tools, or has one whose name is taken.
        """
        host = copy.copy(self)
        host._own_tools = (*self._own_tools, *((source, Path(), origin) for source in sources))
        host._bring_own_tools()
        return host

    def problems(self) -> Iterable[PluginError]:
        """Everything that is wrong with the plugins themselves."""
        # Two plugins of one name have one error.
        yield from {str(report.error): report.error for report in self.reports if report.error}.values()
        yield from self.registry.clashes()

    # --- finding what serves --------------------------------------------------------------------------

    def versions(self) -> dict[str, str]:
        """The packages of the plugins that were loaded, each with its version."""
        loaded = (report.distribution for report in self.reports if report.state is PluginState.LOADED)
        return {each.name: each.version for each in loaded if each.name}

    def own_tools(self) -> list[str]:
        """Names of the tools that no installed plugin offers: those of files, modules and programs, as far as known."""
        return [name for name, each in self.registry.all("tool").items() if each.point is None]

    @cached_property
    def catalogue(self) -> Catalogue:
        """Which package offers what, for what is not installed."""
        return Catalogue.discover()

    @property
    def settings(self) -> Settings:
        """The settings of the deployment."""
        if self._settings is None:
            from treadle.contracts.settings import Settings  # only now: it brings pydantic along

            self._settings = Settings.model_construct()  # nothing to check: its validator need not be built
        return self._settings

    def resolve(self, role: Role, name: str) -> str:
        """The name that serves for this one: another where the settings have an alias."""
        return self._aliases.get(role, {}).get(name, name)

    def names(self, role: Role) -> list[str]:
        """Every name that may be asked for, sorted: those offered, aliases, and the settings' own providers."""
        if role == "tool":
            self._bring_own_tools()
        own = self._settings.providers if self._settings and role == "provider" else ()
        return sorted({*self.registry.names(role), *self._aliases.get(role, ()), *own})

    def all_names(self, role: Role) -> list[str]:
        """The same, or none where nobody knows what else a plugin that is out of order offers."""
        return [] if self._unknown else self.names(role)

    def get(self, role: Role, name: str) -> Registered:
        """What serves the role under that name. For a provider that is its kind's.

        :raises NotInstalledError: nothing does; the hint names the package, a close match, or what is there.
        :raises PluginError: two plugins offer it.
        """
        if role == "tool":
            self._bring_own_tools()
        name = self.resolve(role, name)
        if self._settings is not None and role == "provider" and name in self._settings.providers:
            name = self._settings.providers[name].kind or name
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
        chosen = getattr(self._settings.roles, role, None) if self._settings else None
        if chosen is not None:
            return self.get(role, chosen)
        names = self.registry.names(role)
        if len(names) == 1:
            return self.get(role, names[0])
        what = role.replace("_", " ")
        if names:
            raise NotInstalledError(
                f"{needed_by} needs a {what}, and several are installed: {', '.join(names)}",
                hint=f"choose one under roles.{role} in treadle.yaml, or leave the others out with --without",
            )
        packages = self.catalogue.distributions(role)
        raise NotInstalledError(
            f"{needed_by} needs a {what}, and none is installed",
            hint=f"pip install {packages[0]}" if packages else None,
        )

    def default_provider(self) -> str:
        """The model provider of documents that name none: the settings' own, else the one whose offer says so.

        :raises ConfigurationError: none is the default.
        """
        if self._settings is not None and self._settings.provider is not None:
            return self._settings.provider
        offers = self.registry.all("provider")
        defaults = [name for name, each in offers.items() if getattr(each.offer, "is_default", False)]
        if len(defaults) == 1:
            return defaults[0]
        there = f"there is {', '.join(offers)}" if offers else "pip install treadle-openai, or another provider"
        raise ConfigurationError("no model provider is set", hint=f"set config.provider, or use -p; {there}")

    def default_model(self, provider: str) -> str | None:
        """The settings' model, where that is the provider that they or the offers make the default."""
        if self._settings is None or self._settings.model is None:
            return None
        try:
            default = self.default_provider()
        except ConfigurationError:  # whatever it is, it is not this one
            return None
        same = self.resolve("provider", default) == self.resolve("provider", provider)
        return self._settings.model if same else None

    def _missing(self, role: Role, name: str) -> NotInstalledError:
        what = role.replace("_", " ")
        distribution = self.catalogue.distribution(role, name)
        if distribution is not None:
            broken = self._broken_of(distribution)
            if broken is not None:
                return NotInstalledError(f"{what} '{name}' is not available: {broken.message}", hint=broken.hint)
            return NotInstalledError(f"{what} '{name}' is not installed", hint=f"pip install {distribution}")
        installed = [each for each in self.names(role) if each != name]
        match = close_match(name, [*installed, *self.catalogue.names(role)])
        if match is None or self._unknown:
            likely = f"or did you mean '{match}'?" if match else None
            hints = (_OWN_TOOL if role == "tool" and not self._unknown else None, self._who_may(installed), likely)
            return NotInstalledError(f"no {what} '{name}'", hint="; ".join(filter(None, hints)) or None)
        registered = self.registry.all(role).get(match)
        whose: object = self.catalogue.distribution(role, match)
        if registered is not None:
            whose = registered.distribution if registered.point else None
        return NotInstalledError(
            f"no {what} '{name}'", hint=f"did you mean '{match}' ({whose})?" if whose else f"did you mean '{match}'?"
        )

    def _who_may(self, installed: list[str]) -> str | None:
        """A hint about a name that nobody knows: a plugin that is out of order may be the one that offers it."""
        for report in (*self._unknown, *self.reports):
            if report.error is not None:
                return f"it may be offered by {report.owner}, which is {report.state}: {report.cause}"
            if report.state is PluginState.DISABLED:
                return f"it may be offered by {report.owner}, which is disabled: {report.remedy}"
        return did_you_mean("", installed)

    @property
    def _unknown(self) -> list[PluginReport]:
        """Plugins that are out of order and of which no catalogue says what they offer."""
        known = {normal_name(each) for names in self.catalogue.entries.values() for each in names.values()}
        return [each for each in self.reports if each.error and normal_name(each.distribution.name) not in known]

    def _broken_of(self, distribution: str) -> TreadleError | None:
        for report in self.reports:
            if report.state is PluginState.LOADED or normal_name(report.distribution.name) != normal_name(distribution):
                continue
            return report.error or PluginError(f"{report.owner} is disabled", hint=report.remedy)
        return None

    def _bring_own_tools(self) -> None:
        """Import the tools of one's own. Only when a tool is looked for: whatever else is done does not need them."""
        if not self._own_tools:
            return
        from treadle._plugins.own_tools import find_source, tools_of

        sources, own = [], Registry()
        for text, folder, origin in self._own_tools:
            try:
                sources.append(find_source(text, folder, origin))
            except ConfigurationError as error:
                raise ConfigurationError(f"{origin or 'tools'}: {error.message}", hint=error.hint) from error
        for name, each in tools_of(sources).items():
            taken = self.registry.get("tool", name)
            if taken is None:
                own.add(each)
            elif name not in self._given_tools:
                raise PluginError(
                    f"tool '{name}' of {each.plugin} has the name of one that plugin {taken.owner} offers",
                    hint=f"rename it, or disable the other with --without {taken.plugin}",
                )
        self.registry, self._own_tools = self.registry.covered_by(own), ()

    # --- loading --------------------------------------------------------------------------------------

    def _add_entry_point(self, point: EntryPoint, *, remedy: str, shared_name: bool) -> None:
        """``remedy`` is what to do to have the plugin, where it is left out."""
        report = PluginReport(point.name, point.value, PluginState.DISABLED, point, remedy=remedy)
        self.reports.append(report)
        if remedy:
            return
        report.state = PluginState.LOADED
        if shared_name:
            owners = " and by ".join(str(each) for each in distributions_of(point.group, point.name))
            report.state, report.cause = PluginState.BROKEN, f"it is also offered by {owners}"
            report.error = PluginError(
                f"plugin '{point.name}' is in two distributions, and serves from neither: it is offered by {owners}",
                hint=f"uninstall one of them, or leave both out with --without {point.name}",
            )
            return
        misfit = kernel_misfit(report.distribution)
        if misfit is not None:
            self._refuse(report, *misfit)
            return
        started = time.perf_counter()
        try:
            plugin = load_entry_point(point)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() and the panics of extensions must not end the host
            self._break(report, cause_of(error, report.source), cause=error)
            return
        finally:
            report.load_seconds = time.perf_counter() - started
        self._register(plugin, report)

    def _refuse(self, report: PluginReport, requirement: str, is_too_new: bool) -> None:
        report.state, report.cause = PluginState.INCOMPATIBLE, f"it requires {KERNEL} {requirement}"
        upgrade = KERNEL if is_too_new else report.distribution.name
        report.error = PluginError(
            f"{report.owner} is too {'new' if is_too_new else 'old'} for this kernel: "
            f"it requires {KERNEL} {requirement}, and {kernel_version()} is installed",
            hint=f"pip install --upgrade {upgrade}, or disable it with --without {report.name}",
        )

    def _break(self, report: PluginReport, cause_text: str, *, cause: BaseException | None = None) -> None:
        report.state, report.cause = PluginState.BROKEN, cause_text
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
            text = str(error) if ours else cause_of(error, report.source if report.point else "")
            self._break(report, text, cause=None if ours else error)
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


def _tool_sources(settings: Settings | None) -> tuple[tuple[str, Path, str], ...]:
    """What the settings call tools of one's own, from where its paths go, and where it stands."""
    named = enumerate(settings.tools if settings else ())
    return tuple((text, settings.folder, settings.place_of("tools", at) or "") for at, text in named if settings)


def _left_out(name: str, settings: Settings | None) -> str:
    """What to do to have a plugin that the settings leave out; nothing where they do not."""
    if settings is None:
        return ""
    file = settings.source or "the settings"
    if name in settings.plugins.disabled:
        return f"take it out of plugins.disabled in {file}"
    if settings.plugins.enabled is not None and name not in settings.plugins.enabled:
        return f"add it to plugins.enabled in {file}"
    return ""


def _resolved(settings: Settings) -> dict[Role, dict[str, str]]:
    """Every alias with the name at the end of its chain."""
    ends: dict[Role, dict[str, str]] = {}
    for role, aliases in settings.aliases.by_role().items():
        ends[role] = {}
        for name in aliases:
            chain = [name]
            while chain[-1] in aliases:
                chain.append(aliases[chain[-1]])
                if chain[-1] in chain[:-1]:
                    raise ConfigurationError(f"the aliases go round in a circle: {' -> '.join(chain)}")
            ends[role][name] = chain[-1]
    return ends


def _check_offer(hook: str, role: Role, name: object, offer: object) -> None:
    if not isinstance(name, str) or not name:
        raise PluginError(f"{hook} must return offers by name; {name!r} is no name")
    wanted = OFFER_TYPES.get(role, Offer)
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
