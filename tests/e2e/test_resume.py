"""``treadle resume`` after a kill, as a user sees it: nothing that was paid for is paid for again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from e2e.command import statuses, treadle
from wire.http_server import Hang, Json
from wire.openai_server import OpenAIServer, call, completion

FLOW = """\
name: three
config: {provider: openai, model: gpt-4o-mini, max_retries: 0}
state: {topic: tides, secret: hush-hush}
state_schema: {secret: {redact: true}}
steps:
  - {id: first, type: llm_call, prompt: "About {state.topic}", output: notes}
  - id: work
    type: agent
    depends_on: [first]
    agent: desk.yaml
    prompt: "Go on from {state.notes}"
    output: done
"""
TOOLS = """\
import treadle
from pathlib import Path


@treadle.tool(effect="once")
def note(text: str) -> str:
    "Write something down."
    with Path("notes.txt").open("a", encoding="utf-8") as file:
        file.write(text)
    return "written"
"""


@pytest.fixture
async def server():
    async with OpenAIServer.open() as opened:
        yield opened


async def killed(folder: Path, server: OpenAIServer) -> str:
    """A run that was killed while the agent's second model call was under way; its id."""
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (folder / "desk.yaml").write_text("name: desk\nsystem_prompt: Do it.\ntools: [note]\n", encoding="utf-8")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    server.reply(Json(completion("water")), Json(completion(None, tool_calls=[call("note", '{"text": "x"}')])), Hang())
    command = [sys.executable, "-m", "treadle_cli", "run", "flow.yaml", "--tools", "tools.py"]
    process = await trio.lowlevel.open_process(
        command, cwd=folder, env={**os.environ, **env(server)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        await server.until(lambda each: len(each.bodies()) == 3, seconds=20)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    listed = await treadle("runs", "--json", cwd=folder)
    (run,) = json.loads(listed.stdout)
    assert run["status"] == "interrupted"
    return str(run["run_id"])


def env(server: OpenAIServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": "sk-local", "OPENAI_BASE_URL": server.api}


async def test_a_killed_run_is_shown_and_gone_on_with_inside_its_tool_loop(tmp_path, server):
    run_id = await killed(tmp_path, server)
    shown = await treadle("show", run_id, "--json", cwd=tmp_path)
    so_far = json.loads(shown.stdout)
    assert statuses(so_far) == {"first": "success", "work": "running"}
    assert so_far["final_state"]["notes"] == "water"
    told = await treadle("show", run_id, cwd=tmp_path)
    assert "tool note" in told.stdout
    assert "no answer is recorded" in told.stdout
    calls = await treadle("show", run_id, "--calls", cwd=tmp_path)
    assert "          asks note: {" in calls.stdout
    assert "hush-hush" not in told.stdout + shown.stdout + calls.stdout

    refused = await treadle("resume", run_id, "--tools", "tools.py", cwd=tmp_path, **env(server))
    assert refused.returncode == 2
    assert refused.stderr == (
        f"error: run {run_id} was recorded without the values of: secret; give each of them again, as -s key=value or "
        "in state=\n"
    )
    server.reply(Json(completion("all done")))
    how = ("--tools", "tools.py", "-s", "secret=hush-hush", "--json")
    resumed = await treadle("resume", run_id, *how, cwd=tmp_path, **env(server))
    result = json.loads(resumed.stdout)
    assert (resumed.returncode, result["status"], result["final_state"]["done"]) == (0, "success", "all done")
    assert len(server.bodies()) == 4, "only the call that was under way is made again"
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "x"
    assert server.bodies()[3]["messages"] == server.bodies()[2]["messages"]


async def test_a_run_whose_server_never_answers_ends_by_ctrl_c_and_goes_on_later(tmp_path, server):
    (tmp_path / "flow.yaml").write_text(FLOW.replace("agent: desk.yaml", "agent: {name: desk}"), encoding="utf-8")
    server.reply(Json(completion("water")), Hang())
    command = [sys.executable, "-m", "treadle_cli", "run", "flow.yaml", "--json"]
    process = await trio.lowlevel.open_process(
        command, cwd=tmp_path, env={**os.environ, **env(server)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    await server.until(lambda each: len(each.bodies()) == 2, seconds=20)
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 130
    (run,) = json.loads((await treadle("runs", "--json", cwd=tmp_path)).stdout)
    assert (run["status"], run["total_cost_usd"]) == ("cancelled", None), "what the call has cost nobody knows"
    server.reply(Json(completion("all done")))
    how = ("-s", "secret=hush-hush", "--json")
    resumed = await treadle("resume", run["run_id"], *how, cwd=tmp_path, **env(server))
    result = json.loads(resumed.stdout)
    assert (resumed.returncode, result["status"], result["final_state"]["done"]) == (0, "success", "all done")
    assert result["total_cost_usd"] is None, "nor does anybody later"
    assert len(server.bodies()) == 3


async def test_a_changed_file_is_shown_and_refused_until_it_is_accepted(tmp_path, server):
    run_id = await killed(tmp_path, server)
    (tmp_path / "flow.yaml").write_text(FLOW.replace("Go on from", "Go back to"), encoding="utf-8")
    how = ("--tools", "tools.py", "-s", "secret=hush-hush", "--json")
    refused = await treadle("resume", run_id, *how, cwd=tmp_path, **env(server))
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[0] == "--- flow.yaml as it was", "what has changed comes first"
    last = f"error: flow.yaml has changed since run {run_id} began; --accept-changes goes on with "
    assert refused.stderr.splitlines()[-1].startswith(last), "and the advice is a line of its own"
    assert '-      "prompt": "Go on from {state.notes}",' in refused.stderr
    assert '+      "prompt": "Go back to {state.notes}",' in refused.stderr
    assert "hush-hush" not in refused.stderr
    desk = (tmp_path / "desk.yaml").read_text(encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "desk.yaml").write_text(desk.replace("Do it.", "Do it well."), encoding="utf-8")
    refused = await treadle("resume", run_id, *how, cwd=tmp_path, **env(server))
    assert f"\nerror: desk.yaml has changed since run {run_id} began; " in refused.stderr
    assert '+  "system_prompt": "Do it well."' in refused.stderr
    (tmp_path / "flow.yaml").write_text(FLOW.replace("Go on from", "Go back to"), encoding="utf-8")
    server.reply(Json(completion("as you like")))
    accepted = await treadle("resume", run_id, *how, "--accept-changes", cwd=tmp_path, **env(server))
    assert json.loads(accepted.stdout)["final_state"]["done"] == "as you like"
    assert len(server.bodies()) == 4, "the finished step is not run again"
    assert accepted.stderr.count("has changed since the run began") == 2


async def test_what_cannot_be_resumed_is_refused(tmp_path):
    (tmp_path / "flow.yaml").write_text("name: x\nsteps: [{id: a, type: llm_call, prompt: hi}]\n", encoding="utf-8")
    done = await treadle("run", "flow.yaml", "-p", "mock", "--json", cwd=tmp_path)
    run_id = json.loads(done.stdout)["run_id"]
    shown = await treadle("show", run_id[:6], cwd=tmp_path)
    assert shown.stderr == f"error: there is no run '{run_id[:6]}' in .treadle/journal.db; did you mean '{run_id}'?\n"
    shown = await treadle("show", "nope", cwd=tmp_path)
    assert shown.stderr == "error: there is no run 'nope' in .treadle/journal.db; `treadle runs` lists them\n"
    unsaid = await treadle("resume", cwd=tmp_path)
    assert unsaid.stderr.endswith("Error: Missing argument 'RUN', an id that `treadle runs` lists.\n")
    for arguments, error in [
        (("nope",), "error: there is no record of a run 'nope'; `treadle runs` lists what is recorded here\n"),
        ((run_id,), f"error: run {run_id} has succeeded; there is nothing to resume\n"),
        ((run_id, "--assume", "x"), "error: --assume x: must be CALL=done or CALL=not-done\n"),
    ]:
        refused = await treadle("resume", *arguments, cwd=tmp_path)
        assert (refused.returncode, refused.stderr) == (2, error)


async def test_a_changed_child_is_refused_though_the_file_of_the_run_itself_is_gone(tmp_path):
    (tmp_path / "flow.yaml").write_text(
        "name: x\nsteps:\n  - {id: ask, type: approval_gate}\n"
        "  - {id: sub, type: subworkflow, workflow_path: child.yaml, depends_on: [ask], output: got}\n",
        encoding="utf-8",
    )
    child = (
        "name: c\nsteps: [{id: a, type: tool, tool_name: shell_command, tool_args: {command: echo it}, output: q}]\n"
    )
    (tmp_path / "child.yaml").write_text(child, encoding="utf-8")
    run_id = json.loads((await treadle("run", "flow.yaml", "--json", cwd=tmp_path)).stdout)["run_id"]
    (tmp_path / "flow.yaml").unlink()
    (tmp_path / "child.yaml").write_text(child.replace("echo it", "echo another"), encoding="utf-8")
    refused = await treadle("resume", run_id, "--approve", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"error: child.yaml changed since run {run_id} began; treadle resume --accept-changes, or" in refused.stderr
    done = await treadle("resume", run_id, "--approve", "--accept-changes", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["final_state"]["got"]["q"]["stdout"] == "another\n"


async def test_a_child_that_another_file_of_its_name_stands_before_has_changed(tmp_path):
    """A child is looked for in the working directory, and then beside the file that names it."""
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "flow.yaml").write_text(
        "name: x\nsteps:\n  - {id: ask, type: approval_gate}\n"
        "  - {id: sub, type: subworkflow, workflow_path: child.yaml, depends_on: [ask], output: got}\n",
        encoding="utf-8",
    )
    child = (
        "name: c\nsteps: [{id: a, type: tool, tool_name: shell_command, tool_args: {command: echo it}, output: q}]\n"
    )
    (folder / "child.yaml").write_text(child, encoding="utf-8")
    run_id = json.loads((await treadle("run", "sub/flow.yaml", "--json", cwd=tmp_path)).stdout)["run_id"]
    (tmp_path / "child.yaml").write_text(child.replace("echo it", "echo another"), encoding="utf-8")
    refused = await treadle("resume", run_id, "--approve", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"error: sub/child.yaml and child.yaml have changed since run {run_id} began; --accept" in refused.stderr
    assert '"command": "echo another"\n' in refused.stderr
    (tmp_path / "child.yaml").unlink()
    done = await treadle("resume", run_id, "--approve", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["final_state"]["got"]["q"]["stdout"] == "it\n"


async def test_from_another_directory_a_run_does_not_leave_its_deployments_sandbox(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    (ours / "treadle.yaml").write_text("sandbox: {enabled: true, allowed_paths: [ok]}\n", encoding="utf-8")
    (ours / "flow.yaml").write_text(
        "name: x\nconfig: {provider: mock}\nsteps:\n"
        "  - {id: ask, type: approval_gate}\n"
        "  - {id: out, type: tool, depends_on: [ask], tool_name: file_write, tool_args: {path: out.txt, content: x}}\n",
        encoding="utf-8",
    )
    run_id = json.loads((await treadle("run", "flow.yaml", "--json", cwd=ours)).stdout)["run_id"]
    how = ("resume", run_id, "--approve", "ask", "--checkpoint-dir", "../ours/.treadle")
    refused = await treadle(*how, cwd=theirs)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"error: run {run_id} was begun in {ours}, where {ours / 'treadle.yaml'} counts; here it is none; "
        "give the command there, or say which counts: --config FILE or --no-config\n"
    )
    assert "waits at gate ask" in (await treadle("show", run_id, cwd=ours)).stdout, "nothing is recorded of it"
    held = await treadle(*how, "--config", "../ours/treadle.yaml", cwd=theirs)
    assert "Sandbox violation (file_write)" in held.stderr
    assert "warning" not in held.stderr
    assert not (ours / "out.txt").exists()


async def test_other_settings_than_when_the_run_began_are_told(tmp_path):
    (tmp_path / "flow.yaml").write_text("name: x\nsteps: [{id: ask, type: approval_gate}]\n", encoding="utf-8")
    run_id = json.loads((await treadle("run", "flow.yaml", "--json", cwd=tmp_path)).stdout)["run_id"]
    (tmp_path / "treadle.yaml").write_text("config: {timeout: 60}\n", encoding="utf-8")
    done = await treadle("resume", run_id, "--approve", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: the settings have changed since the run began\n")


async def test_a_fork_runs_from_one_step_on_and_pays_for_that_only(tmp_path, server):
    text = """\
name: two
config: {provider: openai, model: gpt-4o-mini, max_retries: 0}
state: {tone: {kind: dry}}
steps:
  - {id: notes, type: llm_call, prompt: Begin, output: notes}
  - {id: draft, type: llm_call, depends_on: [notes], prompt: "{state.tone.kind}: {state.notes}", output: draft}
"""
    (tmp_path / "flow.yaml").write_text(text, encoding="utf-8")
    server.reply(Json(completion("water")), Json(completion("dry water")))
    run = json.loads((await treadle("run", "flow.yaml", "--json", cwd=tmp_path, **env(server))).stdout)
    server.reply(Json(completion("warm water")))
    how = ("fork", run["run_id"], "--at", "draft", "-s", "tone.kind=warm", "--json")
    forked = json.loads((await treadle(*how, cwd=tmp_path, **env(server))).stdout)
    assert forked["final_state"] == {"tone": {"kind": "warm"}, "notes": "water", "draft": "warm water"}
    assert forked["run_id"] != run["run_id"]
    assert [each["messages"][-1]["content"] for each in server.bodies()] == ["Begin", "dry: water", "warm: water"]
    shown = await treadle("show", forked["run_id"], cwd=tmp_path)
    assert f"forked from {run['run_id']} at step 'draft'" in shown.stdout
    wrong = await treadle("fork", run["run_id"], "--at", "drat", cwd=tmp_path, **env(server))
    assert (wrong.returncode, wrong.stderr) == (
        2,
        f"error: run {run['run_id']} has no step 'drat'; did you mean 'draft'?\n",
    )
    again = await treadle("fork", forked["run_id"], "--at", "draft", "-p", "mock", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["final_state"]["notes"] == "water", "a fork can be forked"
    (tmp_path / "flow.yaml").write_text(text.replace("{state.notes}", "{state.notes}!"), encoding="utf-8")
    refused = await treadle("fork", run["run_id"], "--at", "draft", cwd=tmp_path, **env(server))
    assert f"\nerror: flow.yaml has changed since run {run['run_id']} began; " in refused.stderr
    server.reply(Json(completion("new")))
    how = ("fork", run["run_id"], "--at", "draft", "--accept-changes", "--json")
    assert json.loads((await treadle(*how, cwd=tmp_path, **env(server))).stdout)["final_state"]["draft"] == "new"
    assert server.bodies()[-1]["messages"][-1]["content"] == "dry: water!"


async def test_a_fork_keeps_what_was_done_inside_steps(tmp_path):
    flow = """\
name: inside
config: {provider: mock}
state: {people: [Ada, Grace]}
steps:
  - {id: each, type: foreach, items: state.people, step: {type: llm_call, prompt: "To {item}"}, output: lines}
  - {id: last, type: llm_call, depends_on: [each], prompt: "{state.lines}", output: done}
"""
    (tmp_path / "flow.yaml").write_text(flow, encoding="utf-8")
    run = json.loads((await treadle("run", "flow.yaml", "--json", cwd=tmp_path)).stdout)
    forked = json.loads((await treadle("fork", run["run_id"], "--at", "last", "--json", cwd=tmp_path)).stdout)
    assert forked["final_state"] == run["final_state"]
    shown = (await treadle("show", forked["run_id"], cwd=tmp_path)).stdout
    assert "each.1.step: success" in shown


@pytest.mark.parametrize(
    "command",
    [("resume", "abc"), ("fork", "abc", "--at", "a"), ("show", "abc"), ("runs", "prune", "--older-than", "1d")],
)
async def test_to_look_for_a_run_makes_no_journal(tmp_path, command):
    done = await treadle(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is no journal at .treadle/journal.db; run a workflow, or name the file\n"
    assert list(tmp_path.iterdir()) == []


async def test_to_list_runs_or_to_replay_one_makes_no_journal(tmp_path):
    done = await treadle("runs", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no runs\n")
    done = await treadle("replay", "flow.yaml", "-r", "abc", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no file 'abc', and there is no journal at .treadle/journal.db" in done.stderr
    assert list(tmp_path.iterdir()) == []


async def test_runs_are_deleted_from_the_journal_that_is_named_and_by_nothing_but_their_age(tmp_path):
    flow = "name: flow\nconfig: {provider: mock}\nsteps: [{id: a, type: llm_call, prompt: hi}]\n"
    (tmp_path / "flow.yaml").write_text(flow, encoding="utf-8")
    for where in ([], ["--checkpoint-dir", "kept"]):
        assert (await treadle("run", "flow.yaml", *where, cwd=tmp_path)).returncode == 0
    refused = await treadle("runs", "--workflow", "other", "prune", "--older-than", "0h", cwd=tmp_path)
    assert (refused.returncode, "--workflow is for the list, and not for prune" in refused.stderr) == (2, True)
    for named in (["runs", "--checkpoint-dir", "kept", "prune"], ["runs", "prune", "--checkpoint-dir", "kept"]):
        done = await treadle(*named, "--older-than", "0h", "--dry-run", cwd=tmp_path)
        assert done.stdout == "1 run would be deleted\n"
    done = await treadle("runs", "--checkpoint-dir", "kept", "prune", "--older-than", "0h", cwd=tmp_path)
    assert done.stdout == "1 run deleted\n"
    left = [(await treadle("runs", *where, cwd=tmp_path)).stdout for where in ([], ["--checkpoint-dir", "kept"])]
    assert [len(each.splitlines()) for each in left] == [1, 0]
