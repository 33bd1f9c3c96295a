"""What plugins offer, by role and name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import PurePath
from typing import Any, get_args

from treadle._dataclasses import dataclass
from treadle._plugins.finding import Distribution, distribution_of
from treadle.contracts.offers import Offer, Role
from treadle.errors import PluginError

__all__ = ["ROLES", "Registered", "Registry", "cause_of", "hook_of"]

ROLES: tuple[Role, ...] = get_args(Role)


def hook_of(role: Role) -> str:
    """The hook that collects offers for the role."""
    plural = f"{role[:-1]}ies" if role.endswith("y") else f"{role}es" if role.endswith("x") else f"{role}s"
    return f"treadle_{plural}"


def cause_of(error: BaseException, source: str = "") -> str:
    """An exception of foreign code in a message.

    :param source: a module of the plugin's; the innermost of its own lines that the exception came through is added.
    """
    cause = f"{type(error).__name__}: {error}".removesuffix(": ")
    place = _place_in(source.partition(":")[0].partition(".")[0], error)
    return f"{cause} ({place})" if place else cause


def _place_in(package: str, error: BaseException) -> str:
    """Where in the package's files it was raised, as ``package/module.py:7``; nothing where it was not."""
    found = ""
    trace = error.__traceback__ if package else None
    while trace is not None:  # by hand: the module traceback takes long to import
        frame, line, trace = trace.tb_frame, trace.tb_lineno, trace.tb_next
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            parts = PurePath(frame.f_code.co_filename).parts
            start = len(parts) - 1 - parts[::-1].index(package) if package in parts else -1
            found = f"{'/'.join(parts[start:])}:{line}"
    return found


@dataclass(frozen=True, slots=True)
class Registered:
    """An offer and whose it is."""

    role: Role
    name: str
    offer: Offer
    plugin: str
    point: EntryPoint | None = None

    @property
    def distribution(self) -> Distribution:
        """Whose it is. Looked up when asked for: listing what is installed need not read every package's metadata."""
        return distribution_of(self.point) if self.point else Distribution()

    @property
    def owner(self) -> str:
        """Whose it is, for messages: ``'acme' (acme-treadle 0.9)``."""
        return f"'{self.plugin}' ({self.distribution})" if self.point else f"'{self.plugin}'"

    def fault(self, doing: str, error: BaseException) -> PluginError:
        """What is told where the object that is offered raises: whose it is, while doing what, why and where."""
        cause = cause_of(error, getattr(self.load(), "__module__", ""))
        cause = re.sub(r"\s+For further information visit \S+", "", cause)  # pydantic's, on lines of its own
        return PluginError(
            f"{self.role.replace('_', ' ')} '{self.name}' of plugin {self.owner} {doing}: {cause}",
            hint=f"disable it with --without {self.plugin}, or upgrade it",
        )

    def load(self) -> Any:
        """The object offered.

        :raises PluginError: it cannot be imported; the message names plugin, distribution and cause.
        """
        try:
            return self.offer.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too, and the panics of extensions that derive from neither
            raise PluginError(
                f"{self.role.replace('_', ' ')} '{self.name}' of plugin {self.owner} "
                f"could not be loaded from {self.offer.target}: {cause_of(error, str(self.offer.target))}",
                hint=f"disable it with --without {self.plugin}, or upgrade it",
            ) from error


class Registry:
    """Offers by role and name. A name that two plugins offer for one role serves for neither."""

    def __init__(self) -> None:
        self._offers: dict[str, dict[str, list[Registered]]] = {role: {} for role in ROLES}

    def add(self, registered: Registered) -> None:
        """Keep one offer."""
        self._offers[registered.role].setdefault(registered.name, []).append(registered)

    def covered_by(self, other: Registry) -> Registry:
        """A registry of both, in which the other's offers are the only ones under their names."""
        both = Registry()
        both._offers = {role: {**names, **other._offers[role]} for role, names in self._offers.items()}
        return both

    def get(self, role: Role, name: str) -> Registered | None:
        """The offer of that name, or None.

        :raises PluginError: two plugins offer it.
        """
        found = self._offers[role].get(name)
        if not found:
            return None
        if len(found) > 1:
            raise PluginError(
                f"{role.replace('_', ' ')} '{name}' is offered by "
                + " and by ".join(f"plugin {each.owner}" for each in found),
                hint=f"disable one with {' or '.join(f'--without {each.plugin}' for each in found)}",
            )
        return found[0]

    def names(self, role: Role) -> list[str]:
        """Every name offered for the role, sorted."""
        return sorted(self._offers[role])

    def all(self, role: Role) -> Mapping[str, Registered]:
        """Every usable offer for the role, in order of name."""
        return {name: found[0] for name, found in sorted(self._offers[role].items()) if len(found) == 1}

    def clashes(self) -> Iterator[PluginError]:
        """An error for each name that two plugins offer."""
        for role in ROLES:
            for name, found in self._offers[role].items():
                if len(found) > 1:
                    try:
                        self.get(role, name)
                    except PluginError as error:
                        yield error
