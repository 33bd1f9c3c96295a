"""Runs that wait for people, as a user meets them: other processes answer, servers are killed, commands are wrong."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from e2e.command import treadle
from wire.http_server import Json
from wire.openai_server import OpenAIServer, call, completion

FLOW = """\
name: letter
steps:
  - {id: review, type: approval_gate, question: "Send it?", output: decision}
  - {id: size, type: approval_gate, choices: [small, large], output: size}
  - {id: note, type: approval_gate, choices: [], question: "Any note?", output: note}
  - id: route
    type: router
    depends_on: [review]
    conditions: [{expression: "state.decision == 'approved'", target: send}]
    default: drop
  - {id: send, type: tool, depends_on: [route], tool_name: file_write, tool_args: {path: sent.txt, content: x}}
  - {id: drop, type: tool, depends_on: [route], tool_name: file_write, tool_args: {path: dropped.txt, content: x}}
"""
SLOW = """\
name: slow
steps:
  - {id: review, type: approval_gate, output: decision}
  - {id: work, type: tool, depends_on: [review], tool_name: wait, tool_args: {}, output: worked}
"""
TOOLS = """\
import time
from pathlib import Path

import treadle


@treadle.tool(effect="pure")
def wait() -> str:
    "Wait until the file `open` is there."
    Path("begun").touch()
    while not Path("open").exists():
        time.sleep(0.01)
    return "worked"
"""


async def begun(folder: Path, flow: str = FLOW, *options: str) -> tuple[str, str]:
    """A paused run: its id, and what was said of it."""
    (folder / "flow.yaml").write_text(flow, encoding="utf-8")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    done = await treadle("run", "flow.yaml", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr.rsplit("run ", 1)[1].strip(), done.stderr


async def test_each_command_that_a_paused_run_prints_answers_one_gate_in_a_process_of_its_own(tmp_path):
    run_id, said = await begun(tmp_path)
    commands = [line.strip() for line in said.splitlines() if line.startswith("    treadle")]
    assert commands == [
        f"treadle resume {run_id} --approve review",
        f"treadle resume {run_id} --reject review",
        f"treadle resume {run_id} --answer size=small",
        f"treadle resume {run_id} --answer size=large",
        f"treadle resume {run_id} --answer note=...",
    ]
    shown = await treadle("show", run_id, cwd=tmp_path)
    assert "      waits at gate size: What is the answer to 'size'? (small, large)\n" in shown.stdout
    assert f"\ntreadle resume {run_id} says how that is answered\n" in shown.stdout
    again = await treadle("resume", run_id, cwd=tmp_path)
    assert [line.strip() for line in again.stderr.splitlines() if line.startswith("    treadle")] == commands
    for command in (commands[3], commands[4], commands[1]):
        done = await treadle(*shlex.split(command)[1:], "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "success"
    found = {name: result["final_state"][name] for name in ("decision", "size", "note")}
    assert found == {"decision": "rejected", "size": "large", "note": "..."}
    assert (tmp_path / "dropped.txt").exists()
    assert not (tmp_path / "sent.txt").exists()
    shown = await treadle("show", run_id, cwd=tmp_path)
    assert "size: answered 'large'" in shown.stdout


async def test_agentlooms_own_spelling_answers_the_only_gate(tmp_path):
    run_id, _ = await begun(tmp_path, SLOW, "--tools", "tools.py")
    (tmp_path / "open").touch()
    done = await treadle("resume", "--approve", run_id, "--tools", "tools.py", cwd=tmp_path)
    assert (done.returncode, "worked: worked" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--approve"], "error: run RUN waits at several gates: "),
        (["--approve", "revew"], "error: run RUN has no gate 'revew'; did you mean 'review'?"),
        (["--approve", "size"], "error: run RUN: gate 'size' is answered with one of small, large; not 'approved'"),
        (["--answer", "size=huge"], "error: run RUN: gate 'size' is answered with one of small, large; not 'huge'"),
        (["--answer", "size"], "error: --answer size: must be GATE=VALUE"),
        (["--approve", "review", "--reject", "review"], "error: gate 'review' is answered both"),
    ],
)
async def test_a_wrong_answer_is_told_and_nothing_goes_on(tmp_path, options, message):
    run_id, _ = await begun(tmp_path)
    done = await treadle("resume", run_id, *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message.replace("RUN", run_id))


async def test_a_run_that_is_not_recorded_says_that_nobody_can_answer_it(tmp_path):
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    done = await treadle("run", "flow.yaml", "--no-journal", cwd=tmp_path)
    warning, *_ = done.stderr.splitlines()
    assert warning == "warning: step 'review' may wait for an answer, which nobody can give: no journal is kept"
    assert "error: the run is not recorded, so nobody can answer it; begin it again with a journal" in done.stderr
    assert "treadle resume" not in done.stderr
    assert (done.returncode, done.stderr.splitlines()[-1].endswith(", not recorded")) == (1, True)


async def test_a_gate_of_a_workflow_below_is_told_before_a_run_that_is_not_recorded(tmp_path):
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    outer = "name: outer\nsteps: [{id: sub, type: subworkflow, workflow_path: flow.yaml}]\n"
    (tmp_path / "outer.yaml").write_text(outer, encoding="utf-8")
    done = await treadle("run", "outer.yaml", "--no-journal", cwd=tmp_path)
    assert "warning: step 'sub.review' may wait for an answer" in done.stderr
    assert done.returncode == 1


async def test_a_replay_ends_at_a_gate_and_has_not_failed(tmp_path):
    run_id, _ = await begun(tmp_path)
    done = await treadle("replay", "flow.yaml", "--recording", run_id, cwd=tmp_path)
    assert (done.returncode, "a replay ends here, as nobody can answer it" in done.stderr) == (0, True), done.stderr


async def test_a_tool_call_of_an_agent_is_allowed_in_another_process_and_no_model_call_is_repeated(tmp_path):
    flow = """\
