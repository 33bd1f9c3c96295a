"""What each command imports, seen from a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

HEAVY = ["trio", "rich", "asyncio", "structlog", "httpx2", "openai", "xllamacpp"]

SCRIPT = """
import json, sys
from treadle_cli.main import treadle_command
try:
    treadle_command.main(sys.argv[2:], prog_name="treadle")
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps([name for name in json.loads(sys.argv[1]) if name in sys.modules]), file=sys.stderr)
"""


def imported(program: Any, names: list[str], *args: str, stranger: bool = False) -> list[str]:
    """Which of the names are imported; without the stranger's plugin, which imports what it likes."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(names), *args],
        cwd=program.folder,
        env=program.environment({} if stranger else {"PYTHONPATH": ""}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: list[str] = json.loads(ended.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize("args", [("--help",), ("--version",), ("run", "--help"), ("validate", "--help")])
def test_help_and_version_import_next_to_nothing(program: Any, args: tuple[str, ...]) -> None:
    assert imported(program, [*HEAVY, "pydantic", "yaml", "pluggy", "stevedore"], *args) == []


@pytest.mark.parametrize("provider", ["openai", "local", "mock"])
def test_validate_imports_neither_engine_nor_rich_nor_what_a_provider_needs_to_run(program: Any, provider: str) -> None:
    document = f"name: x\nconfig: {{provider: {provider}}}\nsteps:\n- {{id: a, type: llm_call, prompt: hi}}\n"
    file = program.write("flow.yaml", document)
    module = f"treadle_{'replay' if provider == 'mock' else provider}.provider"
    assert imported(program, [*HEAVY, "treadle._engine", module], "validate", file) == [module]


def test_validate_imports_nothing_that_the_document_does_not_ask_for(program: Any) -> None:
    """No other command, no expressions, no loop, no replies, no tools in Python, no close matches."""
    file = program.write(
        "flow.yaml", "name: x\nconfig: {provider: mock}\nsteps: [{id: a, type: llm_call, prompt: hi}]\n"
    )
    others = ["run", "batch", "init", "info", "plugins", "resume", "recorded", "schema"]
    names = [f"treadle_cli.{each}" for each in others]
    names += ["treadle._language.compiler", "treadle._document.deployment", "treadle.tools", "treadle.contracts.events"]
    names += ["treadle_llm_call.calling", "treadle_loop.loop", "treadle_loop.opening", "treadle_loop.shapes"]
    names += ["treadle_replay.responses", "treadle_cli.rights"]
    assert imported(program, [*names, "difflib", "multiprocessing"], "validate", file) == []


def test_a_run_imports_no_view_and_none_of_the_commands_beside_it(program: Any) -> None:
    file = program.write(
        "flow.yaml", "name: x\nconfig: {provider: mock}\nsteps: [{id: a, type: llm_call, prompt: hi}]\n"
    )
    names = ["treadle_cli.batch", "treadle_cli.recorded", "treadle_cli.progress", "treadle_replay.responses"]
    assert imported(program, [*names, "treadle._docstrings", "multiprocessing"], "run", file) == []


def test_plugins_imports_nothing_that_is_offered(program: Any) -> None:
    names = [*HEAVY, "treadle._engine", "treadle_openai.provider", "treadle_llm_call.step"]
    assert imported(program, names, "plugins") == []


def test_a_run_without_a_terminal_imports_no_rich_and_no_provider(program: Any) -> None:
    file = program.write("flow.yaml", "name: x\nsteps:\n- {id: a, type: nap}\n")
    assert (
        imported(program, ["rich", "treadle_cli.live", "httpx2", "openai", "xllamacpp"], "run", file, stranger=True)
        == []
    )
