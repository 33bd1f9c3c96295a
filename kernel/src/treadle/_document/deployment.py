"""``treadle.yaml`` read and checked: every problem at once, each with its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any, cast

from pydantic import ValidationError

from treadle._document.checking import find_cycles
from treadle._document.envelope import config_model
from treadle._document.loading import missing_config_field
from treadle._document.mending import mended
from treadle._document.problems import Path, Reporter, shown
from treadle._document.provider_settings import check_provider_settings
from treadle._document.reading import decode, read, unreadable
from treadle._plugins import Host
from treadle._plugins.own_tools import find_source
from treadle._settings.blocks import models_of
from treadle._settings.finding import SETTINGS_VARIABLE
from treadle.contracts.offers import Role
from treadle.contracts.settings import ProviderEntry, Settings
from treadle.errors import DocumentError, PluginError, TreadleError

__all__ = ["deployed_host", "load_settings"]

_ELSEWHERE = {
    "provider": "write provider: at the top level",
    "model": "write model: at the top level",
    "sandbox": "write sandbox: at the top level",
}
"""Fields of a workflow's config that are settings of their own."""


def load_settings(path: str | os.PathLike[str]) -> Settings:
    """Read a settings file and check its form. Whether what it names is installed, only a host knows.

    :raises DocumentError: with every problem found, each with its place.
    """
    settings, report = _read(os.fspath(path))
    if report.errors:
        raise DocumentError(report.problems)
    return settings


def deployed_host(
    path: str | os.PathLike[str],
    *,
    without: Collection[str] = (),
    only_of: Collection[str] | None = None,
    check_providers: bool = False,
) -> Host:
    """Everything installed, as a settings file says. Its warnings are in ``host.warnings``.

    :param check_providers: whether to check the settings of every provider, which imports it. Without it that is
        done when a workflow is loaded that uses it.
    :raises DocumentError: with every problem of the file, each with its place.
    :raises PluginError: ``without`` names a plugin that is not there.
    """
    settings, report = _read(os.fspath(path))
    host = Host.discover(without=without, settings=settings, only_of=only_of)
    _Check(host, settings, report).everything(check_providers=check_providers)
    if report.errors:
        raise DocumentError(report.problems)
    host.warnings = tuple(report.warnings)
    return host


def _read(file: str) -> tuple[Settings, Reporter]:
    """The settings of a file, without what is wrong with them, and what that is."""
    try:
        text = decode(FilePath(file).read_bytes(), file)
    except (OSError, ValueError) as error:
        named_by = SETTINGS_VARIABLE if os.environ.get(SETTINGS_VARIABLE) == file else ""
        raise DocumentError([replace(unreadable(file, error), path=named_by)]) from error
    try:
        data, marks, problems = read(text, file)
    except DocumentError as error:
        if [each.code for each in error.problems] == ["empty"]:  # or only comments, which is how one begins
            return Settings().standing(file, None), Reporter(file=file)
        raise
    report = Reporter(file=file, marks=marks, data=data, text=text, is_discreet=True)
    report.add_read(problems)
    if data is None:
        data = {}
    if not isinstance(data, Mapping):
        report.add((), "wrong-type", f"settings are a mapping, not {shown(data)}")
        raise DocumentError(report.problems)
    data = _without_circles(data, report)
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        report.add_validation(error, (), Settings)
        settings = mended(Settings, data, error) or Settings()
    return settings.standing(file, marks), report


def _without_circles(data: Mapping[str, Any], report: Reporter) -> dict[str, Any]:
    """The data without aliases that stand for each other, which are noted."""
    aliases = data.get("aliases")
    if not isinstance(aliases, Mapping):
        return dict(data)
    kept = dict(aliases)
    for role, names in aliases.items():
        if not isinstance(names, Mapping):
            continue
        graph = {name: [target] for name, target in names.items() if isinstance(target, str)}
        for cycle in find_cycles(graph):
            message = f"the aliases go round in a circle: {' -> '.join([*cycle, cycle[0]])}"
            report.add(("aliases", role, cycle[0]), "alias-circle", message, hint="take one of them out")
            kept[role] = {name: target for name, target in kept[role].items() if name not in cycle}
    return {**data, "aliases": kept}


