"""What importing costs: each part of the package loads what it needs and nothing more."""

import subprocess
import sys

import pytest

HEAVY = ("pydantic", "trio", "yaml", "stevedore", "structlog", "click", "httpx2", "httpx", "openai", "asyncio", "rich")


def loaded_by(program: str) -> list[str]:
    """Which heavy modules a fresh interpreter has after running the program."""
    program += f"\nimport sys\nprint(*[each for each in {HEAVY!r} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import treadle", []),
        ("import treadle; dir(treadle); treadle.__all__", []),
        # The light modules of plugins.
        ("from treadle import hookimpl, Offer, ProviderOffer, LayerOffer, ConfigOffer, CONTRACT_VERSION", []),
        ("from treadle import TreadleError, Problem", []),
        (
            "from treadle import UserMessage, TextPart, ModelRequest, Usage; Usage() + Usage.ZERO; UserMessage.of('x')",
            [],
        ),
        ("from treadle import SecretRef, RunResult, Journal, Tool, Observer, RunEvent", []),
        ("from treadle import Template, Expression, StatePath; Template.compile('{state.x}')", []),
        # Finding and listing plugins.
        ("from treadle import Host; Host.of({})", ["stevedore"]),
        # Checking documents: no event loop.
        ("from treadle import Step, RunConfig, Provider", ["pydantic"]),
        (
            "from treadle import load_workflow, parse_workflow, build_workflow, Workflow",
            ["pydantic", "yaml", "stevedore"],
        ),
        (
            (
                "import pathlib, tempfile, treadle\n"
                "file = pathlib.Path(tempfile.mkdtemp(), 'f.yaml')\n"
                "file.write_text('name: x\\nsteps: [{id: a, type: b}]', encoding='utf-8')\n"
                "try: treadle.load_workflow(file, host=treadle.Host.of({}))\n"
                "except treadle.DocumentError: pass"
            ),
            ["pydantic", "yaml", "stevedore"],
        ),
    ],
)
def test_what_is_loaded(program: str, expected: list[str]) -> None:
    assert sorted(loaded_by(program)) == sorted(expected)


def test_running_loads_the_loop_and_neither_client_nor_command_line() -> None:
    found = loaded_by("from treadle import Session, open; import treadle._engine.run")
    assert "trio" in found
    assert not {"click", "httpx2", "httpx", "openai", "rich", "asyncio"} & set(found)
