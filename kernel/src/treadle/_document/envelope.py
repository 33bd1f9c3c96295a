"""The outside of a workflow file: everything but what the step types themselves define."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, field_validator

from treadle.contracts.config import RunConfig
from treadle.contracts.offers import ConfigOffer
from treadle.contracts.sandbox import Sandbox
from treadle.errors import PluginError, TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host
    from treadle._plugins.registry import Registry

__all__ = [
    "Envelope",
    "config_model",
    "inheritable",
    "inherited",
    "open_sandbox",
    "provider_overrides",
    "sandbox_block",
]

_MODELS: WeakKeyDictionary[Registry, dict[tuple[frozenset[str], int], type[RunConfig]]] = WeakKeyDictionary()
"""Of a config, by the offers there are and the fields that are used: a model takes longer to make than a small
workflow to check. A registry's offers only ever become more."""
_INHERITED = {"provider", "model", "stream", "max_retries", "strict_templates"}


def _version_text(value: Any) -> Any:
    """``version: 1.0`` is a number in YAML; everybody means the text."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class Envelope(BaseModel):
    """The top level of a workflow file. Each step is checked apart, by its own plugin's model."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(min_length=1, description="the workflow's name")
    version: Annotated[str, BeforeValidator(_version_text)] = Field(default="1.0", description="the workflow's version")
    description: str = Field(default="", description="what the workflow is for")
    # Defaults are copied for each instance; of a factory, pydantic would read the signature first.
    requires: list[str] = Field(
        default=[], description="distributions that the workflow needs, such as acme-treadle>=1"
    )
    config: dict[str, Any] = Field(default={}, description="how the workflow runs")
    state: dict[str, Any] = Field(default={}, description="the initial state")
    state_schema: dict[str, Any] = Field(default={}, description="what is known about state keys")

    @field_validator("state_schema")
    @classmethod
    def _redact_is_a_flag(cls, schema: dict[str, Any]) -> dict[str, Any]:
        for key, about in schema.items():
            if isinstance(about, Mapping) and not isinstance(about.get("redact", False), bool):
                # `yes` is a text here, and would hide nothing
                raise ValueError(f"redact of '{key}' must be true or false")
        return schema

    steps: list[Any] = Field(min_length=1, description="the steps")


def config_model(host: Host, used: Iterable[str], broken: Callable[[str, PluginError], None]) -> type[RunConfig]:
    """The model of a ``config:`` block: the kernel's fields and those that plugins add.

    Only a field that the block uses is looked at: its type is imported, and ``broken`` is told where the plugin is
    at fault. A plugin may not redefine a field of the kernel's.
    """
    offered = host.registry.all("config_field")
    made = _MODELS.setdefault(host.registry, {})
    key = frozenset(used).intersection(offered), len(offered)
    if key in made:
        return made[key]
    fields: dict[str, Any] = {}
    sound = True
    for name, registered in offered.items():
        annotation: Any = Any
        try:
            if name in used and name in RunConfig.model_fields:
                raise PluginError(
                    f"plugin {registered.owner} redefines this field of the kernel's",
                    hint=f"disable it with --without {registered.plugin}",
                )
            annotation = registered.load() if name in used else Any
        except PluginError as error:
            broken(name, error)
            sound = False
        if name in RunConfig.model_fields:
            continue
        fields[name] = (annotation | None, Field(default=None, description=registered.offer.summary))
    model = create_model("RunConfig", __base__=RunConfig, **fields) if fields else RunConfig
    if sound:
        made[key] = model
    return model


def inheritable(host: Host) -> set[str]:
    """Fields of a config that child workflows take over: how models are called, and how steps are tried.

    What limits a run as a whole - its time, its slots, its sandbox, what it may spend - holds for each by itself.
    """
    return _INHERITED | _of_providers(host)


def _of_providers(host: Host) -> set[str]:
    return {
        name
        for name, registered in host.registry.all("config_field").items()
        if isinstance(registered.offer, ConfigOffer) and registered.offer.provider
    }


def inherited(host: Host, config: RunConfig, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a child workflow takes over from its parent's config.

    :param own: the child's own block, which wins; with a provider of its own, the parent's model means nothing to it.
    """
    own = own or {}
    names = inheritable(host) & config.model_fields_set
    if own.get("provider") is not None and own["provider"] != config.provider:
        names -= {"provider", "model", *_of_providers(host)}
    return {name: getattr(config, name) for name in names if name not in own and getattr(config, name) is not None}


def provider_overrides(host: Host, config: RunConfig) -> dict[str, dict[str, Any]]:
    """Settings that the workflow's config gives to providers: provider -> setting -> value."""
    overrides: dict[str, dict[str, Any]] = {}
    for name, registered in host.registry.all("config_field").items():
        value = getattr(config, name, None)
        if isinstance(registered.offer, ConfigOffer) and registered.offer.provider and value is not None:
            overrides.setdefault(registered.offer.provider, {})[name] = value
    return overrides


def sandbox_block(host: Host, kind: type[Sandbox], block: Mapping[str, Any]) -> BaseModel:
    """What the sandbox holds a workflow to: its own block, within the deployment's.

    :raises ValidationError: the block is not valid.
    :raises SandboxError: the two cannot be combined.
    """
    from treadle._settings.providers import secret_variables

    context = {"secret_variables": partial(secret_variables, host)}
    child = kind.block_model.model_validate(block, context=context)
    parent = host.settings.sandbox
    return child if parent is None else kind.combine(kind.block_model.model_validate(parent, context=context), child)


def open_sandbox(host: Host, block_of: Callable[[type[Sandbox]], BaseModel]) -> Sandbox:
    """The sandbox of a run, not yet entered.

    :raises PluginError: its class cannot be made; the message names the plugin.
    """
    registered = host.sole("sandbox", "the run")
    kind: type[Sandbox] = registered.load()
    block = block_of(kind)
    try:
        return kind(block, Path.cwd())
    except TreadleError:
        raise
    except Exception as error:
        raise registered.fault("cannot be opened", error) from error
