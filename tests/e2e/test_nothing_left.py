"""Whatever becomes of a run, it leaves no task, thread, process, socket or descriptor behind.

The run has what runs have: a streamed tool loop on the real SDK, with a tool that blocks in a thread, a command and an
HTTP request; child runs side by side; and a process of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import treadle
from treadle.testing import check_cancellation

from wire.fixtures import clear_environment
from wire.http_server import Drop, Hang, Json, Recorded, Reply, Text
from wire.openai_server import OpenAIServer, Stream, chunk, completion, text_chunks

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="what is open is read from /proc")

CALLS = [
    ("blocking", '{"text": "a"}'),
    ("shell_command", '{"command": "echo done"}'),
    ("http_request", '{"url": "URL/page"}'),
]


class InProcess(treadle.Step):
    """Calls a function in a process of its own."""

    async def run(self, ctx: treadle.StepContext) -> treadle.StepOutcome:
        return treadle.StepOutcome(value=await ctx.run_in_process(os.path.basename, "a/b"))


@treadle.tool(effect="pure")
def blocking(text: str) -> str:
    """A plain function: it runs in a thread."""
    return text * 2


WORKFLOW: Mapping[str, Any] = {
    "name": "everything",
    "config": {"provider": "openai", "model": "gpt-4o-mini"},
    "steps": [
        {
            "id": "ask",
            "type": "llm_call",
            "prompt": "use your tools",
            "stream": True,
            "tools": [{"name": name, "description": name} for name, _ in CALLS],
            "max_tool_iterations": 3,
            "output": "answer",
        },
        {
            "id": "many",
            "type": "foreach",
            "items": "state.words",
            "concurrency": 3,
            "step": {"type": "llm_call", "prompt": "say {item}"},
            "output": "said",
        },
        {"id": "apart", "type": "in_process", "depends_on": ["many"], "output": "name"},
        {"id": "last", "type": "llm_call", "prompt": "{answer}", "depends_on": ["ask", "apart"], "output": "end"},
    ],
    "state": {"words": ["a", "b", "c"]},
}


def answering(url: str) -> Callable[[Recorded], Reply]:
    """All three tools at once, then a text; and a page for the tool that asks for one."""

    def reply(request: Recorded) -> Reply:
        if request.path == "/page":
            return Text("a page")
        if not request.json.get("stream"):
            return Json(completion("hello"))
        if any(each["role"] == "tool" for each in request.json["messages"]):
            return Stream(text_chunks("all ", "done"))
        calls = [
            {"index": n, "id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate((name, given.replace("URL", url)) for name, given in CALLS)
        ]
        return Stream([chunk(role="assistant", tool_calls=calls), chunk(finish_reason="tool_calls")])

    return reply


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[OpenAIServer]:
    clear_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    async with OpenAIServer.open() as opened:
        monkeypatch.setattr(opened, "default_reply", answering(opened.url))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", opened.api)
        yield opened


async def once(**changes: Any) -> treadle.RunResult:
    """Open a session, run the workflow and close it."""
    async with treadle.open(steps={"in_process": InProcess}, tools=[blocking]) as session:
        workflow = treadle.build_workflow({**WORKFLOW, **changes}, host=session.host)
        return await session.run(workflow, on_event=lambda event: None)


async def to_the_end() -> treadle.RunResult:
    """The same, where it must succeed."""
    result = await once()
    assert result.status == "success", result.error
    return result


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def processes() -> list[str]:
    """Ids of the processes that this one has started and not waited for."""
    return [each for path in Path("/proc/self/task").glob("*/children") for each in path.read_text().split()]


def threads() -> list[str]:
    """Threads at work; trio keeps those that have nothing to do for a while, to use them again."""
    return [each.name for each in threading.enumerate() if not each.name.startswith("Trio thread")]


@asynccontextmanager
async def nothing_left(server: OpenAIServer) -> AsyncIterator[None]:
    """Compares what there is before the body, once the first run of the process is over, with what there is after."""

    async def open_things() -> tuple[int, int, list[str], list[str]]:
        await server.until(lambda server: server.connections == 0)
        for _ in range(10):  # the server closes its ends, and trio finalizes what was left to the collector
            await trio.lowlevel.checkpoint()
        return trio.lowlevel.current_statistics().tasks_living, descriptors(), threads(), processes()

    await to_the_end()
    server.requests.clear()
    before = await open_things()
    yield
    assert await open_things() == before


async def test_a_run_that_succeeds_leaves_nothing(server: OpenAIServer) -> None:
    async with nothing_left(server):
        result = await to_the_end()
    assert result.final_state["answer"] == "all done"
    assert (result.final_state["said"], result.final_state["name"]) == (["hello"] * 3, "b")
    streamed = [each.json["messages"] for each in server.requests if each.body and each.json.get("stream")]
    results = [each["content"] for each in streamed[-1] if each["role"] == "tool"]
    assert results[0] == "aa", "the thread ran"
    assert "done" in results[1], "the command ran"
    assert "a page" in results[2], "the request was answered"


@pytest.mark.parametrize("fault", [Json({"error": {"message": "no"}}, 400), Drop(), Drop(reset=True)])
async def test_a_run_that_fails_leaves_nothing(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, fault: Reply
) -> None:
    async with nothing_left(server):
        monkeypatch.setattr(server, "default_reply", lambda request: fault)
        result = await once(config={**WORKFLOW["config"], "max_retries": 0})
    assert result.status == "failed"


@pytest.mark.parametrize("whose", ["a step's", "the run's"])
async def test_a_run_that_is_out_of_time_leaves_nothing(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    async with nothing_left(server):
        monkeypatch.setattr(server, "default_reply", lambda request: Hang())
        if whose == "the run's":
            result = await once(config={**WORKFLOW["config"], "timeout": 0.3})
            assert result.status == "timeout"
        else:
            steps = [{**each, "timeout": 0.3} for each in WORKFLOW["steps"]]
            result = await once(steps=steps, config={**WORKFLOW["config"], "max_retries": 0})
            assert result.step_results["ask"].status == "timeout"


async def test_a_run_that_is_cancelled_at_any_await_leaves_nothing(server: OpenAIServer) -> None:
    """Each time one await later, of the session's opening and closing too."""
    async with nothing_left(server):
        await check_cancellation(to_the_end, what="the run")
