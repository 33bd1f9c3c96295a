"""``treadle run --record`` and ``--mock-responses``, and ``treadle replay``, as a user types them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from e2e.command import statuses, treadle
from wire.http_server import Hang, Json
from wire.openai_server import OpenAIServer, Stream, call, completion, text_chunks

FLOW = """\
name: two
config: {provider: openai, model: gpt-4o-mini}
state: {topic: tides}
steps:
  - {id: ask, type: llm_call, prompt: "About {state.topic}", system_prompt: Be brief., output: a}
  - {id: short, type: llm_call, depends_on: [ask], prompt: "Shorten {state.a}", output: b}
"""
LOOP = """\
name: loop
config: {provider: openai, model: gpt-4o-mini}
steps:
  - {id: work, type: llm_call, prompt: "Write it down", tools: [{name: note}], output: a}
  - {id: own, type: tool, depends_on: [work], tool_name: note, tool_args: {text: own}, output: b}
"""
TOOLS = """\
import treadle
from pathlib import Path


@treadle.tool
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


def env(server: OpenAIServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": "sk-very-secret", "OPENAI_BASE_URL": server.api}


def put(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")


def entries(folder: Path) -> dict[str, Any]:
    recording = json.loads((folder / "rec.json").read_text(encoding="utf-8"))
    return {key: value for key, value in recording.items() if not key.startswith("_")}


async def recorded(folder: Path, server: OpenAIServer, *more: str) -> dict[str, Any]:
    put(folder, flow_yaml=FLOW)
    server.reply(Json(completion("water")), Json(completion("wet")))
    done = await treadle("run", "flow.yaml", "--record", "rec.json", "--json", *more, cwd=folder, **env(server))
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


async def test_a_recorded_run_is_replayed_without_a_key_or_a_server(tmp_path, server):
    first = await recorded(tmp_path, server)
    text = (tmp_path / "rec.json").read_text(encoding="utf-8")
    assert "sk-very-secret" not in text
    assert list(entries(tmp_path)) == ["ask", "short"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".treadle", "flow.yaml", "rec.json"]
    done = await treadle("replay", "flow.yaml", "--recording", "rec.json", "--json", cwd=tmp_path)
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
    second = json.loads(done.stdout)
    assert second["final_state"] == first["final_state"] == {"topic": "tides", "a": "water", "b": "wet"}
    for key in ("provider", "model", "token_usage", "cost_usd", "finish_reason"):
        assert second["step_results"]["ask"][key] == first["step_results"]["ask"][key], key
    assert len(server.bodies()) == 2
    assert len((await treadle("runs", cwd=tmp_path)).stdout.splitlines()) == 1, "a replay is no run of its own"


async def test_the_same_replies_recorded_again_give_the_same_bytes_but_for_latencies(tmp_path, server):
    def written() -> str:
        return re.sub(r'"latency_ms": [\d.]+', "", (tmp_path / "rec.json").read_text(encoding="utf-8"))

    await recorded(tmp_path, server)
    before = written()
    await recorded(tmp_path, server)
    assert written() == before, "a key that is recorded anew is replaced"
    (tmp_path / "rec.json").unlink()
    await recorded(tmp_path, server)
    assert written() == before


async def test_what_has_changed_is_named_with_the_words_that_did(tmp_path, server):
    await recorded(tmp_path, server)
    changes = {
        ("About", "On"): "the prompt (message 2): 'About tides' -> 'On tides'",
        ("Be brief.", "Be long."): "the system prompt (message 1): 'Be brief.' -> 'Be long.'",
        ("gpt-4o-mini", "gpt-4o"): "model: 'gpt-4o-mini' -> 'gpt-4o'",
        ("output: a}", "output: a, temperature: 0.5}"): "temperature: null -> 0.5",
        ("output: a}", "output: a, tools: [{name: file_read}]}"): "the tools: 'file_read' is new",
        ("output: a}", "output: a, response_schema: {type: json_object}}"): "the schema of the reply: null -> ",
    }
    for (old, new), told in changes.items():
        put(tmp_path, flow_yaml=FLOW.replace(old, new))
        done = await treadle("replay", "flow.yaml", "-r", "rec.json", "-q", cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(
            f"error: step 'ask': the reply for 'ask' was recorded for another request: {told}"
        ), done.stderr
        assert "; record it again\n" in done.stderr


async def test_a_miss_names_what_there_is_and_what_is_left_is_told(tmp_path, server):
    await recorded(tmp_path, server)
    put(tmp_path, flow_yaml=FLOW.replace("id: ask", "id: asked").replace("[ask]", "[asked]"))
    done = await treadle("replay", "flow.yaml", "-r", "rec.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "provider 'openai' is strict and has no reply for 'asked'; there are replies for ask" in done.stderr
    assert done.stderr.endswith("warning: recorded and not asked for: 'ask' (1 reply), 'short' (1 reply)\n")
    assert (
        "flow.yaml:2:20: warning: config.provider: provider 'openai': there is a reply for 'ask' in rec.json, and no "
        "such step; did you mean 'asked'?\n"
    ) in done.stderr
    how = ("-r", "rec.json", "--allow-default-fallback", "--json", "-q")
    allowed = await treadle("replay", "flow.yaml", *how, "-s", "a=water", cwd=tmp_path)
    assert json.loads(allowed.stdout)["step_results"]["asked"]["output"] == "Mock response"


async def test_with_mock_responses_a_miss_gives_a_default_and_one_warning(tmp_path):
    put(tmp_path, flow_yaml=FLOW.replace("openai", "anthropic"), rec_json='{"ask": "water"}')
    done = await treadle("run", "flow.yaml", "--mock-responses", "rec.json", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["final_state"]["b"] == "Mock response"
    warnings = [line for line in done.stderr.splitlines() if "warning" in line]
    assert warnings == ["warning: step 'short': there is no reply for 'short' in rec.json; a default was given"]


async def test_a_file_of_agentloom_is_read_and_its_first_version_is_not(tmp_path):
    entry = {
        "content": "water",
        "model": "gpt-4o-mini",
        "provider": "openai",
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        "cost_usd": 0.001,
        "latency_ms": 800.5,
        "finish_reason": "stop",
        "tool_calls": [],
    }
    both = {"_version": 2, "ask": entry, "short": [{**entry, "content": "wet"}]}
    put(tmp_path, flow_yaml=FLOW, rec_json=json.dumps(both))
    done = await treadle("replay", "flow.yaml", "-r", "rec.json", "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert (result["final_state"]["b"], result["total_tokens"], result["total_cost_usd"]) == ("wet", 24, 0.002)
    put(tmp_path, rec_json=json.dumps({**both, "_version": 1}))
    for command in (("replay", "flow.yaml", "-r"), ("run", "flow.yaml", "--mock-responses")):
        refused = await treadle(*command, "rec.json", cwd=tmp_path)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == (
            "error: rec.json: _version is 1, and only 2 can be read; record it again: treadle run FILE --record "
            "RECORDING\n"
        )


async def test_a_run_in_the_journal_is_a_recording(tmp_path, server):
    first = await recorded(tmp_path, server)
    (tmp_path / "rec.json").unlink()
    done = await treadle("replay", "flow.yaml", "-r", first["run_id"], "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["final_state"] == first["final_state"]
    put(tmp_path, flow_yaml=FLOW.replace("Shorten", "Cut"))
    changed = await treadle("replay", "flow.yaml", "-r", first["run_id"], "-q", cwd=tmp_path)
    assert "'short' was recorded for another request: the prompt (message 1): 'Shorten water' -> 'Cut water'" in (
        changed.stderr
    )
    unknown = await treadle("replay", "flow.yaml", "-r", "abc123", cwd=tmp_path)
    assert unknown.returncode == 2
    assert unknown.stderr == (
        "error: there is no file 'abc123', and no run of that id; `treadle runs` lists the runs recorded here\n"
    )
    missing = await treadle("replay", "flow.yaml", "-r", "no.json", cwd=tmp_path)
    assert (missing.returncode, missing.stderr) == (2, "error: no.json: cannot be read: No such file or directory\n")


@pytest.mark.parametrize("tools", [False, True])
async def test_tools_of_models_run_again_unless_they_were_recorded_and_tool_steps_always(tmp_path, server, tools):
    put(tmp_path, flow_yaml=LOOP, tools_py=TOOLS)
    server.reply(Json(completion(None, tool_calls=[call("note", '{"text": "x"}')])), Json(completion("done")))
    how = ["--record-tools"] if tools else []
    first = await treadle(
        "run", "flow.yaml", "--tools", "tools.py", "--record", "rec.json", *how, cwd=tmp_path, **env(server)
    )
    assert first.returncode == 0, first.stderr
    (tmp_path / "notes.txt").unlink()
    done = await treadle("replay", "flow.yaml", "--tools", "tools.py", "-r", "rec.json", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["final_state"] == {"a": "done", "b": "written"}
    assert (tmp_path / "notes.txt").read_text() == ("own" if tools else "xown")


async def test_a_stream_is_recorded_whole(tmp_path, server):
    put(tmp_path, flow_yaml=FLOW)
    server.reply(Stream(text_chunks("wa", "ter")), Stream(text_chunks("w", "et")))
    done = await treadle("run", "flow.yaml", "--record", "rec.json", "--stream", cwd=tmp_path, **env(server))
    assert done.returncode == 0, done.stderr
    assert [entry["content"] for entry in entries(tmp_path).values()] == ["water", "wet"]


async def start(folder: Path, server: OpenAIServer, file: str) -> trio.Process:
    command = [sys.executable, "-m", "treadle_cli", "run", file, "--record", "rec.json", "--no-journal"]
    return await trio.lowlevel.open_process(
        command, cwd=folder, env={**os.environ, **env(server)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


async def test_what_was_answered_before_a_kill_is_on_disk(tmp_path, server):
    put(tmp_path, flow_yaml=FLOW)
    server.reply(Json(completion("water")), Hang())
    process = await start(tmp_path, server, "flow.yaml")
    try:
        await server.until(lambda each: len(each.bodies()) == 2, seconds=30)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    assert {key: entry["content"] for key, entry in entries(tmp_path).items()} == {"ask": "water"}
    await recorded(tmp_path, server)
    assert {key: entry["content"] for key, entry in entries(tmp_path).items()} == {"ask": "water", "short": "wet"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".treadle", "flow.yaml", "rec.json"], "nothing is left"


async def test_processes_that_record_into_one_file_at_once_lose_nothing(tmp_path, server):
    """Three at a time: two of one workflow, one of another. Each waits in its last call until all are under way."""
    steps = [f'{{id: s{n}, type: llm_call, prompt: "{n}", depends_on: [{f"s{n - 1}" if n else ""}]}}' for n in range(6)]
    head = "name: many\nconfig: {provider: openai, model: gpt-4o-mini}\nsteps:\n"
    put(
        tmp_path,
        flow_yaml=head + "".join(f"  - {each}\n" for each in steps),
        other_yaml=head + "".join(f"  - {each.replace('s', 'o', 1).replace('[s', '[o')}\n" for each in steps),
    )
    asked, all_there = [0], trio.Event()

    class Together:
        """Answers the first call of each when all have asked, so that all are under way at once."""

        def __init__(self, number: int) -> None:
            self.number = number

        async def send(self, connection: Any, request: Any) -> bool:
            asked[0] += 1
            if asked[0] == 3:
                all_there.set()
            await all_there.wait()
            return await Json(completion(f"reply {self.number}")).send(connection, request)

    server.reply(*(Together(number) for number in range(18)))
    processes = [await start(tmp_path, server, file) for file in ("flow.yaml", "flow.yaml", "other.yaml")]
    try:
        with trio.fail_after(60):
            assert [await each.wait() for each in processes] == [0, 0, 0]
    finally:
        for each in processes:
            each.kill()
            await each.wait()
    kept = entries(tmp_path)
    replies = [each["content"] for value in kept.values() for each in (value if isinstance(value, list) else [value])]
    assert sorted(replies) == sorted(f"reply {number}" for number in range(18))
    assert {key: len(value) if isinstance(value, list) else 1 for key, value in kept.items()} == {
        **{f"s{n}": 2 for n in range(6)},
        **{f"o{n}": 1 for n in range(6)},
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flow.yaml", "other.yaml", "rec.json"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--record", "a.json", "--mock-responses", "b.json"), "--record records what models answer, and with"),
        (("--record-tools",), "--record-tools goes with --record REC"),
        (("--record", "no/where.json"), "no/where.json: there is no folder no"),
        (("--record", "flow.yaml"), "flow.yaml:1:1: not JSON"),
        (("--mock-responses", "no.json"), "no.json: cannot be read: No such file or directory"),
    ],
)
async def test_a_mistake_is_told_before_anything_runs(tmp_path, options, told):
    put(tmp_path, flow_yaml=FLOW)
    done = await treadle("run", "flow.yaml", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert (tmp_path / "flow.yaml").read_text() == FLOW


async def test_without_the_package_the_pip_line_is_told(tmp_path):
    put(tmp_path, flow_yaml=FLOW)
    for arguments in (("run", "flow.yaml", "--record", "rec.json"), ("replay", "flow.yaml", "-r", "rec.json")):
        done = await treadle(*arguments, "--without", "replay", cwd=tmp_path)
        assert done.returncode == 2
        assert "needs a recorder, and none is installed; pip install treadle-replay" in done.stderr


async def test_validate_notices_replies_for_steps_that_are_not_there(tmp_path):
    flow = FLOW.replace("provider: openai, model: gpt-4o-mini", "provider: mock, responses_file: rec.json")
    keys = ["ask", "shrot", "short::summarize", "short.child", "a" * 64, "shortt::desk#1"]
    put(tmp_path, flow_yaml=flow, rec_json=json.dumps(dict.fromkeys(keys, "x")))
    done = await treadle("validate", "flow.yaml", cwd=tmp_path)
    assert done.returncode == 0
    told = done.stderr + done.stdout
    place = "flow.yaml:2:42: warning: config.responses_file: provider 'mock': there is a reply for"
    meant = "in rec.json, and no such step; did you mean 'short'?\n"
    assert told.count("there is a reply for") == 2
    assert f"{place} 'shrot' {meant}" in told
    assert f"{place} 'shortt::desk#1' {meant}" in told
    ran = await treadle("run", "flow.yaml", "--json", cwd=tmp_path)
    assert "there is a reply for 'shrot' in rec.json" in ran.stderr
    assert statuses(json.loads(ran.stdout)) == {"ask": "success", "short": "success"}


CHILDREN = """\
name: children
config: {provider: mock}
state: {topics: [tides, storms]}
steps:
  - id: each
    type: foreach
    items: state.topics
    as: topic
    steps:
      - {id: draft, type: llm_call, prompt: "About {topic}", output: text}
    output: drafts
  - id: sub
    type: subworkflow
    depends_on: [each]
    workflow_inline:
      name: inner
      steps:
        - {id: last, type: llm_call, prompt: "In all {state.drafts}", output: text}
    return_keys: [text]
    output: all
"""


async def test_steps_inside_steps_are_recorded_replayed_and_known_by_their_names(tmp_path):
    replies = {"draft": ["one", "two"], "sub.last": "three", "nope": "x", "each.draftt.x": "y"}
    put(tmp_path, flow_yaml=CHILDREN, by_json=json.dumps(replies))
    (tmp_path / "treadle.yaml").write_text("providers: {mock: {responses_file: by.json}}", encoding="utf-8")
    done = await treadle("run", "flow.yaml", "--record", "rec.json", "--json", cwd=tmp_path)
    first = json.loads(done.stdout)
    assert first["final_state"]["all"] == {"text": "three"}
    place = "flow.yaml:2:20: warning: config.provider: provider 'mock'"
    (told,) = [line for line in done.stderr.splitlines() if "no such step" in line]
    assert told == f"{place}: there is a reply for 'nope' in by.json, and no such step"
    assert sorted(entries(tmp_path)) == ["each.0.draft", "each.1.draft", "sub.last"]
    again = await treadle("replay", "flow.yaml", "-r", "rec.json", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["final_state"] == first["final_state"]
    assert "warning" not in again.stderr


async def test_a_replay_without_the_tools_of_the_run_asks_for_them(tmp_path, server):
    tools = 'import treadle\n\n\n@treadle.tool\ndef add(a: int, b: int) -> int:\n    "Add."\n    return a + b\n'
    put(tmp_path, flow_yaml=FLOW.replace("output: a}", "output: a, tools: [{name: add}]}", 1), tools_py=tools)
    server.reply(Json(completion("water")), Json(completion("wet")))
    how = ("--record", "rec.json", "--tools", "tools.py", "--json")
    done = await treadle("run", "flow.yaml", *how, cwd=tmp_path, **env(server))
    run_id = json.loads(done.stdout)["run_id"]
    of_file = await treadle("replay", "flow.yaml", "--recording", "rec.json", cwd=tmp_path)
    why = "the tools: 'add' is not registered now (treadle replay takes tools of your own with --tools FILE)"
    assert (of_file.returncode, why in of_file.stderr, "description of" in of_file.stderr) == (1, True, False)
    of_run = await treadle("replay", "flow.yaml", "--recording", run_id, cwd=tmp_path)
    error = "error: this run had tool 'add', which is not registered now; give it with --tools FILE"
    assert (of_run.returncode, of_run.stderr.splitlines()[-1]) == (2, error)
    for recorded_in in ("rec.json", run_id):
        with_it = await treadle("replay", "flow.yaml", "--recording", recorded_in, "--tools", "tools.py", cwd=tmp_path)
        assert (with_it.returncode, "not recorded" in with_it.stderr) == (0, True), with_it.stderr
