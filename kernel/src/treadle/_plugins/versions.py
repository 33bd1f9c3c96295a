"""Requirements on versions: of a plugin on this kernel, and of a workflow on other distributions."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from treadle._plugins.finding import Distribution
from treadle.errors import ConfigurationError, NotInstalledError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["KERNEL", "check_requirement", "kernel_misfit", "kernel_version", "normal_name"]

KERNEL = "treadle-kernel"

_ON_KERNEL = re.compile(r"treadle[-_.]+kernel(?![\w.-])", re.IGNORECASE)
_PLAIN = re.compile(r"\s*(>=|<)\s*(\d+(?:\.\d+)*)\s*")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def normal_name(name: str) -> str:
    """A distribution's name as the packaging specifications normalize it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def kernel_misfit(owner: Distribution) -> tuple[str, bool] | None:
    """The requirement of a distribution on this kernel that this kernel does not meet, and whether it asks for a
    newer one. None where it fits, or says nothing.
    """
    for text in owner.requires:
        if not _ON_KERNEL.match(text):
            continue
        installed = kernel_version()
        if installed and not _fits_plainly(text, installed):
            found = _unmet(text, installed)
            if found is not None:
                return found
    return None


def check_requirement(text: str) -> None:
    """Look whether what a workflow requires is installed.

    :raises ConfigurationError: the text is no requirement, as ``pip install`` takes it.
    :raises NotInstalledError: it is not installed, or in a version that does not do.
    """
    requirement = _parsed(text)
    if requirement.marker is not None and not requirement.marker.evaluate():
        return
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        raise NotInstalledError(
            f"the workflow requires '{text}', and {requirement.name} is not installed", hint=f"pip install '{text}'"
        ) from None
    if not requirement.specifier.contains(found, prereleases=True):
        raise NotInstalledError(
            f"the workflow requires '{text}', and {requirement.name} {found} is installed", hint=f"pip install '{text}'"
        )


@cache
def kernel_version() -> str:
    """The version of this kernel; empty where it runs without being installed."""
    try:
        return version(KERNEL)
    except PackageNotFoundError:
        return ""


def _fits_plainly(text: str, installed: str) -> bool:
    """Whether the kernel surely fits: the usual ``>=0.1,<0.2`` needs no library, which would cost every command."""
    clauses = text[len(KERNEL) :].strip().strip("()").split(",")
    if not _NUMBERS.fullmatch(installed):
        return False
    have = _numbers(installed)
    for clause in clauses:
        plain = _PLAIN.fullmatch(clause)
        if plain is None:
            return False
        wanted = _numbers(plain[2])
        if not (have >= wanted if plain[1] == ">=" else have < wanted):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [int(each) for each in text.split(".")]
    while numbers and numbers[-1] == 0:  # 1.0 is 1
        numbers.pop()
    return tuple(numbers)


def _unmet(text: str, installed: str) -> tuple[str, bool] | None:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion, Version

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None  # pip would not have installed it; its import says what is wrong
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return None
    if requirement.specifier.contains(installed, prereleases=True):
        return None
    unmet = [each.version for each in requirement.specifier if not each.contains(installed, prereleases=True)]
    try:
        wants_newer = any(Version(each.removesuffix(".*")) > Version(installed) for each in unmet)
    except InvalidVersion:  # `===` takes any text
        wants_newer = False
    return str(requirement.specifier), wants_newer


def _parsed(text: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        raise ConfigurationError(
            f"'{text}' is no requirement", hint="write a distribution and versions, as pip takes them: acme-treadle>=1"
        ) from None
    if requirement.url is not None or requirement.extras:
        raise ConfigurationError(
            f"'{text}' cannot be checked here: it names {'an address' if requirement.url else 'extras'}",
            hint="name distributions and versions only",
        )
    return requirement
