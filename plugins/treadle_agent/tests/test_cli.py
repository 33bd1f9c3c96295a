"""``treadle agent``, as it is typed."""

from __future__ import annotations

import builtins
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from treadle_agent.agent import AgentError, AgentResult
from treadle_agent.chatting import Chat, Saved
from treadle_agent.console import Console

from e2e.command import treadle

DESK = """\
name: desk
description: Answers billing questions.
system_prompt: You serve {firm}.
model: gpt-4o-mini
tools:
  - file_read
  - {name: ask_refunds, agent: refunds.yaml}
constraints: {max_cost_usd: 0.05}
"""
REFUNDS = """\
name: refunds
description: Knows who gets money back.
output_schema:
  type: json_schema
  schema: {type: object, properties: {eligible: {type: boolean}}, required: [eligible]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "desk.yaml").write_text(DESK, encoding="utf-8")
    (tmp_path / "refunds.yaml").write_text(REFUNDS, encoding="utf-8")
    return tmp_path


async def test_inspect_shows_the_agent_as_it_loads_and_those_below_it(folder: Path) -> None:
    done = await treadle("agent", "inspect", "desk.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("desk: Answers billing questions.\n  model: gpt-4o-mini ($")
    for line in (
        "  system prompt:\n    You serve {firm}.\n",
        "  tool file_read: Read a text file",
        "  tool ask_refunds: the agent (refunds.yaml)\n    refunds: Knows who gets money back.\n",
        "  at most 5 model calls a turn, then error\n",
        "  max_cost_usd: 0.05\n",
    ):
        assert line in done.stdout


@pytest.mark.parametrize("command", [("inspect",), ("run", "-m", "hi")])
async def test_a_file_that_is_not_there_is_told_by_its_name(folder: Path, command: tuple[str, ...]) -> None:
    first, *options = command
    done = await treadle("agent", first, "dek.yaml", *options, cwd=folder)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "dek.yaml: no such file; did you mean 'desk.yaml'?")


async def test_inspect_in_json_has_parameters_prices_and_the_resolved_schema(folder: Path) -> None:
    done = await treadle("agent", "inspect", "desk.yaml", "--json", cwd=folder)
    data = json.loads(done.stdout)
    assert data["prices_usd_per_million"].keys() == {"input", "output"}
    assert data["tools"][0]["parameters"]["required"] == ["path"]
    (refunds,) = data["agents"]
    assert (refunds["tool"], refunds["file"], refunds["model"]) == ("ask_refunds", "refunds.yaml", None)
    assert refunds["output_schema"]["properties"] == {"eligible": {"type": "boolean"}}


async def test_a_plugin_left_out_before_the_commands_name_is_left_out(folder: Path) -> None:
    done = await treadle("--without", "tools", "agent", "inspect", "desk.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "  tool file_read: not registered; tool 'file_read' is not available: plugin 'tools'" in done.stdout


async def test_the_program_s_own_options_stand_behind_the_command_too(folder: Path) -> None:
    (folder / "treadle.yaml").write_text("nope: 1\n", encoding="utf-8")
    wrong = await treadle("agent", "inspect", "desk.yaml", cwd=folder)
    assert (wrong.returncode, "treadle.yaml:1:1" in wrong.stderr) == (2, True)
    done = await treadle("agent", "inspect", "desk.yaml", "--no-config", "--safe", cwd=folder)
    assert done.returncode == 0, done.stderr


async def test_mistakes_are_told_where_they_stand_in_whichever_file(folder: Path) -> None:
    (folder / "refunds.yaml").write_text("name: refunds\nmodle: x\n", encoding="utf-8")
    done = await treadle("agent", "inspect", "desk.yaml", cwd=folder)
    assert done.returncode == 2
    assert "refunds.yaml:2:1: modle: unknown field; did you mean 'model'?" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_file_that_is_not_there_is_told_as_validate_tells_it(folder: Path) -> None:
    done = await treadle("agent", "inspect", "dsk.yaml", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("dsk.yaml: no such file; did you mean 'desk.yaml'?\n")


async def test_run_prints_the_reply(folder: Path) -> None:
    done = await treadle("agent", "run", "desk.yaml", "-m", "hi", "-p", "mock", "-s", "firm=ACME", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "Mock response\n"), done.stderr


async def test_run_in_json_has_the_typed_reply_and_what_it_cost(folder: Path) -> None:
    done = await treadle("agent", "run", "refunds.yaml", "-m", "hi", "-p", "mock", "--json", cwd=folder)
    data = json.loads(done.stdout)
    assert data["reply"].keys() == {"eligible"}
    assert (data["cost_usd"], data["iterations"]) == (0.0, 1)


async def test_state_is_given_as_to_treadle_run(folder: Path) -> None:
    (folder / "say.yaml").write_text("name: say\nmodel: m\nsystem_prompt: '{user.name} {n} {odd}'\n", encoding="utf-8")
    say = ("agent", "run", "say.yaml", "-m", "hi", "-p", "mock")
    done = await treadle(*say, "-s", "state.user.name=Ada", "-s", "n=007", "-s", "odd=[1,]", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "warning: -s odd: looks like JSON but is not (" in done.stderr
    wrong = await treadle(*say, "-s", "secret", cwd=folder)
    assert (wrong.returncode, wrong.stderr) == (2, "error: -s secret: no value; write it as key=value\n")


async def test_a_message_without_text_is_a_mistake_of_the_command_line(folder: Path) -> None:
    done = await treadle("agent", "run", "desk.yaml", "-m", "  ", "-p", "mock", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: --message: there is no text\n")


async def test_a_turn_that_fails_is_json_too_and_a_missing_key_exits_with_2(folder: Path) -> None:
    say = ("agent", "run", "desk.yaml", "-m", "hi", "-s", "firm=A")
    done = await treadle(*say, "-p", "openai", "--json", cwd=folder, OPENAI_API_KEY="")
    assert (done.returncode, done.stderr.startswith("error: the environment variable OPENAI_API_KEY")) == (2, True)
    data = json.loads(done.stdout)
    assert data == {
        "reply": None,
        "error": "the environment variable OPENAI_API_KEY is not set; export OPENAI_API_KEY=...",
        "error_classification": "permanent",
        "cost_usd": 0.0,
        "total_tokens": 0,
        "iterations": None,
        "conversation": None,
    }
    here = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    done = await treadle(*say, "-p", "openai", "--json", cwd=folder, **here)
    assert (done.returncode, json.loads(done.stdout)["error_classification"]) == (1, "transient"), done.stderr


async def test_a_provider_that_is_not_there_is_told_as_run_tells_it(folder: Path) -> None:
    done = await treadle("agent", "run", "desk.yaml", "-m", "hi", "-p", "mok", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no provider 'mok'; did you mean 'mock' (")


async def test_inspect_takes_the_provider_and_the_model_of_agents_that_name_none(folder: Path) -> None:
    done = await treadle("agent", "inspect", "desk.yaml", "-p", "mock", "--model", "gpt-4o", "--json", cwd=folder)
    data = json.loads(done.stdout)
    assert (data["model"], data["agents"][0]["model"]) == ("gpt-4o-mini", "gpt-4o"), done.stderr
    wrong = await treadle("agent", "inspect", "desk.yaml", "-p", "mok", cwd=folder)
    assert (wrong.returncode, wrong.stdout) == (2, "")


# --- a chat -------------------------------------------------------------------------------------------


class Paper:
    """A terminal of lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.text = ""

    def read(self, prompt: str) -> str:
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def write(self, text: str) -> None:
        self.text += text

    def typed(self) -> str:
        return "typed"


