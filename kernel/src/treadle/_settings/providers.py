"""A provider's settings from the deployment, the workflow and the environment, the last winning."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from treadle._dataclasses import dataclass
from treadle.contracts.offers import ProviderOffer
from treadle.contracts.provider import FromEnv, Provider, ProviderSettings
from treadle.contracts.secrets import SecretRef
from treadle.errors import ConfigurationError, PluginError, TreadleError
from treadle.messages import ModelRequest

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = [
    "SettingValue",
    "build_provider",
    "build_settings",
    "default_model",
    "provider_values",
    "refused",
    "secret_variables",
    "with_model",
]


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A value and where it comes from: ``treadle.yaml:5:14``, an environment variable, ``config`` or ``default``."""

    value: Any
    origin: str


def provider_values(
    host: Host, name: str, overrides: Mapping[str, Any] | None = None, environment: Mapping[str, str] = os.environ
) -> dict[str, SettingValue]:
    """What is set for the provider of that name, by setting, before it is checked.

    The environment speaks to a provider that has its kind's own name. Otherwise ``OPENAI_BASE_URL`` would send every
    entry of that kind to one server, each with its own key.

    :param overrides: what the workflow's config says.
    :raises NotInstalledError: there is no such provider.
    """
    name = host.resolve("provider", name)
    registered = host.get("provider", name)
    settings, entry = host.settings, host.settings.providers.get(name)
    given = {
        setting: SettingValue(value, settings.place_of("providers", name, setting) or "settings")
        for setting, value in (entry.settings if entry else {}).items()
    }
    given |= {setting: SettingValue(value, "config") for setting, value in (overrides or {}).items()}
    model: type[ProviderSettings] = registered.load().settings_model
    for setting, field in model.model_fields.items() if name == registered.name else ():
        for marker in field.metadata:
            text = environment.get(marker.variable, "").strip() if isinstance(marker, FromEnv) else ""
            if text:
                given[setting] = SettingValue(text, marker.variable)
    return given


def build_settings(host: Host, name: str, overrides: Mapping[str, Any] | None = None) -> ProviderSettings:
    """Settings of the provider of that name.

    :raises ConfigurationError: a value is not valid; the message says where it came from.
    """
    given = provider_values(host, name, overrides)
    model: type[ProviderSettings] = host.load("provider", name).settings_model
    try:
        return model.model_validate({setting: each.value for setting, each in given.items()})
    except ValidationError as error:
        details = error.errors(include_url=False)[-1]
        setting = str(details["loc"][0]) if details["loc"] else ""
        origin = given[setting].origin if setting in given else f"providers.{name}"
        raise ConfigurationError(
            f"{origin}: setting '{setting}' of provider '{name}': {details['msg'].removeprefix('Value error, ')}"
        ) from error


def build_provider(host: Host, name: str, overrides: Mapping[str, Any] | None = None) -> Provider:
    """The provider of that name, built and not opened: no SDK is imported, no key read.

    :raises ConfigurationError: a value is not valid, or it is not installed or cannot be built.
    """
    kind: type[Provider] = host.load("provider", name)
    settings = build_settings(host, name, overrides)
    try:
        return kind(name, settings)
    except TreadleError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise PluginError(f"provider '{name}' could not be built: {cause}") from error


def secret_variables(host: Host) -> frozenset[str]:
    """Environment variables that hold keys here: those that providers read unless told otherwise, and those that the
    settings refer to. Imports the providers' settings, and leaves out those of a broken one.
    """
    written = str([entry.settings for entry in host.settings.providers.values()])
    found = set(re.findall(r"""\benv:([^'"\s]+)""", written))
    for registered in host.registry.all("provider").values():
        try:
            fields = registered.load().settings_model.model_fields.values()
        except PluginError:
            continue
        references = [field.default.reference for field in fields if isinstance(field.default, SecretRef)]
        found |= {each.removeprefix("env:") for each in references if each.startswith("env:")}
    return frozenset(found)


def default_model(host: Host, provider: Provider) -> str | None:
    """The provider's model where a request names none: the deployment's, the provider's, the offer's."""
    offer = host.get("provider", provider.name).offer
    offered = offer.default_model if isinstance(offer, ProviderOffer) else None
    return host.default_model(provider.name) or provider.default_model() or offered


def with_model(host: Host, request: ModelRequest, provider: Provider) -> ModelRequest:
    """The request, with the default model where it names none.

    :raises ConfigurationError: there is none.
    """
    if request.model:
        return request
    model = default_model(host, provider)
    if not model:
        raise ConfigurationError(
            f"no model is set, and provider '{provider.name}' has no default", hint="set config.model, or use -m"
        )
    return replace(request, model=model)


def refused(provider: str, refusals: Sequence[str]) -> str:
    """What is said of a request that a provider refuses, before a run and in it."""
    return f"provider '{provider}' cannot take this request: {'; '.join(refusals)}"
