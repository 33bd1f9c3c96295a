"""Gates and the callback server, by AgentLoom's names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from e2e.command import treadle
from wire.http_server import Json, WireServer

FLOW = """\
name: release
config:
  sandbox: {{allow_internal_webhook_targets: true}}
state: {{who: "O'Brien \\"Bob\\""}}
steps:
  - id: review
    type: approval_gate
    output: decision
    timeout_seconds: {seconds}
    on_timeout: approve
    notify:
      url: {url}
      headers: {{X-Team: "for {{state.who}}"}}
      timeout: 5
      body_template: '{{"text": "{{state.who}}: {{workflow_name}} waits at {{step_id}} of {{run_id}}"}}'
"""


async def paused(folder: Path, url: str, seconds: float = 60) -> str:
    (folder / "flow.yaml").write_text(FLOW.format(url=url, seconds=seconds), encoding="utf-8")
    done = await treadle("run", "flow.yaml", "--checkpoint", "--checkpoint-dir", "kept", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["status"], result["step_results"]["review"]["status"]) == ("paused", "paused")
    return str(result["run_id"])


@pytest.mark.parametrize(
    ("flag", "decision"), [("--approve", "approved"), ("--reject", "rejected"), (None, "approved")]
)
async def test_a_gate_tells_waits_and_goes_on_as_it_is_answered(
    tmp_path: Path, flag: str | None, decision: str
) -> None:
    async with WireServer.open() as receiver:
        receiver.reply(Json({}))
        run_id = await paused(tmp_path, receiver.url, 60 if flag else 0.01)
        text = f'O\'Brien "Bob": release waits at review of {run_id}'
        assert receiver.bodies() == [{"text": text}]
        assert receiver.last.headers["x-team"] == 'for O\'Brien "Bob"'
        flags = [flag] if flag else []
        done = await treadle("resume", run_id, *flags, "--checkpoint-dir", "kept", "--json", cwd=tmp_path)
        assert len(receiver.requests) == 1
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"], result["final_state"]["decision"]) == (0, "success", decision)
    assert result["step_results"]["review"]["output"] == decision
    if flag is None:
        assert result["warnings"][0]["message"] == "nobody answered within 0.01 s, so the answer is 'approved'"


async def test_the_callback_server_has_agentlooms_routes(tmp_path: Path) -> None:
    async with WireServer.open() as receiver:
        receiver.reply(Json({}), Json({}))
        run_id, other = await paused(tmp_path, receiver.url), await paused(tmp_path, receiver.url)
    command = [sys.executable, "-m", "treadle_cli", "callback-server", "--host", "127.0.0.1", "--port", "0"]
    options = ["--checkpoint-dir", "kept", "--token", "env:GATE_TOKEN"]
    env = {**os.environ, "GATE_TOKEN": "s3cret", "PYTHONUNBUFFERED": "1"}
    process = await trio.lowlevel.open_process([*command, *options], cwd=tmp_path, env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        said = bytearray()
        with trio.fail_after(60):
            while b"\n" not in said:
                said += await process.stdout.receive_some()
        url = said.decode().split()[-1]
        headers = {"X-Treadle-Token": "s3cret"}
        async with httpx2.AsyncClient(trust_env=False, base_url=url, headers=headers) as client:

            async def post(path: str, content: Any = None) -> int:
                return (await client.post(path, content=content)).status_code

            listed = (await client.get("/pending")).json()["paused_runs"]
            assert {each["run_id"] for each in listed} == {run_id, other}
            wanted = {"run_id", "workflow_name", "paused_step_id", "updated_at"}
            assert all(wanted <= each.keys() for each in listed)
            assert [await post(f"/approve/{run_id}"), await post(f"/reject/{other}")] == [202, 202]
            assert [await post("/approve/nobody"), await post("/approve/..%2f")] == [404, 400]
            assert await post(f"/approve/{run_id}") == 409
            assert [
                await post("/webhook", b'{"a": 1}'),
                await post("/webhook", b"[]"),
                await post("/webhook", b"x"),
            ] == [
                200,
                400,
                400,
            ]
            assert (await client.get("/else")).status_code == 404
            assert (await client.get("/pending", headers={"X-Treadle-Token": "x"})).status_code == 401
        with trio.fail_after(60):
            for run, decision in ((run_id, "approved"), (other, "rejected")):
                while True:
                    shown = await treadle("show", run, "--checkpoint-dir", "kept", "--json", cwd=tmp_path)
                    result = json.loads(shown.stdout)
                    if result["status"] == "success":
                        break
                assert result["final_state"]["decision"] == decision
    finally:
        process.kill()
        await process.wait()
        await process.stdout.aclose()
