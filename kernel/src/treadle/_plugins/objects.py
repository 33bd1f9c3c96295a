"""Objects of a program in place of installed plugins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from pydantic import ConfigDict

from treadle._arguments import expect
from treadle._plugins.host import OFFER_TYPES, Host
from treadle._plugins.registry import hook_of
from treadle._suggest import did_you_mean
from treadle.contracts.config import RunConfig
from treadle.contracts.offers import LayerOffer, Offer, Role
from treadle.contracts.provider import Provider, ProviderLayer, ProviderSettings
from treadle.contracts.tool import Tool
from treadle.errors import ConfigurationError
from treadle.hookspecs import hookimpl

if TYPE_CHECKING:
    from treadle.contracts.step import Step

__all__ = ["Extras", "GivenProvider", "extended_host", "given_tools", "offering"]

PROGRAM = "this program"
"""What a plugin made of a program's objects is called."""


class Extras(TypedDict, total=False):
    """What a program gives to a session without installing it. It wins over what is installed under the same name.

    :param tools: tools, as objects, classes or functions, or a ``ToolRegistry``; each has its own name.
    :param providers: model providers by name. A class gets no settings of the deployment; an object is used as it
        is, whatever the workflow's config sets for it, and entered by the session.
    :param layers: provider layers, as objects or classes, each around every candidate, the first outermost; a
        ``LayerOffer`` to say otherwise.
    :param steps: step types, by the name that documents give as ``type``.
    :param plugins: plugins, by name.
    """

    tools: Iterable[Tool | type[Tool] | Callable[..., Any]]
    providers: Mapping[str, Provider | type[Provider]]
    layers: Iterable[ProviderLayer | type[ProviderLayer] | LayerOffer]
    steps: Mapping[str, type[Step]]
    plugins: Mapping[str, object]


def extended_host(host: Host, extras: Extras) -> Host:
    """The host with what a program gives.

    :raises ConfigurationError: two of the objects have one name, or a provider calls itself something else.
    :raises PluginError: a plugin is broken, or two of them offer the same.
    :raises TypeError: there are no extras of that name, or one is of the wrong kind.
    """
    for key, value in extras.items():
        if key not in Extras.__annotations__:
            setting = f"a setting of a run is given to run() or load_workflow() as config={{'{key}': ...}}"
            meant = setting if key in RunConfig.model_fields else did_you_mean(key, Extras.__annotations__)
            raise TypeError(f"there is no parameter '{key}'; {meant}")
        if key != "tools":
            kind, takes = (Iterable, "a list") if key == "layers" else (Mapping, "a mapping by name")
            expect(kind, takes, **{key: value})
    tools: dict[str, Any] = {}
    for tool in given_tools(extras.get("tools", ())):
        if tool.name in tools:
            raise ConfigurationError(f"two of the tools given are called '{tool.name}'")
        tools[tool.name] = Offer(functools.partial(_itself, tool), _first_line(tool.description) or tool.name)
    providers: dict[str, Any] = {}
    for name, provider in extras.get("providers", {}).items():
        if not hasattr(provider, "settings_model" if isinstance(provider, type) else "exchange"):
            raise TypeError(f"providers: '{name}' is to be a Provider or a subclass of it, not {provider!r:.60}")
        if isinstance(provider, Provider) and provider.name != name:
            raise ConfigurationError(
                f"the provider given as '{name}' calls itself '{provider.name}'", hint="give both the same name"
            )
        providers[name] = GivenProvider(provider) if isinstance(provider, Provider) else provider
    offers: dict[Role, Mapping[str, Any]] = {
        "tool": tools,
        "provider": providers,
        "provider_layer": {
            f"{PROGRAM} {number:03}": each if isinstance(each, Offer) else _layer_offer(each)
            for number, each in enumerate(extras.get("layers", ()))
        },
        "step_type": extras.get("steps", {}),
    }
    if extras.get("plugins"):
        host = host.extended(extras["plugins"])
    return host.extended({PROGRAM: offering({role: named for role, named in offers.items() if named})})


def given_tools(tools: Iterable[Tool | type[Tool] | Callable[..., Any]]) -> Sequence[Tool]:
    """The tools that a program gives, functions among them as tools."""
    expect(Iterable, "a list of tools", tools=tools)
    if tools == ():  # as a command of the terminal gives them: what makes tools is not imported
        return ()
    from treadle.tools import as_tool

    return [as_tool(each) for each in tools]


class GivenProvider:
    """Stands where a class of providers is expected, and gives the one provider that a program made."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.settings_model = _NoSettings

    def __call__(self, name: str, settings: ProviderSettings) -> Provider:
        """The provider, which has its settings already."""
        return self.provider


class _NoSettings(ProviderSettings):
    model_config = ConfigDict(extra="ignore")


def _layer_offer(layer: ProviderLayer | type[ProviderLayer]) -> LayerOffer:
    if not hasattr(layer, "exchange"):
        raise TypeError(f"layers: a provider layer has the method exchange(), and {layer!r:.60} has none")
    make = layer if isinstance(layer, type) else functools.partial(_itself, layer)
    return LayerOffer(make, _first_line(layer.__doc__) or type(layer).__name__)


def _itself(made: Any) -> Any:
    return made


def offering(offers: Mapping[Role, Mapping[str, Any]]) -> object:
    """A plugin that offers objects: ``offering({"tool": {"shout": Shout}, "provider": {"p": scripted("hi")}})``."""
    hooks: dict[str, Callable[[], Mapping[str, Offer]]] = {}
    for role, objects in offers.items():
        kind = OFFER_TYPES.get(role, Offer)
        collected = {
            name: each if isinstance(each, Offer) else kind(each, _first_line(each.__doc__) or name)
            for name, each in objects.items()
        }
        hooks[hook_of(role)] = _hook(hook_of(role), collected)
    return type("Offering", (), {name: staticmethod(hook) for name, hook in hooks.items()})()


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _hook(name: str, offers: Mapping[str, Offer]) -> Callable[[], Mapping[str, Offer]]:
    def hook() -> Mapping[str, Offer]:
        return offers

    hook.__name__ = name
    implementation: Callable[[], Mapping[str, Offer]] = hookimpl(hook)
    return implementation