class _Check:
    """Settings against what is installed."""

    def __init__(self, host: Host, settings: Settings, report: Reporter) -> None:
        self._host = host
        self._settings = settings
        self._report = report

    def everything(self, *, check_providers: bool) -> None:
        settings = self._settings
        self._plugin_names()
        if settings.provider is not None:
            self._there(("provider",), partial(self._host.get, "provider", settings.provider))
        for name, entry in settings.providers.items():
            self._provider(name, entry, check_settings=check_providers)
        for (field, _), (role, aliases) in zip(settings.aliases, settings.aliases.by_role().items(), strict=True):
            if role == "tool" and settings.tools:
                continue  # one may stand for a tool of one's own, which is not imported for that
            for name in aliases:
                self._there(("aliases", field, name), partial(self._host.get, role, name))
        for name, chosen in settings.roles:
            if chosen is not None:
                self._there(("roles", name), partial(self._host.get, cast(Role, name), chosen))
        if settings.prices is not None:
            self._block("prices", ("prices",), settings.prices)
        if settings.journal is not None:
            self._block("journal", ("journal",), settings.journal)
        for position, text in enumerate(settings.tools):
            self._there(("tools", position), partial(find_source, text, settings.folder), code="missing-file")
        self._sandbox()
        self._config()

    def _there(self, path: Path, find: Callable[[], Any], *, at_key: bool = False, code: str = "not-installed") -> Any:
        try:
            return find()
        except TreadleError as error:
            self._report.add(path, code, error.message, hint=error.hint, at_key=at_key)
            return None

    def _block(self, name: str, path: Path, block: Mapping[str, Any]) -> None:
        """What plugins read, against the model of each."""
        for model in self._there(path, lambda: list(models_of(self._host, name)), at_key=True) or ():
            try:
                model.model_validate(block, context={"folder": self._settings.folder})
            except ValidationError as error:
                self._report.add_validation(error, path, model)
            except DocumentError as error:  # of a further file
                self._report.problems += error.problems
            except TreadleError as error:
                self._report.add(path, "bad-value", error.message, hint=error.hint)

    def _plugin_names(self) -> None:
        installed = {report.name for report in self._host.reports}
        for field in ("disabled", "enabled"):
            for position, name in enumerate(getattr(self._settings.plugins, field) or ()):
                if name and name not in installed:
                    hint = self._report.did_you_mean(name, installed)
                    message = f"no plugin '{name}' is installed"
                    place = ("plugins", field, position)
                    self._report.add(place, "not-installed", message, hint=hint, severity="warning")

    def _provider(self, name: str, entry: ProviderEntry, *, check_settings: bool) -> None:
        path: Path = ("providers", name) if entry.kind is None else ("providers", name, "kind")
        try:
            self._host.registry.get("provider", entry.kind or name) or self._host.get("provider", name)
        except TreadleError as error:
            hint = error.hint
            if entry.kind is None and not (hint or "").startswith(("did you mean", "pip install")):
                hint = "add kind: with the provider that it is"
            self._report.add(path, "not-installed", error.message, hint=hint, at_key=entry.kind is None)
            return
        if entry.limits is not None:
            self._block("limits", ("providers", name, "limits"), entry.limits)
        if check_settings:
            check_provider_settings(self._host, name, self._report)

    def _sandbox(self) -> None:
        block, chosen = self._settings.sandbox, self._settings.roles.sandbox
        if block is None or (chosen is not None and chosen not in self._host.registry.names("sandbox")):
            return  # the latter is said of the role
        found = self._there(("sandbox",), lambda: self._host.sole("sandbox", "sandbox:").load(), at_key=True)
        if found is not None:
            try:
                found.block_model.model_validate(block)
            except ValidationError as error:
                self._report.add_validation(error, ("sandbox",), found.block_model)

    def _config(self) -> None:
        block = {name: value for name, value in self._settings.config.items() if name not in _ELSEWHERE}
        for name in self._settings.config.keys() & _ELSEWHERE.keys():
            message = "a deployment sets it for itself, not as a default of workflows"
            self._report.add(("config", name), "misplaced", message, hint=_ELSEWHERE[name], at_key=True)

        def broken(name: str, error: PluginError) -> None:
            self._report.add(("config", name), "plugin", error.message, hint=error.hint, at_key=True)

        model = config_model(self._host, block, broken)
        try:
            model.model_validate(block)
        except ValidationError as error:
            missing = partial(missing_config_field, host=self._host)
            self._report.add_validation(error, ("config",), model, missing=missing)
