"""``treadle.yaml``: the settings of a deployment, as far as the kernel itself reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from treadle.contracts.offers import Role
from treadle.contracts.secrets import SecretRef

__all__ = [
    "AliasSettings",
    "Places",
    "PluginSettings",
    "ProviderEntry",
    "RedactionSettings",
    "RoleSettings",
    "Settings",
]

_FROZEN = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Places(Protocol):
    """Where the keys and values of a document stand: line and column, from 1."""

    def key(self, path: tuple[str | int, ...]) -> tuple[int, int]:
        """The place of the key that ends the path."""
        ...

    def value(self, path: tuple[str | int, ...]) -> tuple[int, int]:
        """The place of the value at the path."""
        ...


class PluginSettings(BaseModel):
    """Which plugins there are. Names are those in `treadle plugins`."""

    model_config = _FROZEN

    disabled: tuple[str, ...] = Field(default=(), description="plugins that are left out and never imported")
    enabled: tuple[str, ...] | None = Field(
        default=None, description="the only plugins that are imported; every installed one without it"
    )


class ProviderEntry(BaseModel):
    """A model provider of this deployment. The other keys are the settings of its kind."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    kind: str | None = Field(default=None, description="the provider that it is; the entry's own name without it")
    models: tuple[str, ...] = Field(default=(), description="the models that it serves, by their exact names")
    priority: int | None = Field(
        default=None, description="its turn among providers of one model, lower first; 0 without it"
    )
    fallback: bool = Field(default=False, description="whether it is asked after all others have failed")
    fallback_model: str | None = Field(
        default=None, description="the model that it is asked for as a fallback, as another vendor has other names"
    )
    limits: Mapping[str, Any] | None = Field(
        default=None, description="how often it may be asked, and when no more; read by the layers installed"
    )

    @model_validator(mode="after")
    def _fallback_model_needs_fallback(self) -> Self:
        if self.fallback_model is not None and not self.fallback:
            raise ValueError("fallback_model is used with fallback: true only")
        return self

    @property
    def is_candidate(self) -> bool:
        """Whether it may answer in runs that have chosen another provider."""
        return bool(self.models) or self.priority is not None or self.fallback

    @property
    def settings(self) -> Mapping[str, Any]:
        """What is set of the kind's own settings."""
        return self.model_extra or {}


class RoleSettings(BaseModel):
    """Which offer serves a role of which a deployment has one. Where only one is installed, it need not be named."""

    model_config = _FROZEN

    sandbox: str | None = Field(default=None, description="the sandbox of all tools")
    memory: str | None = Field(default=None, description="what keeps conversations")
    token_counter: str | None = Field(default=None, description="what counts tokens where a provider does not")
    budget: str | None = Field(default=None, description="what keeps runs, steps and agents to their budgets")
    journal: str | None = Field(default=None, description="where runs are recorded; in memory without it")
    recorder: str | None = Field(default=None, description="what writes and plays recordings")


class AliasSettings(BaseModel):
    """Names in workflows that stand for others here: what a workflow calls by the first is served by the second."""

    model_config = _FROZEN

    step_types: Mapping[str, str] = Field(default={}, description="step types")
    providers: Mapping[str, str] = Field(default={}, description="model providers")
    tools: Mapping[str, str] = Field(default={}, description="tools")
    trim_policies: Mapping[str, str] = Field(default={}, description="trim policies of conversations")

    def by_role(self) -> Mapping[Role, Mapping[str, str]]:
        """The same, by role."""
        return {
            "step_type": self.step_types,
            "provider": self.providers,
            "tool": self.tools,
            "trim_policy": self.trim_policies,
        }


class RedactionSettings(BaseModel):
    """What may not leave a run. Secrets that are given by reference never do."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, hide_input_in_errors=True)

    keys: tuple[str, ...] = Field(
        default=(),
        description="state keys or dotted paths, `*` and `?` allowed, whose values are replaced in what leaves a run",
    )
    salt: SecretRef | None = Field(
        default=None, description="what makes equal values look alike in all runs; only within a process without it"
    )


class Settings(BaseModel):
    """The settings of a deployment. Without any, everything installed serves as it is."""

    model_config = _FROZEN

    plugins: PluginSettings = Field(default=PluginSettings.model_construct(), description="which plugins there are")
    provider: str | None = Field(default=None, description="the model provider of workflows that name none")
    model: str | None = Field(default=None, description="the model of that provider where a workflow names none")
    providers: Mapping[str, ProviderEntry] = Field(default={}, description="settings of model providers, by name")
    roles: RoleSettings = Field(
        default=RoleSettings.model_construct(), description="which offer serves where one is chosen"
    )
    aliases: AliasSettings = Field(
        default=AliasSettings.model_construct(), description="names that stand for others, by role"
    )
    sandbox: Mapping[str, Any] | None = Field(
        default=None, description="limits of tools in every workflow, which config.sandbox can only narrow"
    )
    prices: Mapping[str, Any] | None = Field(
        default=None, description="what models cost, where the price sources installed do not know it or are wrong"
    )
    journal: Mapping[str, Any] | None = Field(
        default=None, description="where the journal on disk is, and what it withstands"
    )
    tools: tuple[str, ...] = Field(
        default=(), description="tools of one's own: Python files, or modules as module or module:name"
    )
    redaction: RedactionSettings = Field(
        default=RedactionSettings.model_construct(), description="what may not leave a run"
    )
    config: Mapping[str, Any] = Field(default={}, description="defaults for the config of workflows")

    _source: str | None = PrivateAttr(default=None)
    _places: Places | None = PrivateAttr(default=None)

    @property
    def source(self) -> str | None:
        """The file that they come from, as it was named."""
        return self._source

    @property
    def places(self) -> Places | None:
        """Where everything stands in the file."""
        return self._places

    @property
    def digest(self) -> str:
        """The hash of what is set, wherever it stands."""
        return hashlib.sha256(repr(self).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def folder(self) -> Path:
        """From where its paths go: the file's folder, else the working directory."""
        return Path(self._source).parent if self._source else Path()

    def place_of(self, *path: str | int) -> str | None:
        """``treadle.yaml:5:14``, the place of a value; None where they do not come from a file."""
        if self._places is None:
            return None
        line, column = self._places.value(path)
        return f"{self._source}:{line}:{column}"

    def standing(self, source: str, places: Places | None) -> Settings:
        """The same settings, said to come from that file."""
        own = self.model_copy()
        own._source, own._places = source, places
        return own
