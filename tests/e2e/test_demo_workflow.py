"""The demo workflow on every provider there is, from the command line, with the real SDK where there is one."""

from __future__ import annotations

import json

import pytest

from e2e.command import statuses, treadle
from wire.http_server import Json, Recorded, Reply
from wire.openai_server import OpenAIServer, Stream, completion, text_chunks

DEMO = "examples/demo.yaml"

BILLING = {
    "classify": "success",
    "route": "success",
    "billing_policy": "success",
    "technical_policy": "skipped",
    "reply": "success",
}


async def test_the_demo_runs_on_the_mock() -> None:
    done = await treadle("run", DEMO, "-p", "mock", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "success"
    assert statuses(result) == BILLING, "the made-up reply takes the first value of the schema's enum"
    assert result["final_state"]["ticket"] == {"topic": "billing"}
    assert result["total_cost_usd"] == 0


class _Desk(OpenAIServer):
    """Classifies by word, and answers anything else with a sentence; streamed where a stream is asked for."""

    def default_reply(self, request: Recorded) -> Reply:
        body = request.json
        asked = body["messages"][-1]["content"]
        is_shape = "response_format" in body
        topic = "billing" if "charged" in asked else "technical"
        text = json.dumps({"topic": topic}) if is_shape else "We refund you. Sorry."
        if body.get("stream"):
            return Stream(text_chunks(*(text[at : at + 4] for at in range(0, len(text), 4))))
        return Json(completion(text))


@pytest.mark.parametrize("flags", [(), ("--stream", "--json")])
async def test_the_demo_runs_on_the_real_openai_sdk_plain_and_streamed(flags: tuple[str, ...]) -> None:
    async with _Desk.open() as server:
        done = await treadle(
            "run", DEMO, "-p", "openai", "--json", *flags, OPENAI_API_KEY="sk-test", OPENAI_BASE_URL=f"{server.url}/v1"
        )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert statuses(result) == BILLING
    assert result["final_state"]["reply"] == "We refund you. Sorry."
    assert [bool(each.json.get("stream")) for each in server.requests] == [bool(flags)] * 2
    first = server.requests[0].json
    assert first["response_format"]["type"] == "json_schema"
    assert first["response_format"]["json_schema"]["schema"]["properties"]["topic"]["enum"] == ["billing", "technical"]
    assert result["total_cost_usd"] is None, "no price source is installed: the cost is unknown, not zero"
    assert result["total_tokens"] is not None


async def test_text_of_a_streamed_run_is_printed_as_it_comes() -> None:
    async with _Desk.open() as server:
        done = await treadle(
            "run", DEMO, "-p", "openai", "--stream", OPENAI_API_KEY="sk-test", OPENAI_BASE_URL=f"{server.url}/v1"
        )
    assert done.returncode == 0, done.stderr
    assert "We refund you. Sorry." in done.stdout


async def test_the_same_file_takes_the_other_branch_for_another_message() -> None:
    async with _Desk.open() as server:
        arguments = ("run", DEMO, "-p", "generic_openai", "-m", "any", "--json", "-s", "message=The app crashes")
        done = await treadle(*arguments, GENERIC_OPENAI_BASE_URL=server.url)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert statuses(result)["technical_policy"] == "success"
    assert statuses(result)["billing_policy"] == "skipped"
    assert "reinstalling" in result["final_state"]["policy"]


async def test_a_missing_key_is_named_before_any_request() -> None:
    done = await treadle("run", DEMO, "-p", "openai", "--json")
    assert done.returncode != 0
    assert "OPENAI_API_KEY" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.local_model
async def test_the_demo_runs_on_the_real_local_model() -> None:
    done = await treadle("run", DEMO, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "success"
    assert result["final_state"]["ticket"]["topic"] in ("billing", "technical")
    chosen = {step_id for step_id in ("billing_policy", "technical_policy") if statuses(result)[step_id] == "success"}
    assert len(chosen) == 1
    assert result["final_state"]["reply"].strip()
    assert result["step_results"]["reply"]["provider"] == "local"
    assert result["total_cost_usd"] == 0
    assert result["total_tokens"] > 0
