"""The package ``treadle``: every public name, loaded when it is touched, and typed."""

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import treadle
from treadle import _HOMES  # type: ignore[attr-defined]

ROOT = Path(treadle.__file__)
TYPED = Path(__file__).with_name("typing")


def static_imports() -> dict[str, set[str]]:
    """Module -> names of the imports that type checkers read."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(ROOT.with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            assert node.module
            assert all(alias.asname == alias.name for alias in node.names), "an alias of itself is a re-export"
            found.setdefault(node.module, set()).update(alias.name for alias in node.names)
    return found


def test_what_type_checkers_see_is_what_there_is() -> None:
    assert static_imports() == {home: set(names.split()) for home, names in _HOMES.items()}


def test_no_name_has_two_homes() -> None:
    names = [name for home in _HOMES.values() for name in home.split()]
    assert len(names) == len(set(names)) > 100


@pytest.mark.parametrize("name", treadle.__all__)
def test_every_name_is_the_one_in_its_home(name: str) -> None:
    (home,) = [home for home, names in _HOMES.items() if name in names.split()]
    assert getattr(treadle, name) is getattr(import_module(home), name)


def test_public_names_are_listed() -> None:
    assert set(treadle.__all__) <= set(dir(treadle))
    assert treadle.__all__ == sorted(treadle.__all__)
    assert dir(treadle) == sorted(set(dir(treadle)))


def test_every_public_error_and_message_is_public_here() -> None:
    """What plugin authors need of the contract, they import from the root."""
    for home in ("treadle.errors", "treadle.contracts.step", "treadle.contracts.offers"):
        public = {name for name in import_module(home).__all__ if name[0].isupper()}
        assert public - set(treadle.__all__) <= {"LayerScope", "Role"}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'treadle' has no attribute 'Stepp'$"):
        treadle.Stepp  # noqa: B018
    with pytest.raises(ImportError, match=r"cannot import name 'Stepp' from 'treadle'"):
        exec("from treadle import Stepp")  # noqa: S102 - a statement that must fail when it runs
    assert not hasattr(treadle, "__path_that_is_not_there__")


def test_the_package_says_that_it_is_typed() -> None:
    assert ROOT.with_name("py.typed").is_file()


def test_a_typed_program_is_accepted_and_a_wrong_one_refused() -> None:
    """mypy --strict, as users run it: what they see is typed, and mistakes are found."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", "--config-file=",
         "--cache-dir", str(TYPED.parents[2] / ".mypy_cache" / "typing"), "right_program.py", "wrong_program.py"],
        cwd=TYPED, capture_output=True, text=True, timeout=300,
        env={**os.environ, "MYPYPATH": str(ROOT.parents[1])},
    )  # fmt: skip
    expected = {
        f"wrong_program.py:{number}: [{code}]"
        for number, line in enumerate((TYPED / "wrong_program.py").read_text(encoding="utf-8").splitlines(), 1)
        for code in line.partition("# error: ")[2].split()
    }
    found = set()
    for line in done.stdout.splitlines():
        # Of the kernel itself mypy says nothing once it is installed; here it is read as if it were the user's.
        if ": error: " in line and line.startswith(("right_program", "wrong_program")):
            place, _, message = line.partition(": error: ")
            found.add(f"{place}: [{message.rpartition('[')[2].removesuffix(']')}]")
    assert found == expected, done.stdout + done.stderr
