"""The doubles: what they stand for, what they keep, and workflows that are run with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treadle.testing
from treadle import (
    Expression,
    HttpRequest,
    JournalEntry,
    ModelRequest,
    NotInstalledError,
    PluginError,
    RateLimitError,
    SandboxError,
    Step,
    StepContext,
    StepOutcome,
    Template,
    ToolError,
    UserMessage,
    tool,
)
from treadle._language.arguments import compile_arguments
from treadle.testing import FakeContext, FakeSandbox, MemoryJournal, RecordingObserver, offering, reply, run_workflow
from treadle.testing.running import host_of
from treadle.testing.sandbox import AnyBlock


class Ask(Step):
    """Asks a model, and a tool what the answer is worth."""

    prompt: Template

    async def run(self, ctx: StepContext) -> StepOutcome:
        response = await ctx.complete(ModelRequest(model="m", messages=(UserMessage.of(ctx.render(self.prompt)),)))
        return StepOutcome(value=[response.text, await ctx.call_tool("look", {"path": "a.txt"})])


class Look(treadle.Tool):
    """Reads a file."""

    name = "look"
    description = "Read a file"

    async def call(self, arguments: Any, context: Any) -> Any:
        return (await context.require_sandbox("look").read(arguments["path"])).decode()


PLUGIN = offering({"step_type": {"ask": Ask}, "tool": {"look": Look}})
FLOW = "name: f\nsteps:\n- {id: a, type: ask, prompt: 'Hi {state.name}', output: said}\n"


async def test_a_workflow_is_run_with_what_it_is_given() -> None:
    box, journal, observer = FakeSandbox(files={"a.txt": "five"}), MemoryJournal(), RecordingObserver()
    result = await run_workflow(
        FLOW,
        plugins=[PLUGIN],
        state={"name": "Ada"},
        replies=["Hello."],
        sandbox=box,
        journal=journal,
        observers=[observer],
    )
    assert result.final_state["said"] == ["Hello.", "five"]
    assert box.reads == ["a.txt"]
    assert observer.kinds()[0] == "RunStarted"
    assert [entry.kind for entry in journal.entries(result.run_id)][0::100] == ["run_started"]
    assert journal.all[-1].kind == "run_finished"
    assert journal.closed
    with pytest.raises(AssertionError, match="was appended after the journal was closed"):
        journal.append(JournalEntry("run", "run_started"))


async def test_plugins_have_names_or_are_counted() -> None:
    with pytest.raises(PluginError, match=r"is offered by plugin 'plugin 1' and by plugin 'plugin 2'"):
        raise next(iter(host_of([PLUGIN, offering({"tool": {"look": Look}})]).problems()))
    result = await run_workflow(FLOW, plugins={"mine": PLUGIN}, replies=["x"], config={"max_retries": 0})
    assert "sandbox" in str(result.error)


async def test_the_fake_sandbox_keeps_files_and_plays_commands_and_pages() -> None:
    refused = ["secret/", "rm", "https://evil"]
    box = FakeSandbox(files={"a.txt": "hi"}, commands={"date": "today"}, urls={"http://x/": "page"}, refuses=refused)
    async with box:
        assert await box.write("b/c.bin", b"\x00") == Path("b/c.bin")
        assert await box.read("./a.txt") == b"hi"
        assert (await box.run("date")).stdout == b"today"
        assert (await box.run("date -u")).returncode == 127
        async with box.http("tool") as client:
            assert (await client.send(HttpRequest(method="GET", url="http://x/"))).body == b"page"
            assert (await client.send(HttpRequest(method="GET", url="http://y/"))).status_code == 404
            with pytest.raises(ToolError, match="has 4 bytes, more than 3"):
                await client.send(HttpRequest(method="GET", url="http://x/", max_bytes=3))
            with pytest.raises(SandboxError, match="the sandbox refuses the URL https://evil"):
                await client.send(HttpRequest(method="GET", url="https://evil.example/"))
        with pytest.raises(FileNotFoundError):
            await box.read("nowhere")
        with pytest.raises(ToolError, match="has 2 bytes, more than 1"):
            await box.read("a.txt", max_bytes=1)
        with pytest.raises(SandboxError, match="the sandbox refuses the path secret/key"):
            box.check_path("secret/key", write=False)
        with pytest.raises(SandboxError, match="the sandbox refuses the command rm -r x"):
            box.check_command("rm -r x", cwd=".")
    assert (box.writes, box.commands_run) == (["b/c.bin"], ["date", "date -u"])
    assert [(purpose, request.url) for purpose, request in box.requests] == [
        ("tool", "http://x/"), ("tool", "http://y/"), ("tool", "http://x/"),
    ]  # fmt: skip
    assert FakeSandbox.combine(AnyBlock(a=1), AnyBlock(a=2, b=3)).model_dump() == {"a": 1, "b": 3}
    assert treadle.Host.of({"box": box.as_plugin()}).load("sandbox", "fake")(None, Path()) is box


@tool
async def double(n: int) -> int:
    """Double it."""
    return 2 * n


async def test_a_context_without_an_engine() -> None:
    limited = RateLimitError("busy", provider="p")
    ctx = FakeContext({"n": 4}, replies=["yes", limited], tools=[double], roles={"trim_policy": {"a": 1}, "memory": 2})
    request = ModelRequest(model="m", messages=(), stream=True)
    assert (await ctx.complete(request)).text == "yes"
    assert (ctx.texts, ctx.requests) == (["yes"], [request])
    with pytest.raises(RateLimitError):
        await ctx.complete(request)
    assert await ctx.call_tool("double", {"n": 3}) == 6
    assert ctx.render(Template.compile("{state.n}")) == "4"
    assert ctx.evaluate(Expression.compile("state.n > 3")) is True
    assert ctx.render_arguments(compile_arguments({"x": "state.n"})) == {"x": 4}
    ctx.apply({"made.deep": 1})
    assert ctx.state == {"n": 4, "made": {"deep": 1}}
    assert (ctx.role("memory"), ctx.role("trim_policy"), ctx.role("trim_policy", "a")) == (2, 1, 1)
    for missing in (lambda: ctx.role("sandbox"), lambda: ctx.role("trim_policy", "b"), lambda: ctx.tool("x")):
        with pytest.raises(NotInstalledError, match="give it to FakeContext"):
            missing()
    ctx.warn("careful")
    assert ctx.warnings == ["careful"]
    echo = await FakeContext().complete(ModelRequest(model="m", messages=(UserMessage.of("echo"),)))
    assert echo.text == "echo"


def test_every_name_is_there_and_none_else() -> None:
    for name in treadle.testing.__all__:
        assert getattr(treadle.testing, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'check_all'"):
        treadle.testing.check_all  # noqa: B018 - looking is the point
    assert reply("one two").usage.output_tokens == 2