name: agent
config: {provider: openai, model: gpt-4o-mini}
steps:
  - {id: work, type: agent, agent: desk.yaml, prompt: "Go", output: done}
"""
    desk = "name: desk\nsystem_prompt: Do it.\ntools: [file_write]\napprove: [file_write]\n"
    (tmp_path / "desk.yaml").write_text(desk, encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(flow, encoding="utf-8")
    async with OpenAIServer.open() as server:
        env = {"OPENAI_API_KEY": "sk-local", "OPENAI_BASE_URL": server.api}
        asked = call("file_write", '{"path": "a.txt", "content": "hello"}')
        server.reply(Json(completion(None, tool_calls=[asked])), Json(completion("written")))
        done = await treadle("run", "flow.yaml", cwd=tmp_path, **env)
        assert "may agent 'desk' call 'file_write' with" in done.stderr
        assert '"path": "a.txt"' in done.stderr
        run_id = done.stderr.rsplit("run ", 1)[1].strip()
        assert f"treadle resume {run_id} --approve work:file_write-1" in done.stderr
        assert not (tmp_path / "a.txt").exists()
        done = await treadle("resume", run_id, "--approve", "work:file_write-1", cwd=tmp_path, **env)
        assert (done.returncode, done.stdout) == (0, "done: written\n"), done.stderr
        assert len(server.bodies()) == 2
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "hello"


async def test_replies_by_hand_go_on_where_the_process_before_stopped(tmp_path):
    """And a fork, which runs the step anew, begins with the first one again."""
    asked = {"tool_calls": [{"id": "c1", "name": "weather", "arguments": {"city": "Ulm"}}]}
    files = {"tools.py": WEATHER, "desk.yaml": DESK, "replies.json": json.dumps({"ask": [asked, "Done."]})}
    files["flow.yaml"] = ASK.replace(
        "{provider: openai, model: gpt-4o-mini}", "{provider: mock, responses_file: replies.json}"
    )
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paused = await treadle("run", "flow.yaml", "--tools", "tools.py", cwd=tmp_path)
    assert "waiting: step 'ask': may agent 'desk' call 'weather' with" in paused.stderr
    run_id = paused.stderr.rsplit("run ", 1)[1].strip()
    done = await treadle("resume", run_id, "--approve", "--tools", "tools.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done: Done.\n"), done.stderr
    forked = await treadle("fork", run_id, "--at", "ask", "--tools", "tools.py", cwd=tmp_path)
    assert "waiting: step 'ask': may agent 'desk' call 'weather' with" in forked.stderr


WEATHER = """\
import treadle


@treadle.tool(effect="once")
def weather(city: str) -> str:
    "The weather of a city."
    return f"sun in {city}"
"""
ASK = """\
name: ask
config: {provider: openai, model: gpt-4o-mini}
steps:
  - {id: ask, type: agent, agent: desk.yaml, prompt: "Go", output: done}
