"""``treadle run --dry-run``: what each step would ask, of whom, and what that may cost. Imports the engine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import trio

import treadle
from treadle import (
    ConfigurationError,
    MemoryJournal,
    Message,
    ModelRequest,
    Session,
    Step,
    SystemMessage,
    Template,
    TextPart,
    UserMessage,
    Workflow,
)
from treadle.contracts.results import json_value
from treadle_cli import amounts
from treadle_cli.output import Channel

__all__ = ["dry_run"]

_ABOUT_CALLS = "what it asks is known only when it runs"


def dry_run(workflow: Workflow, state: Mapping[str, Any], stdout: Channel, *, as_json: bool) -> int:
    """Print every step in the order in which they run, and the totals; the exit code.

    Nothing is called, opened or recorded, and no key is needed.
    """
    steps = trio.run(_steps, workflow, {**workflow.state, **state})
    calls = [call for step in steps for call in step["calls"]]
    data = {
        "workflow_name": workflow.name,
        "steps": steps,
        "model_calls": len(calls),
        "input_tokens": sum(call["input_tokens"] for call in calls),
        "input_cost_usd": _sum(call["input_cost_usd"] for call in calls),
        "most_cost_usd": _sum(call["most_cost_usd"] for call in calls),
        "budget_usd": workflow.config.budget_usd,
        "is_complete": all(step["is_complete"] for step in steps),
    }
    if as_json:
        stdout.write(json.dumps(data, indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)
    else:
        stdout.write("".join(f"{line}\n" for line in _lines(data)))
    return 0


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else sum(each for each in known if each is not None)


# --- what is known ------------------------------------------------------------------------------------


async def _steps(workflow: Workflow, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    async with treadle.open(host=workflow.host, journal=MemoryJournal()) as session:
        return [each async for each in _steps_of(_Around(workflow, state, {}), session)]


@dataclass(frozen=True, slots=True)
class _Around:
    """A workflow and what is known where it runs.

    :param later: keys that are known only when it runs, each with the step that writes it.
    :param place: of a workflow inside a step, the step's dotted id and a dot.
    """

    workflow: Workflow
    state: Mapping[str, Any]
    later: Mapping[str, str]
    place: str = ""

    def is_open(self, reference: Any) -> bool:
        """Whether what is referred to is known only when it runs. A workflow inside a step is given names by that."""
        key = _key(reference)
        return key in self.later or (bool(self.place) and reference.root != "steps" and key not in self.state)


async def _steps_of(around: _Around, session: Session) -> AsyncIterator[dict[str, Any]]:
    workflow, later = around.workflow, dict(around.later)
    for step in _ordered(workflow):
        here = replace(around, later=later)
        yield await _step(step, here, session)
        for (outer, _), child in workflow.children.items():
            if outer == step.id:
                state = {**around.state, **child.state}
                inside = _Around(child, state, dict(later), f"{around.place}{step.id}.")
                async for each in _steps_of(inside, session):
                    yield each
        later |= {str(path.root): f"{around.place}{step.id}" for path in step.writes()}


def _ordered(workflow: Workflow) -> Iterator[Step]:
    """Each step after those that it waits for; otherwise as the document has them."""
    waits_for = {step.id: {*step.depends_on} for step in workflow.steps}
    for before, after in workflow.order:
        waits_for[after].add(before)
    left = list(workflow.steps)
    done: set[str] = set()
    while left:
        step = next(each for each in left if waits_for[each.id] <= done)
        left.remove(step)
        done.add(step.id)
        yield step


async def _step(step: Step, around: _Around, session: Session) -> dict[str, Any]:
    workflow, later = around.workflow, around.later
    reads = list(step.reads())
    templates = [value for _, value in reads if isinstance(value, Template)]
    texts = {each.source: each.preview(around.state, around.is_open) for each in templates}
    read = {_key(each) for value in templates for each in value.references}
    from_steps = {key: later[key] for key in sorted(read) if key in later}
    calls, notes = [], []
    if any(outer == step.id for outer, _ in workflow.children):
        notes.append("what is inside follows once, however often it runs")
    requests = list(step.model_requests(workflow.config))
    for request in requests:
        try:
            calls.append(await _call(_filled(request, texts), workflow, session))
        except ConfigurationError as error:
            notes.append(str(error))
    if not requests and "provider" in step.needs:
        notes.append(_ABOUT_CALLS)
    asked = {text for request in requests for text in _texts(request)}
    return {
        "id": f"{around.place}{step.id}",
        "type": step.type,
        "depends_on": list(step.depends_on),
        "calls": calls,
        "tools": [each.name for each in step.references() if each.role == "tool" and each.name],
        "fields": {
            field: texts[value.source] if isinstance(value, Template) else _source(value)
            for field, value in reads
            if not (isinstance(value, Template) and value.source in asked)
        },
        "from_steps": from_steps,
        "is_complete": not notes,
        "notes": notes,
    }


def _key(reference: Any) -> str:
    return str(reference.parts[0]) if reference.root == "state" and reference.parts else reference.root


def _source(value: Any) -> Any:
    source = getattr(value, "source", None)
    return str(value) if source is None else json_value(source)


def _filled(request: ModelRequest, texts: Mapping[str, str]) -> ModelRequest:
    return replace(request, messages=tuple(_filled_message(each, texts) for each in request.messages))


def _filled_message(message: Message, texts: Mapping[str, str]) -> Message:
    if isinstance(message, SystemMessage):
        return replace(message, text=texts.get(message.text, message.text))
    if isinstance(message, UserMessage):
        parts = (
            replace(each, text=texts.get(each.text, each.text)) if isinstance(each, TextPart) else each
            for each in message.parts
        )
        return replace(message, parts=tuple(parts))
    return message


def _texts(request: ModelRequest) -> Iterator[str]:
    for message in request.messages:
        if isinstance(message, SystemMessage | UserMessage):
            yield message.text


async def _call(request: ModelRequest, workflow: Workflow, session: Session) -> dict[str, Any]:
    estimate = await session.estimate(workflow, request)
    return {
        "provider": estimate.provider,
        "model": estimate.model,
        "messages": [
            {"role": "system" if isinstance(each, SystemMessage) else "user", "content": each.text}
            for each in request.messages
            if isinstance(each, SystemMessage | UserMessage)
        ],
        "attachments": sum(
            not isinstance(part, TextPart)
            for each in request.messages
            if isinstance(each, UserMessage)
            for part in each.parts
        ),
        "input_tokens": estimate.input_tokens,
        "most_output_tokens": estimate.most_output_tokens,
        "input_cost_usd": estimate.input_usd,
        "most_cost_usd": estimate.most_usd,
    }


# --- as text ------------------------------------------------------------------------------------------


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    for number, step in enumerate(data["steps"], start=1):
        after = f" (after {', '.join(step['depends_on'])})" if step["depends_on"] else ""
        yield f"{number}. {step['id']}: {step['type']}{after}"
        for call in step["calls"]:
            yield f"   asks {call['model']} of {call['provider']}, {_amounts(call)}"
            for message in call["messages"]:
                yield from _block(f"   {message['role']}: ", message["content"])
            if call["attachments"]:
                yield f"   with {call['attachments']} attachment{'s' if call['attachments'] > 1 else ''}, not counted"
        if step["tools"]:
            yield f"   tools: {', '.join(step['tools'])}"
        for field, value in step["fields"].items():
            yield from _block(
                f"   {field}: ", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            )
        for key, by in step["from_steps"].items():
            yield f"   '{key}' is written by step '{by}'"
        for note in step["notes"]:
            yield f"   {note}"
    yield ""
    yield _total(data)


def _block(head: str, text: str) -> Iterator[str]:
    first, *rest = text.rstrip("\n").split("\n")
    yield f"{head}{first}"
    yield from (f"{' ' * 6}{line}" for line in rest)


def _amounts(call: Mapping[str, Any]) -> str:
    read, written = call["input_tokens"], call["most_output_tokens"]
    if call["most_cost_usd"] == 0:
        price = "$0"
    elif call["input_cost_usd"] is None:
        price = "price unknown"
    elif call["most_cost_usd"] is None:
        price = f"{amounts.cost(call['input_cost_usd'])} and what the reply costs"
    else:
        price = f"at most {amounts.cost(call['most_cost_usd'])}"
    reply = "a reply without a limit" if written is None else f"at most {written:,} to write"
    return f"about {read:,} tokens to read, {reply}: {price}"


def _total(data: Mapping[str, Any]) -> str:
    calls = data["model_calls"]
    cost = "costs unknown"
    if data["most_cost_usd"] is not None:
        cost = "$0" if data["most_cost_usd"] == 0 else f"at most {amounts.cost(data['most_cost_usd'])}"
    elif data["input_cost_usd"] is not None:
        cost = f"{amounts.cost(data['input_cost_usd'])} and what the replies cost"
    budget = "" if data["budget_usd"] is None else f", of a budget of {amounts.cost(data['budget_usd'])}"
    more = "" if data["is_complete"] else ", besides what is known only when it runs"
    first = f"{calls} first call{'' if calls == 1 else 's'} of models"
    return f"{first}, about {data['input_tokens']:,} tokens to read, {cost}{budget}{more}; nothing was called"
