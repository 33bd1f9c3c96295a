"""Blocks of ``treadle.yaml`` that plugins read: ``limits:`` of a provider, ``prices:`` and ``journal:``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from treadle.contracts.journal import Journal
from treadle.contracts.offers import LayerOffer, Role
from treadle.contracts.provider import ProviderLayer
from treadle.contracts.sources import PriceSource
from treadle.errors import ConfigurationError, NotInstalledError, TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["journal_of", "layers_of", "models_of", "prices_of"]

_ROLE: Mapping[str, Role] = {"limits": "provider_layer", "prices": "price_source", "journal": "journal"}


def models_of(host: Host, block: str) -> Iterator[type[BaseModel]]:
    """The models of everything installed that reads the block, which is imported.

    :raises NotInstalledError: nothing does; the hint says what would.
    :raises PluginError: one of them cannot be imported.
    """
    found = [model for *_, model in _readers(host, block) if model is not None]
    if not found:
        packages = host.catalogue.distributions(_ROLE[block])
        hint = f"pip install {packages[0]}" if packages else None
        raise NotInstalledError(f"no plugin is installed that reads '{block}'", hint=hint)
    yield from dict.fromkeys(found)


def layers_of(host: Host, provider: str) -> list[tuple[tuple[int, str], ProviderLayer]]:
    """The layers that hold a provider to its limits, each with its place among all; none where it has no limits.

    :raises ConfigurationError: the limits are not valid.
    """
    entry = host.settings.providers.get(provider)
    if entry is None or entry.limits is None:
        return []
    place = host.settings.place_of("providers", provider, "limits")
    return [
        ((order, name), target(provider, _checked(model, entry.limits, host, f"{place or 'settings'}: limits")))
        for order, name, target, model in _readers(host, "limits")
        if model is not None
    ]


def journal_of(host: Host, name: str, overrides: Mapping[str, Any] | None = None, *, create: bool = True) -> Journal:
    """The journal of that name, opened as the ``journal:`` block says.

    :param create: whether it may be made now.
    :raises ConfigurationError: the block is not valid, or the journal cannot be opened.
    """
    kind, place = host.load("journal", name), f"{host.settings.place_of('journal') or 'settings'}: journal"
    model = getattr(kind, "settings_model", None)
    block = {**(host.settings.journal or {}), **(overrides or {})}
    make = kind if create else getattr(kind, "existing", kind)
    journal: Journal = make() if model is None else make(_checked(model, block, host, place))
    return journal


def prices_of(host: Host, given: Mapping[str, Any] | None = None) -> list[PriceSource]:
    """The price sources, in order of name. What they bring along is imported.

    :param given: prices in place of the ``prices:`` block.
    :raises ConfigurationError: the block is not valid.
    """
    place = "prices" if given is not None else f"{host.settings.place_of('prices') or 'settings'}: prices"
    block = given if given is not None else host.settings.prices or {}
    return [
        target() if model is None else target(_checked(model, block, host, place))
        for _, _, target, model in _readers(host, "prices")
    ]


def _readers(host: Host, block: str) -> Iterator[tuple[int, str, Any, type[BaseModel] | None]]:
    for name, registered in host.registry.all(_ROLE[block]).items():
        offer = registered.offer
        if not isinstance(offer, LayerOffer):
            target = registered.load()
            yield 0, name, target, getattr(target, "settings_model", None)
        elif offer.limits:
            target = registered.load()
            yield offer.order, name, target, target.settings_model


def _checked(model: type[BaseModel], block: Mapping[str, Any], host: Host, what: str) -> BaseModel:
    try:
        return model.model_validate(block, context={"folder": host.settings.folder})
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        where = ".".join(map(str, details["loc"]))
        raise ConfigurationError(f"{what}.{where}: {details['msg'].removeprefix('Value error, ')}") from error
    except TreadleError as error:  # a validator's own, such as of a file that it reads
        raise ConfigurationError(f"{what}: {error.message}", hint=error.hint) from error