class Parrot:
    """An agent that says what it is told, and keeps the conversation."""

    def __init__(self) -> None:
        self.definition = type("Definition", (), {"name": "parrot"})
        self.stopped = 0

    async def invoke(self, prompt: str, *, conversation: Any, **more: Any) -> AgentResult:
        if prompt == "fail":
            raise AgentError("it went wrong")
        if prompt == "slow":
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await trio.sleep_forever()
            finally:
                self.stopped += 1
        turns = [*(conversation or {}).get("messages", ()), {"role": "user", "content": prompt}]
        usage = __import__("treadle").Usage()
        return AgentResult(
            reply=prompt.upper(), conversation={"messages": turns}, cost_usd=0.0, iterations=1, usage=usage
        )


async def test_turns_are_answered_kept_and_taken_up_again(tmp_path: Path) -> None:
    saved = Saved(tmp_path, "mine")
    paper = Paper("hello", "", "fail", "more", "/quit", "never read")
    await Chat(Parrot(), paper, saved, {}).hold()  # type: ignore[arg-type]
    assert paper.text.splitlines()[1:] == ["HELLO", "error: it went wrong", "(the turn is not kept)", "MORE"]
    again = Paper()
    await Chat(Parrot(), again, Saved(tmp_path, "mine"), {}).hold()  # type: ignore[arg-type]
    assert again.text.startswith("parrot, taken up after 2 messages.")


