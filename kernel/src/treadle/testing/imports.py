"""What importing a module brings along, measured in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from os import environ, pathsep

__all__ = ["Imported", "measure_import"]

_PROGRAM = """
import json, sys, time
from treadle import ConfigOffer, LayerOffer, Offer, ProviderOffer, hookimpl
before = set(sys.modules)
started = time.perf_counter()
__import__(sys.argv[1])
seconds = time.perf_counter() - started
print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import took and loaded, beyond what every plugin imports from ``treadle`` (offers and ``hookimpl``)."""

    module: str
    seconds: float
    modules: Sequence[str]

    def foreign(self) -> list[str]:
        """The packages among it that are neither the module's own nor the standard library's."""
        own = self.module.partition(".")[0]
        tops = {name.partition(".")[0] for name in self.modules}
        return sorted(top for top in tops - {own, "treadle"} - sys.stdlib_module_names if not _is_support(top))


def measure_import(module: str) -> Imported | None:
    """Import the module in an interpreter of its own; None where a fresh one would not find it.

    :raises AssertionError: the import fails there.
    """
    try:
        if find_spec(module) is None:
            return None
    except (ImportError, ValueError):  # ValueError: a module that a test made by hand
        return None
    paths = pathsep.join(each for each in sys.path if each)
    # The interpreter and the module are this program's own, not a user's text.
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, module],
        env={**environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()
        raise AssertionError(f"{module} cannot be imported in a fresh interpreter: {last[-1] if last else 'it ended'}")
    seconds, modules = json.loads(done.stdout.splitlines()[-1])
    return Imported(module, seconds, modules)


def _is_support(top: str) -> bool:
    """What editable installs and coverage tools put there themselves."""
    return top.startswith(("_", "__editable__", "coverage", "sitecustomize"))
