"""The support desk of the examples, offline: two agents, a typed reply, constraints, a router on the reply."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.command import ROOT, statuses, treadle


async def test_the_desk_reads_asks_and_answers_in_its_shape() -> None:
    done = await treadle("run", "examples/support.yaml", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert statuses(result) == {"answer": "success", "is_refund": "success", "book": "success", "close": "skipped"}
    assert result["final_state"]["reply"] == {"answer": "The second charge goes back to your card.", "refund": True}
    answer = result["step_results"]["answer"]
    assert json.loads(answer["output"]) == result["final_state"]["reply"]
    assert result["final_state"]["chat"]["messages"] == [
        {"role": "user", "content": "You charged me twice on the 3rd. Can I have it back?"},
        {
            "role": "assistant",
            "content": '{"answer": "The second charge goes back to your card.", "refund": true}',
            "name": "support_desk",
        },
    ]
    assert (answer["attempts"], answer["cost_usd"], answer["finish_reason"]) == (1, 0.0, "tool_calls")


async def test_a_reply_that_breaks_a_rule_writes_nothing(tmp_path: Path) -> None:
    replies = json.loads((ROOT / "examples/agents/replies.json").read_text(encoding="utf-8"))
    replies["answer"][2]["tool_calls"][0]["arguments"]["answer"] = "As an AI Language Model I cannot say."
    (tmp_path / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    text = (ROOT / "examples/support.yaml").read_text(encoding="utf-8")
    flow = tmp_path / "flow.yaml"
    flow.write_text(text.replace("examples/agents/replies.json", str(tmp_path / "replies.json")), encoding="utf-8")
    done = await treadle("run", str(flow), "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["step_results"]["answer"]["error"] == (
        "agent 'support_desk': the reply contains 'as an AI language model', which is forbidden"
    )
    assert "reply" not in result["final_state"]


async def test_the_default_of_the_shape_is_filled_in_and_the_router_takes_the_other_way(tmp_path: Path) -> None:
    replies = json.loads((ROOT / "examples/agents/replies.json").read_text(encoding="utf-8"))
    del replies["answer"][2]["tool_calls"][0]["arguments"]["refund"]
    (tmp_path / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    text = (ROOT / "examples/support.yaml").read_text(encoding="utf-8")
    flow = tmp_path / "flow.yaml"
    flow.write_text(text.replace("examples/agents/replies.json", str(tmp_path / "replies.json")), encoding="utf-8")
    done = await treadle("run", str(flow), "--json")
    result = json.loads(done.stdout)
    assert result["final_state"]["reply"]["refund"] is False
    assert statuses(result)["book"] == "skipped"