"""
DESK = "name: desk\nsystem_prompt: Do it.\ntools: [weather]\napprove: [weather]\n"
MISSING = "this run had tool 'weather', which is not registered now; "


async def test_a_run_does_not_go_on_without_its_tools_and_no_answer_or_money_is_lost(tmp_path):
    for name, text in {"flow.yaml": ASK, "desk.yaml": DESK, "weather.py": WEATHER, "tools.py": TOOLS}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    async with OpenAIServer.open() as server:
        env = {"OPENAI_API_KEY": "sk-local", "OPENAI_BASE_URL": server.api}
        asked = completion(None, tool_calls=[call("weather", '{"city": "Ulm"}')])
        server.reply(Json(asked), Json(completion("fine")), Json(asked))
        how = ("--tools", "weather.py")
        done = await treadle("run", "flow.yaml", *how, cwd=tmp_path, **env)
        run_id = done.stderr.rsplit("run ", 1)[1].strip()
        for command in (("resume", run_id, "--approve"), ("fork", run_id, "--at", "ask")):
            refused = await treadle(*command, cwd=tmp_path, **env)
            assert (refused.returncode, refused.stdout) == (2, "")
            hint = "give it with --tools FILE, or go on without it by --accept-changes"
            assert MISSING + hint in refused.stderr.replace("\n", " ")
        async with serving(tmp_path) as elsewhere:
            async with httpx2.AsyncClient(trust_env=False) as client:
                told = await client.post(f"{elsewhere.url}/approve/{run_id}")
            hint = f"start the server with --tools FILE, or treadle resume {run_id} --tools FILE"
            assert (told.status_code, told.json()["error"]) == (409, f"run {run_id}: {MISSING}{hint}")
        done = await treadle("resume", run_id, "--approve", *how, cwd=tmp_path, **env)
        assert (done.returncode, done.stdout) == (0, "done: fine\n"), done.stderr
        assert len(server.bodies()) == 2

        done = await treadle("run", "flow.yaml", *how, "--json", cwd=tmp_path, **env)
        run = json.loads(done.stdout)
        accepted = await treadle(
            "resume", run["run_id"], "--approve", "--accept-changes", "--json", cwd=tmp_path, **env
        )
        failed = json.loads(accepted.stdout)
        assert (failed["status"], failed["total_tokens"]) == ("failed", run["total_tokens"])
        assert run["total_tokens"] > 0
        assert len(server.bodies()) == 3


# --- serve ---


class Serving:
    """A server in a process of its own."""

    def __init__(self, process: trio.Process, url: str) -> None:
        self.process, self.url = process, url

    async def post(self, path: str) -> int:
        async with httpx2.AsyncClient(trust_env=False) as client:
            return (await client.post(f"{self.url}{path}")).status_code

    async def pending(self) -> Any:
        async with httpx2.AsyncClient(trust_env=False) as client:
            return (await client.get(f"{self.url}/pending")).json()["paused_runs"]

    async def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        with trio.fail_after(30):
            return await self.process.wait()


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Serving]:
    command = [sys.executable, "-m", "treadle_cli", "serve", "--port", "0", "--tools", "tools.py"]
    process = await trio.lowlevel.open_process(
        command, cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        said = bytearray()
        with trio.fail_after(60):
            while b"\n" not in said:
                said += await process.stdout.receive_some()
        yield Serving(process, said.decode().split()[-1])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await process.stdout.aclose()


async def until_there(file: Path) -> None:
    with trio.fail_after(30):
        while not await trio.Path(file).exists():  # noqa: ASYNC110 - another process makes it
            await trio.sleep(0.02)


async def until_success(folder: Path, run_id: str) -> None:
    with trio.fail_after(60):
        while True:
            shown = await treadle("show", run_id, "--json", cwd=folder)
            if json.loads(shown.stdout)["status"] == "success":
                return
            await trio.sleep(0.05)


async def test_a_run_that_a_killed_server_was_going_on_with_can_be_approved_at_the_next_one(tmp_path):
    run_id, _ = await begun(tmp_path, SLOW, "--tools", "tools.py")
    async with serving(tmp_path) as server:
        assert [each["run_id"] for each in await server.pending()] == [run_id]
        assert await server.post(f"/approve/{run_id}") == 202
        assert await server.post(f"/approve/{run_id}") == 409
        await until_there(tmp_path / "begun")
        await server.end(signal.SIGKILL)
    async with serving(tmp_path) as server:
        assert await server.pending() == []
        assert await server.post(f"/reject/{run_id}") == 409
        (tmp_path / "open").touch()
        assert await server.post(f"/approve/{run_id}/review") == 202
        await until_success(tmp_path, run_id)
        assert await server.post(f"/approve/{run_id}") == 409


async def test_ctrl_c_ends_a_server_and_records_what_it_cut_off(tmp_path):
    run_id, _ = await begun(tmp_path, SLOW, "--tools", "tools.py")
    async with serving(tmp_path) as server:
        assert await server.post(f"/approve/{run_id}") == 202
        await until_there(tmp_path / "begun")
        assert await server.end(signal.SIGINT) == 130
    shown = json.loads((await treadle("show", run_id, "--json", cwd=tmp_path)).stdout)
    assert (shown["status"], shown["error"]) == ("cancelled", "the server was stopped by SIGINT")
    assert shown["step_results"]["work"]["status"] == "cancelled"
    (tmp_path / "open").touch()
    done = await treadle("resume", run_id, "--tools", "tools.py", cwd=tmp_path)
    assert (done.returncode, "worked: worked" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "error: --host 0.0.0.0 may be reached by other machines, and there is no token; "),
        (["--token", "hush"], "a secret is given by reference"),
        (["--token", "env:NO_SUCH_TOKEN"], "the environment variable NO_SUCH_TOKEN is not set"),
        (["--token", "env:A", "--token-file", "b"], "say the same thing twice"),
        (["--port", "70000"], "70000 is not in the range"),
    ],
)
async def test_a_server_that_must_not_or_cannot_be_is_refused(tmp_path, options, message):
    done = await treadle("serve", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
