"""The tables of an agent's fields have all of them."""

from __future__ import annotations

import re

import pytest

from treadle_agent.definition import AgentDefinition, Constraints, LoopPolicy, MemorySettings
from workspace import ROOT


@pytest.mark.parametrize("page", ["docs/agents.md", "plugins/treadle_agent/README.md"])
def test_the_page_names_every_field_in_its_table(page: str) -> None:
    rows = [line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    named = {word for row in rows for code in re.findall(r"`([^`]+)`", row) for word in re.findall(r"\w+", code)}
    for model in (AgentDefinition, Constraints, LoopPolicy, MemorySettings):
        assert model.model_fields.keys() - named == set()
