"""Agents on every provider's wire: the support desk of the examples, and text as it is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import treadle
from providers.vendors import EVERY, Call, Vendor
from treadle.contracts.events import TextEmitted
from workspace import ROOT

POLICY = ROOT / "examples" / "data" / "billing_policy.txt"
ANSWER = {"answer": "The second charge goes back to your card.", "refund": True}


@pytest.fixture(autouse=True)
def _among_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)


def support_desk(vendor: Vendor) -> treadle.Workflow:
    """The example, with this provider in place of the mock."""
    flow = yaml.safe_load(Path("examples/support.yaml").read_text(encoding="utf-8"))
    return treadle.build_workflow({**flow, "config": {"provider": vendor.provider, "model": vendor.model}})


def lead(vendor: Vendor, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in vendor.environment(url).items():
        monkeypatch.setenv(name, value)


@EVERY
async def test_the_support_desk_reads_asks_answers_in_its_shape_and_remembers(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Call("file_read", json.dumps({"path": "examples/data/billing_policy.txt"}), "c1")
    ask = Call("ask_refunds", '{"message": "charged twice on the 3rd"}', "c2")
    incomplete = Call("final_result", '{"refund": true}', "c3")
    async with vendor.server.open() as server:
        server.reply(
            vendor.reply(False, calls=[read, ask]),
            vendor.reply(False, "Yes: it is refunded within ten days."),
            vendor.reply(False, calls=[incomplete]),
            vendor.reply(False, calls=[Call("final_result", json.dumps(ANSWER), "c4")]),
        )
        lead(vendor, server.url, monkeypatch)
        result = await treadle.run(support_desk(vendor))
        bodies = [json.dumps(each) for each in server.bodies()]
    assert result.status == "success", result.error
    assert result.final_state["reply"] == ANSWER
    assert {name: each.status for name, each in result.step_results.items()} == {
        "answer": "success",
        "is_refund": "success",
        "book": "success",
        "close": "skipped",
    }
    assert [each["role"] for each in result.final_state["chat"]["messages"]] == ["user", "assistant"]
    first, refunds, third, fourth = bodies
    assert "You answer billing questions for ACME" in first
    assert all(name in first for name in ("file_read", "ask_refunds", "final_result"))
    assert "A colleague asks: charged twice on the 3rd" in refunds
    assert "final_result" not in refunds, "the other agent has its own tools alone"
    policy = json.dumps(POLICY.read_text(encoding="utf-8").splitlines()[0])[1:-1]
    assert third.index(policy) < third.index("refunded within ten days")
    assert "'answer' is a required property" in fourth
    assert result.total_tokens == 4 * (16 if vendor.name == "openai responses" else 12)


AGENT: dict[str, Any] = {"name": "talker", "system_prompt": "Be brief."}


@pytest.mark.parametrize("is_checked", [False, True], ids=["unchecked", "checked"])
@EVERY
async def test_the_text_of_an_agent_streams_unless_it_is_to_be_checked_first(
    vendor: Vendor, is_checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = {**AGENT, "constraints": {"forbidden_patterns": ["secret"]}} if is_checked else AGENT
    step = {"id": "talk", "type": "agent", "agent": agent, "prompt": "Hello", "output": "said"}
    config = {"provider": vendor.provider, "model": vendor.model, "stream": True}
    workflow = treadle.build_workflow({"name": "talk", "config": config, "steps": [step]})
    pieces: list[str] = []

    def listen(event: Any) -> None:
        if isinstance(event, TextEmitted):
            pieces.append(event.text)

    async with vendor.server.open() as server:
        server.reply(vendor.reply(not is_checked, "Good morning to you"))
        lead(vendor, server.url, monkeypatch)
        async with treadle.open() as session:
            result = await session.run(workflow, on_event=listen)
        streamed = "stream" in server.last.path.lower() or bool((server.last.json or {}).get("stream"))
    assert result.status == "success", result.error
    assert result.final_state["said"] == "Good morning to you"
    assert streamed is not is_checked
    assert "".join(pieces) == "Good morning to you", "checked text is emitted too, in one piece"
    assert is_checked == (len(pieces) == 1)