async def test_ctrl_c_stops_the_turn_and_not_the_chat() -> None:
    paper, parrot = Paper("slow", "still here"), Parrot()
    await Chat(parrot, paper, None, {}).hold()  # type: ignore[arg-type]
    assert parrot.stopped == 1
    assert paper.text.splitlines()[1:] == ["(stopped; the turn is not kept)", "STILL HERE", ""]


async def test_commands_are_for_the_chat_and_paths_for_the_agent() -> None:
    paper = Paper("/help", "/halp me", " /halp me", "/etc/hosts", "/", "/quit", "never read")
    await Chat(Parrot(), paper, None, {}).hold()  # type: ignore[arg-type]
    first, *lines = paper.text.splitlines()
    assert first == "parrot. /help lists commands; /quit or Ctrl-D ends the chat."
    assert [each.split()[0] for each in lines[:4]] == ["/help", "/quit", "Ctrl-C", "All"]
    unknown = "no command {}; /help lists those there are"
    assert lines[4:] == [unknown.format("/halp"), "/HALP ME", "/ETC/HOSTS", unknown.format("/")]


async def test_ctrl_c_at_the_prompt_ends_the_chat_only_when_pressed_again() -> None:
    over, pressed = threading.Event(), threading.Event()

    class Pressed(Paper):
        def read(self, prompt: str) -> str:
            os.kill(os.getpid(), signal.SIGINT)
            pressed.wait()
            os.kill(os.getpid(), signal.SIGINT)
            over.wait()
            raise EOFError

        def write(self, text: str) -> None:
            super().write(text)
            if "again" in text:
                pressed.set()

    paper = Pressed()
    with trio.fail_after(20):
        await Chat(Parrot(), paper, None, {}).hold()  # type: ignore[arg-type]
    over.set()
    assert paper.text.splitlines()[1:] == ["", "(Ctrl-C again ends the chat)", "> typed"]


async def test_a_line_that_nobody_waits_for_any_more_is_the_next_one_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when Ctrl-C stops a turn that was asking whether a call may run: what is typed next is said to the agent."""
    entered, asked = threading.Event(), threading.Event()
    prompts: list[str] = []

    def line(prompt: str = "") -> str:
        prompts.append(prompt)
        asked.set()
        entered.wait()
        return "typed later"

    monkeypatch.setattr(builtins, "input", line)
    console = Console()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: trio.to_thread.run_sync(console.read, "allow? ", abandon_on_cancel=True))
            await trio.to_thread.run_sync(asked.wait)
            scope.cancel()
    monkeypatch.setattr(console, "write", lambda text: entered.set())  # the prompt of whoever waits now
    assert await trio.to_thread.run_sync(console.read, "> ") == "typed later"
    assert len(prompts) == 1


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a/b"])
def test_a_name_that_leads_elsewhere_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Exception, match="cannot be the name of a chat"):
        Saved(tmp_path, name)


@pytest.mark.parametrize("command", [("run", "-m", "hi"), ("chat",)])
async def test_a_file_without_a_model_is_asked_of_the_providers_own(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("name: plain\n", encoding="utf-8")
    settings = (
        "providers:\n  one: {kind: mock, default_model: m1}\n  bare: {kind: generic_openai, base_url: 'http://h/v1'}\n"
    )
    (tmp_path / "treadle.yaml").write_text(settings, encoding="utf-8")
    how, *more = command
    done = await treadle("agent", how, "plain.yaml", "-p", "one", *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = await treadle("agent", how, "plain.yaml", "-p", "bare", *more, cwd=tmp_path)
    told = "plain.yaml: no model is set, and provider 'bare' has no default; set it in the file, or pass --model"
    assert (done.returncode, told in done.stderr.replace("\n", " ")) == (2, True), done.stderr


async def test_inspect_takes_a_model_where_neither_the_file_nor_the_provider_has_one(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("name: plain\n", encoding="utf-8")
    settings = "providers: {bare: {kind: generic_openai, base_url: 'http://h/v1'}}\n"
    (tmp_path / "treadle.yaml").write_text(settings, encoding="utf-8")
    done = await treadle("agent", "inspect", "plain.yaml", "-p", "bare", "--model", "m1", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, "  model: m1 (price unknown)"), done.stderr
    done = await treadle("agent", "inspect", "plain.yaml", "-p", "mock", cwd=tmp_path)
    assert done.stdout.splitlines()[1] == "  model: config.model, --model, or the provider's own"
