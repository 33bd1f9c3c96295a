"""What a document names outside of itself: files, objects, what must be installed, and the provider that will serve."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from treadle._document.envelope import provider_overrides
from treadle._document.problems import Path, Reporter, dotted_path
from treadle._plugins.registry import cause_of
from treadle._settings.candidates import candidates_for
from treadle._settings.providers import build_provider, refused, with_model
from treadle._suggest import did_you_mean, similar_file
from treadle.contracts.offers import Role
from treadle.contracts.step import Step
from treadle.errors import ConfigurationError, NotInstalledError, PluginError, Severity, TreadleError
from treadle.messages import ModelRequest

if TYPE_CHECKING:
    from treadle._plugins import Host
    from treadle.contracts.config import RunConfig
    from treadle.contracts.provider import Provider
    from treadle.contracts.step import Reference

__all__ = ["check_budgets", "check_reference", "check_references", "check_requests"]

_SHOWN = 200
_COMMON = frozenset(Step.model_fields)


def check_references(step: Step, place: Path, host: Host, report: Reporter) -> None:
    """What the step type needs and what the step names must be there."""
    for role in step.needs:
        if role == "provider":
            continue  # any provider will do, and the config says which
        _check_served(role, f"step type '{step.type}'", (*place, "type"), host, report)
    for reference in step.references():
        path = (*place, *dotted_path(reference.field))
        check_reference(reference, path, f"step type '{step.type}'", host, report)


def check_budgets(config: RunConfig, steps: Mapping[int, Step], host: Host, report: Reporter) -> None:
    """Where a budget is set, something must keep it."""
    if config.budget_usd is not None:
        _check_served("budget", "config.budget_usd", ("config", "budget_usd"), host, report)
    for index, step in steps.items():
        if step.budget_usd is not None:
            _check_served("budget", f"budget_usd of step '{step.id}'", ("steps", index, "budget_usd"), host, report)


def check_reference(reference: Reference, path: Path, needed_by: str, host: Host, report: Reporter) -> None:
    """What is referred to must be there."""
    if reference.role == "file":
        _check_file(reference, path, report)
    elif reference.role == "object":
        _check_object(reference, path, report)
    elif not reference.name:
        _check_served(reference.role, needed_by, path, host, report)
    else:
        _check_installed(reference.role, reference.name, path, host, report)


def _check_served(role: Role, needed_by: str, path: Path, host: Host, report: Reporter) -> None:
    try:
        host.sole(role, needed_by)
    except TreadleError as error:
        report.add(path, "not-installed", error.message, hint=error.hint)


def _check_installed(role: Role, name: str, path: Path, host: Host, report: Reporter) -> None:
    try:
        host.get(role, name)
    except TreadleError as error:
        # A warning where it is not there: the step may never be reached, and then the run is whole.
        severity: Severity = "warning" if isinstance(error, NotInstalledError) else "error"
        fix = report.only(name, host.all_names(role)) if severity == "warning" else None
        report.add(path, "not-installed", error.message, hint=error.hint, severity=severity, fix=fix)
        return
    if role in ("tool", "attachment_fetcher") and host.registry.names("sandbox"):
        try:
            host.sole("sandbox", "the run")
        except TreadleError as error:  # as the run says it when the first of them is used
            report.add(path, "not-installed", error.message, hint=error.hint, severity="warning")


def _check_file(reference: Reference, path: Path, report: Reporter) -> None:
    """A file must be there, from the working directory on."""
    try:
        file = FilePath(reference.name)
        message = None if file.is_file() else "is a directory, not a file" if file.exists() else "no such file"
    except (OSError, ValueError) as error:  # a name that is too long, or holds a NUL
        message = str(getattr(error, "strerror", None) or error).lower()
    if message is not None:
        match = similar_file(reference.name) if message == "no such file" else None
        hint = f"did you mean '{match}'?" if match else None
        report.add(path, "missing-file", f"{message}: '{reference.name[:_SHOWN]}'", hint=hint)


def _check_object(reference: Reference, path: Path, report: Reporter) -> None:
    """An object must be importable; importing runs its module, here as in the run."""
    try:
        reference.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a module does when it is imported, sys.exit() among it
        cause = cause_of(error).partition("\n")[0][:_SHOWN]
        hint = None
        if isinstance(error, AttributeError) and error.obj is not None and error.name:
            names = (each for each in dir(error.obj) if not each.startswith("_"))
            hint = did_you_mean(error.name, names, list_up_to=0)
        report.add(path, "bad-import", f"{cause}, in importing '{reference.name[:_SHOWN]}'", hint=hint)


def check_requests(steps: Mapping[int, Step], config: RunConfig, host: Host, report: Reporter) -> Provider | None:
    """What the provider that will serve says of the requests that steps will make; it is given back where it was asked.

    It is built, not entered: no SDK is imported, no key read, nothing opened. What every request is refused for is
    said once.
    """
    requests: list[tuple[int, ModelRequest]] = []
    for index, step in steps.items():
        try:
            requests += [(index, each) for each in step.model_requests(config)]
        except TreadleError:
            raise
        except Exception as error:
            told = host.get("step_type", step.type).fault("fails in model_requests()", error)
            report.add(("steps", index, "type"), "plugin", told.message, hint=told.hint)
    if not requests:
        return None
    block = report.data.get("config")
    own_choice = isinstance(block, Mapping) and block.get("provider") is not None
    first: Path = ("config", "provider") if own_choice else ("steps", requests[0][0], "type")
    try:
        provider = _built(config, host)
    except PluginError as error:
        report.add(first, "plugin", error.message, hint=error.hint)
        return None
    except ConfigurationError as error:
        # Only what the document itself sets is its fault: what is missing may be set where it runs, and what is wrong
        # in the deployment's settings is said of them.
        for details in error.__cause__.errors() if isinstance(error.__cause__, ValidationError) else ():
            if details["loc"] and isinstance(block, Mapping) and details["loc"][0] in block:
                report.add(("config", details["loc"][0]), "bad-value", error.message)
        return None
    found: list[tuple[Path, list[str]]] = []
    for index, request in requests:
        try:
            refusals = _refusals(with_model(host, request, provider), provider, config, host)
        except ConfigurationError as error:
            report.add(first if own_choice else ("steps", index, "type"), "no-model", error.message, hint=error.hint)
            continue
        except Exception as error:
            message = f"provider '{provider.name}' could not be asked about this request: {cause_of(error)}"
            report.add(("steps", index, "type"), "plugin", message)
            continue
        found.append((("steps", index, "type"), refusals))
    common = set.intersection(*(set(refusals) for _, refusals in found)) if len(found) > 1 else set()
    shared = [each for each in (found[0][1] if found else ()) if each in common]
    for path, refusals in ((first, shared), *found):
        left = refusals if refusals is shared else [each for each in refusals if each not in common]
        places: dict[Path, list[str]] = {}
        for each in left:
            places.setdefault(_place_of(each, path, report.data), []).append(each)
        for place, some in places.items():
            report.add(place, "refused-request", refused(provider.name, some))
    return provider


def _place_of(refusal: str, path: Path, data: Mapping[str, Any]) -> Path:
    """The setting that a refusal begins with, or whose value it begins with; the field of the step that it names; or
    else the path."""
    for name, value in (data.get("config") or {}).items():
        if refusal.startswith((f"{name}:", f"{value}:")):
            return ("config", name)
    step = data["steps"][path[1]] if path[0] == "steps" else {}
    named = (name for name in step if name not in _COMMON and re.search(rf"\b{re.escape(str(name))}\b", refusal))
    return next(((*path[:2], name) for name in named), path)


def check_step_names(
    provider: Provider | None, config: RunConfig, step_ids: Collection[str], host: Host, report: Reporter
) -> None:
    """What the provider that will serve doubts of its settings, of which some may name steps.

    :param provider: None where no step asks it, but steps of workflows below may.
    """
    if provider is None:
        try:
            provider = _built(config, host)
        except TreadleError:
            return  # told where it is asked, if it is
    block = report.data.get("config")
    for setting, doubt in provider.check_steps(step_ids):
        is_own = isinstance(block, Mapping) and setting in block
        path: Path = ("config", setting) if is_own else ("config", "provider")
        report.add(path, "doubtful-setting", f"provider '{provider.name}': {doubt}", severity="warning")


def _built(config: RunConfig, host: Host) -> Provider:
    name = host.resolve("provider", config.provider or host.default_provider())
    return build_provider(host, name, provider_overrides(host, config).get(host.get("provider", name).name))


def _refusals(request: ModelRequest, provider: Provider, config: RunConfig, host: Host) -> list[str]:
    """What the run's provider says against the request; nothing where another candidate takes it."""
    build, named = partial(build_provider, host), config.provider is not None
    for each in candidates_for(host, provider, request.model, build, named=named):
        if each.provider is None or each.model is None:
            continue
        if not each.provider.refusals(request if each.model == request.model else replace(request, model=each.model)):
            return []
    return provider.refusals(request)
