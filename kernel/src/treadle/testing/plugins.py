"""The suite of a whole plugin: its hooks, its offers, and that looking at it costs nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from types import ModuleType

from treadle._plugins import Host, Registered
from treadle.contracts.offers import Role
from treadle.testing.cancellation import in_sentences
from treadle.testing.imports import Imported, measure_import
from treadle.testing.offers import faults_of_offer

__all__ = ["check_plugin", "faults_of_import"]


@in_sentences
async def check_plugin(
    plugin: ModuleType | str | object, *, offers: Mapping[Role, Collection[str]] | None = None
) -> None:
    """Look at a plugin's hooks and everything it offers: hooks as specified, light imports, offers that load and fit
    their contracts, schemas of steps and tools.

    What an offer does when it is used, the other suites say.

    :param plugin: the module of hooks, as the entry point names it, or its dotted name; or an object with hooks.
    :param offers: by role, the names that it must offer, and no others.
    :raises AssertionError: with a sentence for each thing that is wrong, one a line.
    """
    found = import_module(plugin) if isinstance(plugin, str) else plugin
    name = found.__name__ if isinstance(found, ModuleType) else "plugin"
    first, again = (Host.of({name: found}).reports[0].offers for _ in range(2))
    faults = list(_faults_of_names(first, again, offers))
    if isinstance(found, ModuleType):
        imported = measure_import(found.__name__)
        if imported is not None:
            faults += faults_of_import(imported, first)
    for registered in first:
        faults += faults_of_offer(registered, [])
    if faults:
        raise AssertionError("\n".join(faults))


def faults_of_import(imported: Imported, offers: Collection[Registered]) -> Iterator[str]:
    """What importing the module of hooks should not have brought along."""
    if foreign := imported.foreign():
        yield (
            f"importing {imported.module} imports {', '.join(foreign)}; every command pays for that: "
            "the module of hooks holds hooks only, and an offer says where the rest lives"
        )
    for registered in offers:
        if not isinstance(registered.offer.target, str):
            yield f"{registered.name}: the offer holds the object itself; name it as 'package.module:attribute'"
            continue
        home = registered.offer.target.partition(":")[0]
        if home in imported.modules or home == imported.module:
            yield f"importing {imported.module} imports {home}, where '{registered.name}' lives; only using it should"


def _faults_of_names(
    first: Collection[Registered], again: Collection[Registered], wanted: Mapping[Role, Collection[str]] | None
) -> Iterator[str]:
    names = {(each.role, each.name) for each in first}
    if names != {(each.role, each.name) for each in again}:
        yield "asked a second time, it offers other names"
    if not names:
        yield "it offers nothing"
    if wanted is None:
        return
    expected = {(role, name) for role, those in wanted.items() for name in those}
    for role, name in sorted(expected - names):
        yield f"it does not offer the {role.replace('_', ' ')} '{name}'"
    for role, name in sorted(names - expected):
        yield f"it offers the {role.replace('_', ' ')} '{name}', which was not expected"
