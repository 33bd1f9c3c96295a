"""The memory keeps the contract, and conversations across runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treadle_llm_call.plugin
from acme_chat_files import plugin
from acme_chat_files.checks import contract_checks
from acme_chat_files.memory import FOLDER
from treadle.testing import check_plugin, offering, run_workflow, scripted

CHECKS = contract_checks()
FILE = FOLDER / "chat.json"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_the_plugin_keeps_the_contract() -> None:
    await check_plugin("acme_chat_files.plugin", offers={"memory": ["acme_chat_files"]})


@pytest.mark.parametrize("name", CHECKS)
async def test_what_it_offers_keeps_the_contract(name: str) -> None:
    await CHECKS[name]()


async def run(provider: Any, prompt: str) -> Any:
    plugins = {
        "acme_chat_files": plugin,
        "llm_call": treadle_llm_call.plugin,
        "double": offering({"provider": {"scripted": provider}}),
    }
    step = {"id": "ask", "type": "llm_call", "conversation": "state.chat", "prompt": prompt}
    return await run_workflow({"name": "t", "config": {"provider": "scripted"}, "steps": [step]}, plugins=plugins)


async def test_the_next_run_goes_on_with_it() -> None:
    first = await run(scripted("Hi Ada."), "I am Ada.")
    assert first.final_state == {}
    provider = scripted("Ada.")
    await run(provider, "Who am I?")
    assert [each.text for each in provider.requests[0].messages] == ["I am Ada.", "Hi Ada.", "Who am I?"]
    assert [path.name for path in FOLDER.iterdir()] == ["chat.json"]


async def test_a_broken_file_is_told_and_stays() -> None:
    FOLDER.mkdir()
    FILE.write_text("[{}]")
    provider = scripted("never")
    result = await run(provider, "Hello")
    assert "chat.json holds no conversation" in result.step_results["ask"].error
    assert provider.requests == []
    assert FILE.read_text() == "[{}]"
