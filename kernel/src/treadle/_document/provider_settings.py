"""What a deployment sets for a provider, checked by the provider's own model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast, get_args

from pydantic import BaseModel, ValidationError

from treadle._document.problems import Reporter
from treadle.contracts.secrets import SecretRef
from treadle.errors import ConfigurationError, PluginError, Problem

if TYPE_CHECKING:
    from treadle._plugins import Host
    from treadle.contracts.step import Step

__all__ = ["check_provider_settings", "problems_of_used_provider"]


class _Unsaid:
    """Stands in messages for a value that may be a key pasted into the wrong place."""

    def __repr__(self) -> str:
        return "what is there"


class _Discreet:
    """A validation error that does not tell the values."""

    def __init__(self, error: ValidationError) -> None:
        self._error = error

    def errors(self, **options: bool) -> list[Any]:
        return [{**details, "input": _Unsaid()} for details in self._error.errors(**options)]


def check_provider_settings(host: Host, name: str, report: Reporter) -> None:
    """Note what is wrong with the entry of that name under ``providers:``. The provider is imported.

    No value is repeated, as any may be a key.
    """
    path, entry = ("providers", name), host.settings.providers[name]
    registered = host.registry.all("provider").get(entry.kind or name)
    if registered is None:
        return  # said elsewhere
    try:
        model: type[BaseModel] = registered.load().settings_model
    except PluginError as error:
        report.add(path, "plugin", error.message, hint=error.hint, at_key=True)
        return
    given = dict(entry.settings)
    for setting, value in entry.settings.items():
        if value is not None and setting in model.model_fields and _is_secret(model, setting):
            try:
                given[setting] = SecretRef(str(value))
            except ValueError as error:
                reason = "more people and programs read this file than may know the secret"
                report.add((*path, setting), "literal-secret", str(error), hint=reason)
                del given[setting]
    try:
        model.model_validate(given)
    except ValidationError as error:
        report.add_validation(cast(ValidationError, _Discreet(error)), path, model)


def problems_of_used_provider(name: str | None, steps: Iterable[Step], host: Host) -> list[Problem]:
    """What is wrong in ``treadle.yaml`` with the providers that steps of a workflow may call, if any do.

    :param name: the workflow's own choice.
    """
    settings = host.settings
    if not settings.providers or not any("provider" in step.needs for step in steps):
        return []
    try:
        name = host.resolve("provider", name or host.default_provider())
    except ConfigurationError:  # said elsewhere
        return []
    report = Reporter(
        file=settings.source, marks=cast(Any, settings.places), data=settings.model_dump(), is_discreet=True
    )
    for each, entry in settings.providers.items():
        if each == name or entry.is_candidate:
            check_provider_settings(host, each, report)
    return report.problems


def _is_secret(model: type[BaseModel], setting: str) -> bool:
    annotation = model.model_fields[setting].annotation
    return annotation is SecretRef or SecretRef in get_args(annotation)
