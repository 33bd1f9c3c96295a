"""The log of a run: ids, times, tokens and cost on every line, and no content unless it is asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import structlog
import trio
from engine_doubles import act, failing, flow, host_of, pick, provider_of, request, run
from structlog.testing import CapturingLogger

import treadle
from treadle import LogObserver, Pending, StepOutcome
from treadle.contracts.tool import Tool
from treadle.messages import UserMessage

SECRETS = ("hello there", "hi-prompt", "argument-x", "tool-result", "state-value", "quoted-reply", "Ship-it", "careful")


class Echo(Tool):
    name = "echo"

    async def call(self, arguments: Any, context: Any) -> Any:
        if arguments.get("fails"):
            raise ValueError("quoted-reply")
        return "tool-result"


async def lines_of(content: bool) -> list[tuple[str, dict[str, Any]]]:
    """Level, and event with fields, of a run with everything in it."""

    async def ask(ctx):
        reply = await ctx.complete(request(messages=(UserMessage.of("hi-prompt"),), stream=True))
        ctx.warn("careful")
        return reply.text

    async def use(ctx):
        with pytest.raises(treadle.ToolError):
            await ctx.call_tool("echo", {"fails": True})
        return await ctx.call_tool("echo", {"text": "argument-x"}, call_id="c1")

    async def sub(ctx):
        return dict((await ctx.run_child({"name": "inner", "steps": [act("leaf", value=1)]})).final_state)

    async def gate(ctx):
        return StepOutcome(pending=(Pending(question="Ship-it"),))

    host = host_of(
        {
            "ask": ask,
            "use": use,
            "sub": sub,
            "gate": gate,
            "bad": failing(2, lambda: OSError("quoted-reply")),
        },
        provider=provider_of(cost=0.5),
        tools={"echo": Echo},
    )
    steps = [
        act("ask", output="reply"),
        act("use", "ask"),
        act("sub", "use"),
        pick("pick", "sub", choices=["gate", "not"], take=["gate"]),
        act("gate", "pick"),
        act("not", "pick"),
        act("bad", "sub", retry={"max_retries": 1, "backoff_max": 0}),
    ]
    log = CapturingLogger()
    workflow = flow(host, *steps, state={"s": "state-value"}, config={"max_concurrent_steps": 1})
    await run(workflow, run_id="r", observers=[LogObserver(log, content=content)])
    return [(call.method_name, {"event": call.args[0], **call.kwargs}) for call in log.calls]


async def test_every_line_names_the_run_and_the_step():
    lines = await lines_of(content=False)
    assert all(fields["run_id"] == "r" for _, fields in lines)
    told = [(level, fields["event"], fields.get("step_id")) for level, fields in lines]
    assert told[:6] == [
        ("info", "run_started", None),
        ("info", "step_started", "ask"),
        ("debug", "model_call_started", "ask"),
        ("debug", "model_call_finished", "ask"),
        ("warning", "run_warning", "ask"),
        ("info", "step_finished", "ask"),
    ]
    assert ("info", "step_finished", "sub.leaf") in told
    assert ("warning", "step_retrying", "bad") in told
    assert ("error", "step_finished", "bad") in told
    assert told[-1] == ("info", "run_finished", None)


async def test_times_tokens_and_cost_are_told(autojump_clock):
    lines = await lines_of(content=False)
    found = {(fields["event"], fields.get("step_id")): fields for _, fields in lines}
    asked = found["model_call_finished", "ask"]
    assert (asked["provider"], asked["model"], asked["finish_reason"]) == ("double", "double-1", "stop")
    assert (asked["input_tokens"], asked["output_tokens"], asked["cost_usd"], asked["duration_ms"]) == (10, 5, 0.5, 0)
    finished = found["step_finished", "ask"]
    assert (finished["status"], finished["attempts"], finished["cost_usd"]) == ("success", 1, 0.5)
    bad = found["step_finished", "bad"]
    assert (bad["status"], bad["attempts"], bad["error_type"]) == ("failed", 2, "OSError")
    assert bad["error_classification"] == "transient"
    assert found["step_finished", "not"]["reason"] == "'pick' did not choose it"
    assert found["step_finished", "gate"]["pending"] == 1
    assert found["tool_call_finished", "use"]["call_id"] == "c1"
    ended = found["run_finished", None]
    assert (ended["workflow_name"], ended["status"], ended["total_tokens"], ended["cost_usd"]) == (
        "flow",
        "paused",
        15,
        0.5,
    )


async def test_no_line_has_content_unless_it_is_asked_for():
    without, everything = repr(await lines_of(content=False)), repr(await lines_of(content=True))
    assert [secret for secret in SECRETS if secret in without] == []
    # Arguments and results of tools are in no event: only what a step makes of them is told.
    assert [secret for secret in SECRETS if secret not in everything] == ["argument-x"]


async def test_pieces_of_text_are_content():
    assert "text_emitted" not in {fields["event"] for _, fields in await lines_of(content=False)}
    texts = [fields["text"] for _, fields in await lines_of(content=True) if fields["event"] == "text_emitted"]
    assert texts == ["hello", " there"]


async def test_a_model_call_that_fails_is_a_warning_without_its_text():
    async def broken(request):
        await trio.lowlevel.checkpoint()
        raise treadle.UnavailableError("quoted-reply")
        yield

    async def ask(ctx):
        await ctx.complete(request())

    log, host = CapturingLogger(), host_of({"a": ask}, provider=provider_of(broken))
    await run(flow(host, act("a")), observers=[LogObserver(log)])
    failed = [call for call in log.calls if call.args[0] == "model_call_failed"]
    assert [(call.method_name, call.kwargs["provider"], "error" in call.kwargs) for call in failed] == [
        ("warning", "double", False)
    ]


async def test_a_run_that_failed_ends_with_an_error():
    log = CapturingLogger()
    await run(flow(host_of({"a": failing(1, lambda: ValueError("no"))}), act("a")), observers=[LogObserver(log)])
    assert (log.calls[-1].method_name, log.calls[-1].kwargs["status"]) == ("error", "failed")


async def test_without_a_logger_it_writes_to_that_of_structlog():
    with structlog.testing.capture_logs() as lines:
        await run(flow(host_of(), act("a")), run_id="r", observers=[LogObserver()])
    assert [line["event"] for line in lines] == ["run_started", "step_started", "step_finished", "run_finished"]


def test_structlog_is_loaded_by_the_observer_alone():
    program = "import sys, treadle; treadle.LogObserver; print('structlog' in sys.modules); treadle.LogObserver(); "
    program += "print('structlog' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]
