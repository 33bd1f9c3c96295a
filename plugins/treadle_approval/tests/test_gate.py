"""The step ``approval_gate``: what it asks, what it gives, whom it tells."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest
import trio

import treadle
import treadle_approval.plugin
import treadle_router.plugin
import treadle_sandbox.plugin
from treadle import DocumentError, Host, HttpReply, MemoryJournal
from treadle.testing import FakeContext, FakeSandbox, RecordingObserver
from treadle_approval import verify
from treadle_approval.step import ApprovalGate
from treadle_approval.webhook import Webhook

from wire.http_server import Hang, Json, WireServer

HOST = Host.of(
    {
        "approval": treadle_approval.plugin,
        "router": treadle_router.plugin,
        "sandbox": treadle_sandbox.plugin,
    }
)
OPEN = {"sandbox": {"allow_internal_webhook_targets": True}}


def gate(step_id: str = "review", **fields: Any) -> dict[str, Any]:
    return {"id": step_id, "type": "approval_gate", **fields}


def flow(*steps: Mapping[str, Any], host: Host = HOST, **document: Any) -> treadle.Workflow:
    return treadle.build_workflow({"name": "flow", "steps": list(steps), **document}, host=host)


async def run(workflow: treadle.Workflow, journal: Any = None, *answers: Mapping[str, str], **how: Any) -> Any:
    journal = journal or MemoryJournal()
    async with treadle.open(host=workflow.host, journal=journal) as session:
        result = await session.run(workflow, run_id="r", **how)
    for each in answers:
        async with treadle.open(host=workflow.host, journal=journal) as session:
            result = await session.resume("r", answers=each)
    return result


# --- answers ---


@pytest.mark.parametrize("answer", ["approved", "rejected"])
async def test_the_answer_is_the_output_and_a_rejection_fails_nothing(answer: str) -> None:
    result = await run(flow(gate(output="decision")), None, {"review": answer})
    assert result.status == "success"
    assert (result.final_state["decision"], result.step_results["review"].output) == (answer, answer)


async def test_a_rejection_is_routed_on() -> None:
    conditions = [{"expression": "state.decision == 'approved'", "target": "send"}]
    router = {"id": "route", "type": "router", "depends_on": ["review"], "conditions": conditions, "default": "drop"}
    ends = [gate(name, depends_on=["route"], question=f"{name}?") for name in ("send", "drop")]
    result = await run(flow(gate(output="decision"), router, *ends), None, {"": "rejected"})
    assert (result.step_results["send"].status, result.step_results["drop"].status) == ("skipped", "paused")


async def test_a_question_is_a_template_and_has_choices_of_its_own_or_none() -> None:
    steps = [
        gate("size", question="Size for {state.who}?", choices=["small", "large"], output="size"),
        gate("note", question="Why?", choices=[], output="note"),
        gate("plain"),
    ]
    workflow = flow(*steps, state={"who": "ann"})
    journal = MemoryJournal()
    result = await run(workflow, journal)
    asked = {each.gate: (each.question, each.choices) for each in result.pending}
    assert asked == {
        "size": ("Size for ann?", ("small", "large")),
        "note": ("Why?", ()),
        "plain": ("Approve 'plain'?", ("approved", "rejected")),
    }
    async with treadle.open(host=HOST, journal=journal) as session:
        result = await session.resume("r", answers={"note": 'so "it" is', "size": "large"})
        assert (result.final_state["size"], result.final_state["note"]) == ("large", 'so "it" is')


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({}, "rejected"),
        ({"on_timeout": "reject"}, "rejected"),
        ({"on_timeout": "approve"}, "approved"),
        ({"on_timeout": "approved"}, "approved"),
        ({"on_timeout": "rejected"}, "rejected"),
        ({"choices": ["a", "b"], "on_timeout": "b"}, "b"),
        ({"choices": [], "on_timeout": "nothing was said"}, "nothing was said"),
    ],
)
async def test_when_its_time_is_over_the_answer_is_on_timeout(
    fields: dict[str, Any], answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = MemoryJournal()
    workflow = flow(gate(timeout_seconds=30, output="x", **fields))
    now = time.time()
    await run(workflow, journal)
    monkeypatch.setattr(time, "time", lambda: now + 60)
    async with treadle.open(host=HOST, journal=journal) as session:
        result = await session.resume("r")
    assert (result.status, result.final_state["x"]) == ("success", answer)
    assert [each.message for each in result.warnings] == [f"nobody answered within 30 s, so the answer is '{answer}'"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"on_timeout": "maybe", "timeout_seconds": 1}, "on_timeout: must be approved or rejected, not 'maybe'"),
        ({"choices": ["a"], "timeout_seconds": 1}, "on_timeout: say what the answer is when nobody answers in time"),
        ({"choices": ["a"], "on_timeout": "b", "timeout_seconds": 1}, "on_timeout: must be one of a, not 'b'"),
        ({"choices": ["a", "a"]}, "an answer stands there twice"),
        ({"choices": [" "]}, "an answer must not be empty"),
        ({"timeout_seconds": 0}, "steps.review.timeout_seconds"),
        ({"notfy": {}}, "unknown field; did you mean 'notify'?"),
        ({"notify": {}}, "url"),
        ({"notify": {"url": "http://x/", "body_template": '{"a": '}}, "body_template: not JSON"),
        ({"notify": {"url": "http://x/", "headers": {"a b": "c"}}}, "headers: 'a b' is no name of a header"),
        ({"notify": {"url": "http://x/", "secret": "hush"}}, "a secret is given by reference"),
    ],
)
def test_a_mistake_is_found_when_the_file_loads(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        flow(gate(**fields))
    assert message in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8655", "hooks.example/x", "ftp://hooks.example", "https://"])
def test_the_address_of_a_webhook_begins_as_one(url: str) -> None:
    with pytest.raises(DocumentError) as caught:
        flow(gate(notify={"url": url}))
    (problem,) = caught.value.problems
    assert (problem.path, problem.message) == (
        "steps.review.notify.url",
        f"an address begins with http:// or https://, and '{url}' does not",
    )


@pytest.mark.parametrize("url", ["{base}/x", "HTTPS://hooks.example", "env:HOOK", "http{s}://hooks.example"])
def test_an_address_that_only_the_run_knows_is_not_judged(url: str) -> None:
    assert flow(gate(notify={"url": url}), state={"base": "", "s": ""}).warnings == ()


@pytest.mark.parametrize(
    ("body", "fields", "callback", "told"),
    [
        (
            "{approve_url}",
            {},
            None,
            "'{approve_url}' stays as it is written: config.callback_url does not say where `treadle serve` is reached",
        ),
        ("{approve_url} {reject_url}", {}, "https://t.example", None),
        (
            "{approve_url}",
            {"choices": ["a"]},
            "https://t.example",
            "'{approve_url}' stays as it is written: with these choices the address is {answer_url}",
        ),
        (
            "{aprove_url}",
            {},
            "https://t.example",
            "'{aprove_url}' stays as it is written, as nothing provides 'aprove_url'; did you mean 'approve_url'?",
        ),
        ("{run_id} {step_id} {workflow_name} {gate} {question} {questions}", {}, None, None),
    ],
)
def test_placeholders_of_a_webhook_that_stand_for_nothing_are_warned_about(
    body: str, fields: dict[str, Any], callback: str | None, told: str | None
) -> None:
    notify = {"url": "https://a.example", "body_template": {"text": body}}
    config = {} if callback is None else {"callback_url": callback}
    warnings = flow(gate(notify=notify, **fields), config=config).warnings
    assert [each.message for each in warnings] == ([] if told is None else [told])


def test_a_time_limit_with_a_mistake_is_not_missing() -> None:
    with pytest.raises(DocumentError) as caught:
        flow(gate(timeout_seconds="1h", on_timeout="approve"))
    (problem,) = caught.value.problems
    assert problem.path == "steps.review.timeout_seconds"


def test_an_answer_without_a_time_limit_is_warned_about() -> None:
    (warning,) = flow(gate(on_timeout="approve")).warnings
    assert warning.message == "there is no timeout_seconds, so it waits for ever and this is never the answer"


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://user@hooks.example:8443/x?y", "hooks.example"), ("env:HOOK", "*"), ("{state.url}", "*")],
)
def test_the_host_of_a_webhook_is_told_to_those_who_look_before_they_run(url: str, host: str) -> None:
    assert [(each.kind, each.name) for each in Webhook.model_validate({"url": url}).rights()] == [("host", host)]


# --- webhooks ---


@pytest.fixture
async def receiver() -> Any:
    async with WireServer.open() as opened:
        yield opened


async def test_a_webhook_is_sent_once_and_its_signature_is_verified_by_a_stranger(
    receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_KEY", "a shared secret")
    monkeypatch.setenv("HOOK_TOKEN", "tok-12345")
    receiver.reply(Json({}))
    notify = {
        "url": f"{receiver.url}/hook",
        "headers": {"Authorization": "Bearer env:HOOK_TOKEN", "X-Plain": "for {state.who}"},
        "secret": "env:HOOK_KEY",
    }
    config = {**OPEN, "callback_url": "https://gates.example/treadle/"}
    workflow = flow(gate(question="Ship?", notify=notify), state={"who": "ann"}, config=config)
    journal = MemoryJournal()
    paused = await run(workflow, journal)
    assert paused.status == "paused", paused.error
    assert [each.message for each in paused.warnings] == []
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/hook")
    assert request.json == {
        "run_id": "r",
        "step_id": "review",
        "workflow_name": "flow",
        "status": "awaiting_approval",
        "gate": "review",
        "question": "Ship?",
        "choices": ["approved", "rejected"],
        "timeout_seconds": None,
        "approve_url": "https://gates.example/treadle/approve/r/review",
        "reject_url": "https://gates.example/treadle/reject/r/review",
    }
    headers = request.headers
    assert (headers["authorization"], headers["x-plain"]) == ("Bearer tok-12345", "for ann")
    assert headers["content-type"] == "application/json"
    signed = {"timestamp": headers["x-treadle-timestamp"], "signed": headers["x-treadle-signature"]}
    assert verify("a shared secret", **signed, body=request.body)
    assert not verify("another secret", **signed, body=request.body)
    assert not verify("a shared secret", **signed, body=request.body + b" ")
    async with treadle.open(host=HOST, journal=journal) as session:
        await session.resume("r")
        await session.resume("r", answers={"": "approved"})
    assert len(receiver.requests) == 1, "who was told is not told again"
    assert "tok-12345" not in str(list(journal.entries("r")))


async def test_a_body_of_ones_own_is_json_and_tells_nothing_that_is_redacted(receiver: Any) -> None:
    receiver.reply(Json({}))
    template = (
        '{"text": "{state.who} asks at {gate} of {workflow_name}", "card": {state.card}, "pin": "pin {state.pin}"}'
    )
    workflow = flow(
        gate(notify={"url": receiver.url, "body_template": template}),
        state={"who": 'O\'Brien "Bob" \\', "card": 4111, "pin": "1234-5678"},
        state_schema={"card": {"redact": True}, "pin": {"redact": True}},
        config=OPEN,
    )
    result = await run(workflow)
    assert [each.message for each in result.warnings] == []
    assert [each.message for each in workflow.warnings] == []
    (body,) = receiver.bodies()
    assert body["text"] == 'O\'Brien "Bob" \\ asks at review of flow'
    assert body["card"].startswith("<REDACTED:")
    assert body["pin"].startswith("pin <REDACTED:")


async def test_another_content_type_takes_any_text(receiver: Any) -> None:
    receiver.reply(Json({}))
    notify = {"url": receiver.url, "headers": {"content-type": "text/plain"}, "body_template": "{gate} waits\n"}
    await run(flow(gate(notify=notify), config=OPEN))
    assert (receiver.last.headers["content-type"], receiver.last.body) == ("text/plain", b"review waits\n")


@pytest.mark.parametrize(
    ("timeout", "status", "tries", "seconds", "message"),
    [
        (30, 503, 3, 6.0, "the webhook was not delivered: the receiver answered 503"),
        (30, 429, 3, 6.0, "the webhook was not delivered: the receiver answered 429"),
        (5, 503, 2, 5.0, "the webhook was not delivered within notify.timeout (5 s)"),
        (30, 400, 1, 0.0, "the webhook was not delivered: the receiver answered 400"),
        (30, 200, 1, 0.0, None),
    ],
)
async def test_a_webhook_is_tried_three_times_within_its_time(
    timeout: float, status: int, tries: int, seconds: float, message: str | None, autojump_clock: Any
) -> None:
    url = "http://a.example/"
    sandbox = FakeSandbox(urls={url: HttpReply(status_code=status, headers={}, body=b"", url=url)})
    context = FakeContext()
    context.sandbox = _giving(sandbox)  # type: ignore[method-assign]
    step = ApprovalGate.model_validate(gate(notify={"url": url, "timeout": timeout}))
    outcome = await step.run(context)
    assert [each.question for each in outcome.pending] == ["Approve 'review'?"]
    assert (len(sandbox.requests), trio.current_time()) == (tries, seconds)
    assert [purpose for purpose, _ in sandbox.requests] == ["webhook"] * tries
    assert context.warnings == ([] if message is None else [message])


def _giving(sandbox: FakeSandbox) -> Any:
    async def give() -> FakeSandbox:
        await trio.lowlevel.checkpoint()
        return sandbox

    return give


@pytest.mark.parametrize(
    ("replies", "config", "timeout", "message"),
    [
        ([Json({}, 404)], OPEN, 30, "the webhook was not delivered: the receiver answered 404"),
        ([Hang()], OPEN, 0.2, "the webhook was not delivered within notify.timeout (0.2 s)"),
        ([], {}, 30, "the webhook was not delivered: the sandbox refuses internal addresses"),
        ([Json({}, 302, {"location": "http://169.254.169.254/"})], OPEN, 30, "the receiver answered 302"),
    ],
)
async def test_what_cannot_be_delivered_is_a_warning_and_the_gate_waits(
    replies: list[Any], config: Any, timeout: float, message: str
) -> None:
    observer = RecordingObserver()
    async with WireServer.open() as receiver:
        receiver.reply(*replies)
        notify = {"url": receiver.url, "timeout": timeout}
        result = await run(flow(gate(notify=notify), config=config), observers=[observer])
        assert len(receiver.requests) == len(replies)
    assert (result.status, [each.gate for each in result.pending]) == ("paused", ["review"])
    (warning,) = result.warnings
    assert message in warning.message
    assert "RunWarning" in observer.kinds()


async def test_without_its_secret_or_a_sandbox_nothing_is_sent() -> None:
    notify = {"url": "env:NO_SUCH_ADDRESS", "secret": "env:NO_SUCH_KEY"}
    (warning,) = (await run(flow(gate(notify=notify)))).warnings
    assert warning.message == (
        "the webhook was not delivered: the environment variable NO_SUCH_ADDRESS is not set; export NO_SUCH_ADDRESS=..."
    )
    bare = Host.of({"approval": treadle_approval.plugin})
    (warning,) = (await run(flow(gate(notify={"url": "http://a.example/"}), host=bare))).warnings
    assert "none is installed; pip install treadle-sandbox" in warning.message


def test_checking_a_gate_needs_no_trio_and_no_client() -> None:
    code = (
        "import sys, treadle_approval.step as s; s.ApprovalGate.model_validate({'id': 'a', 'type': 'approval_gate', "
        "'notify': {'url': 'http://x/'}}); print([m for m in ('trio', 'h11', 'httpx2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
