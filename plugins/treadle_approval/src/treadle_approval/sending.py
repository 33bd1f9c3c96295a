"""Sending the webhook of a gate."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import trio

from treadle import HttpRequest, Pending, SandboxError, StepContext, Template, ToolError, TreadleError
from treadle_approval.signing import SIGNATURE_HEADER, TIMESTAMP_HEADER, signature
from treadle_approval.webhook import SecretText, Webhook

__all__ = ["facts_of", "send"]

_WAITS = (0.0, 2.0, 4.0)
"""Seconds before each attempt; AgentLoom has the same."""
_BUSY = (408, 425, 429)


def facts_of(ctx: StepContext, question: Pending) -> dict[str, Any]:
    """What a webhook tells of a gate."""
    base = (getattr(ctx.config, "callback_url", None) or "").rstrip("/")
    gate = ctx.path
    facts: dict[str, Any] = {
        "run_id": ctx.outer_run_id,
        "step_id": ctx.path,
        "workflow_name": ctx.workflow_name,
        "status": "awaiting_approval",
        "gate": gate,
        "question": question.question,
        "choices": list(question.choices),
        "timeout_seconds": question.timeout,
    }
    if base:
        place = f"{quote(ctx.outer_run_id, safe='')}/{quote(gate, safe='')}"
        if set(question.choices) == {"approved", "rejected"}:
            facts |= {"approve_url": f"{base}/approve/{place}", "reject_url": f"{base}/reject/{place}"}
        else:
            facts["answer_url"] = f"{base}/answer"
    return facts


async def send(ctx: StepContext, hook: Webhook, question: Pending) -> None:
    """Send the webhook of a gate, in up to three attempts. Whatever goes wrong is a warning: the gate waits all the
    same, and can be answered."""
    try:
        with trio.move_on_after(hook.timeout) as limit:
            await _deliver(ctx, hook, hook.body(ctx, facts_of(ctx, question)))
    except TreadleError as error:
        hint = f"; {error.hint}" if error.hint else ""
        ctx.warn(f"the webhook was not delivered: {error.message}{hint}")
        return
    if limit.cancelled_caught:
        ctx.warn(f"the webhook was not delivered within notify.timeout ({hook.timeout:g} s)")


async def _deliver(ctx: StepContext, hook: Webhook, body: bytes) -> None:
    """:raises TreadleError: it cannot be delivered."""
    url = _text(ctx, hook.url)
    headers = {"Content-Type": "application/json", "User-Agent": "treadle-approval"}
    for name, value in hook.headers.items():
        headers = {known: each for known, each in headers.items() if known.lower() != name.lower()}
        headers[name] = _text(ctx, value)
    key = None if hook.secret is None else hook.secret.reveal()
    sandbox = await ctx.sandbox()
    failure = TreadleError("it was not tried")
    async with sandbox.http("webhook") as client:
        for wait in _WAITS:
            await trio.sleep(wait)
            if key is not None:
                now = str(int(time.time()))
                headers |= {TIMESTAMP_HEADER: now, SIGNATURE_HEADER: signature(key, now, body)}
            try:
                reply = await client.send(
                    HttpRequest(method="POST", url=url, headers=headers, content=body, timeout=hook.timeout)
                )
            except SandboxError:
                raise
            except ToolError as error:
                if not error.transient:
                    raise
                failure = error
                continue
            if 200 <= reply.status_code < 300:
                return
            failure = ToolError(f"the receiver answered {reply.status_code}")
            if reply.status_code < 500 and reply.status_code not in _BUSY:
                break
    raise failure


def _text(ctx: StepContext, value: SecretText | Template) -> str:
    return value.reveal() if isinstance(value, SecretText) else ctx.render(value)
