"""Which providers may answer a request, and in what order: the run's own and those that a deployment adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle._dataclasses import dataclass
from treadle._settings.providers import default_model
from treadle.contracts.provider import Provider
from treadle.errors import TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["Candidate", "candidates_for"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A provider that may answer, by the name that it has here.

    :param model: what it is asked for; None where it has no model of the request's name and none of its own.
    :param provider: built, not opened; None where it could not be built.
    :param error: why not.
    """

    name: str
    model: str | None
    provider: Provider | None
    error: TreadleError | None = None


def candidates_for(
    host: Host, own: Provider, model: str, build: Callable[[str], Provider], *, named: bool
) -> list[Candidate]:
    """Who may answer a request for the model, first to last; see ``docs/settings.md``. There is always one.

    :param own: the run's provider.
    :param build: builds another.
    :param named: whether the workflow itself names the run's provider. Then nobody comes before it.
    """
    entries = host.settings.providers
    if own.stands_alone or not any(each.is_candidate for each in entries.values()):
        return [Candidate(own.name, model, own)]
    known: dict[str, Candidate] = {}

    def candidate(name: str) -> Candidate:
        if name not in known:
            try:
                known[name] = Candidate(name, model, own if name == own.name else build(name))
            except TreadleError as error:
                known[name] = Candidate(name, model, None, error)
        return known[name]

    def has(name: str) -> bool:
        if name in entries and entries[name].models:
            return model in entries[name].models
        provider = candidate(name).provider
        return provider is None or provider.supports_model(model)  # what is broken is told when its turn comes

    ordered = sorted(entries, key=lambda name: entries[name].priority or 0)
    ordered = [name for name in ordered if host.resolve("provider", name) == name]  # not what an alias replaces
    regular = [name for name in ordered if not entries[name].fallback]
    serving = [name for name in regular if model in entries[name].models]
    if not serving:
        serving = [name for name in regular if entries[name].priority is not None and has(name)]
        named = True  # as good as: nobody claims the model by its name
    first = [own.name] if named and has(own.name) else []
    names = list(dict.fromkeys([*first, *serving])) or [own.name]
    found = [candidate(name) for name in names]
    for name in ordered:
        if entries[name].fallback and name not in names:
            each = candidate(name)
            wanted = entries[name].fallback_model or (model if has(name) else None)
            if wanted is None and each.provider is not None:
                wanted = default_model(host, each.provider)
            found.append(Candidate(name, wanted, each.provider, each.error))
    return found
