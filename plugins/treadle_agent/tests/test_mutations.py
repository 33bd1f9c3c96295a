"""Every key of the example agents misspelt: told at its line in the agent's own file, with the name that was meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import treadle
from treadle import DocumentError, Problem
from treadle_agent.definition import AgentDefinition

AGENTS = Path(__file__).resolve().parents[3] / "examples" / "agents"
KEY = re.compile(r"^(?P<indent> *(?:- (?:\{)?)?)(?P<key>[a-z_]+):", re.MULTILINE)
FREE = ("properties", "answer", "refund")
"""Below a JSON Schema, where any name may stand."""

CASES = [
    (file, found.start("key"), found["key"])
    for file in sorted(AGENTS.glob("*.yaml"))
    for found in KEY.finditer(file.read_text(encoding="utf-8"))
    if found["key"] not in FREE and len(found["indent"]) < 4
]


def problems_of(text: str, folder: Path) -> list[Problem]:
    (folder / "agent.yaml").write_text(text, encoding="utf-8")
    try:
        treadle.read_document(str(folder / "agent.yaml"), AgentDefinition)
    except DocumentError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize("file", sorted(AGENTS.glob("*.yaml")), ids=lambda file: file.name)
def test_the_example_agents_are_right(file: Path, tmp_path: Path) -> None:
    assert problems_of(file.read_text(encoding="utf-8"), tmp_path) == []


@pytest.mark.parametrize(("file", "start", "key"), CASES, ids=lambda each: getattr(each, "name", str(each)))
def test_a_misspelt_key(file: Path, start: int, key: str, tmp_path: Path) -> None:
    text = file.read_text(encoding="utf-8")
    wrong = f"{key[:-1]}x{key[-1:]}"
    found = problems_of(text[:start] + wrong + text[start + len(key) :], tmp_path)
    line = text.count("\n", 0, start) + 1
    unknown = [each for each in found if each.code == "unknown-field"]
    assert [(each.line, each.hint) for each in unknown] == [(line, f"did you mean '{key}'?")]


def test_there_are_keys_to_misspell() -> None:
    assert len(CASES) > 12
