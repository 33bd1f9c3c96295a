"""``treadle run --dry-run``: what each step would ask, of whom, and what that may cost. Imports the engine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import Any

import trio

import treadle
from treadle import (
    ArgumentTree,
    ConfigurationError,
    Expression,
    MemoryJournal,
    Message,
    ModelRequest,
    Session,
    StatePath,
    Step,
    SystemMessage,
    Template,
    TemplateError,
    TextPart,
    ToolSpec,
    TreadleError,
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
        return [each async for each in _steps_of(_Around(workflow, state, _nobody), session)]


@dataclass(frozen=True, slots=True)
class _Around:
    """A workflow and what is known where a step of it runs.

    :param writers: the steps of which one has written a key before, or all of them parts of it; none of a key that is
        known beforehand.
    :param place: of a workflow inside a step, the step's dotted id and a dot.
    """

    workflow: Workflow
    state: Mapping[str, Any]
    writers: Callable[[str], Sequence[str]]
    place: str = ""

    def is_open(self, reference: Any) -> bool:
        """Whether what is referred to is known only when it runs. A workflow inside a step is given names by that."""
        key = _key(reference)
        inside = bool(self.place) and (isinstance(reference, StatePath) or reference.root != "steps")
        return bool(self.writers(key)) or (inside and key not in self.state)


class _Writers:
    """Who writes what of a workflow, as each of its steps sees it. Sets of steps are bits of an integer."""

    def __init__(self, around: _Around) -> None:
        self._around = around
        self._graph = graph = around.workflow.graph
        self._of: dict[str, list[int]] = {}
        self._before = [0] * len(graph.steps)
        self._needs = [0] * len(graph.steps)  # of the steps that may be skipped, those without which it is skipped too
        for index in self.order():
            for earlier in graph.earlier[index]:
                self._before[index] |= self._before[earlier] | 1 << earlier
            needed = [self._needs[each] for each in graph.dependencies[index]]
            self._needs[index] = reduce(and_, needed) if needed else 0
            if graph.gates[index] or graph.steps[index].when is not None:
                self._needs[index] |= 1 << index
            for path in graph.steps[index].writes():
                self._of.setdefault(str(path.root), []).append(index)

    def order(self) -> list[int]:
        """The steps' numbers, each after those that it waits for; otherwise as the document has them."""
        return sorted(range(len(self._graph.steps)), key=self._graph.rank.__getitem__)

    def seen_by(self, index: int, key: str) -> Sequence[str]:
        """The last ones before that step; of the workflow around this one where none of its own has written it."""
        before = self._before[index]
        found = [each for each in dict.fromkeys(self._of.get(key, ())) if before >> each & 1]
        last = [each for each in found if not any(self._replaces(other, each, index) for other in found)]
        ids = [f"{self._around.place}{self._graph.steps[each].id}" for each in last]
        if all(self._needs[each] & ~self._needs[index] for each in last):  # it may be that none of them has run
            ids = [*self._around.writers(key), *ids]
        return ids

    def _replaces(self, later: int, earlier: int, reader: int) -> bool:
        """Whether one runs after the other, and has done so wherever that and the reader run."""
        needed = self._needs[later] & ~(self._needs[earlier] | self._needs[reader])
        return not needed and bool(self._before[later] >> earlier & 1)


def _nobody(key: str) -> Sequence[str]:
    return ()


async def _steps_of(around: _Around, session: Session) -> AsyncIterator[dict[str, Any]]:
    workflow, writers = around.workflow, _Writers(around)
    for index in writers.order():
        step = workflow.graph.steps[index]
        here = replace(around, writers=partial(writers.seen_by, index))
        yield await _step(step, here, session)
        for (outer, field), child in workflow.children.items():
            if outer == step.id:
                async for each in _steps_of(_inside(step, field, child, here), session):
                    yield each


def _inside(step: Step, field: str, child: Workflow, here: _Around) -> _Around:
    """What is known in a workflow that the step runs."""
    given, is_over_state = step.child_start(field)
    place = f"{here.place}{step.id}."
    state, writers = ({**child.state, **here.state}, here.writers) if is_over_state else ({**child.state}, _nobody)
    if given is None:
        return _Around(child, state, writers, place)
    values = given.preview(here.state, here.is_open)
    unknown = {str(path[0]) for path, node in given.leaves() if len(path) == 1 and _is_open_path(node, here)}
    state |= {key: value for key, value in values.items() if key not in unknown}

    def written(key: str) -> Sequence[str]:
        return [place.removesuffix(".")] if key in unknown else () if key in values else writers(key)

    return _Around(child, state, written, place)


def _is_open_path(node: Any, here: _Around) -> bool:
    return isinstance(node, StatePath) and here.is_open(node)


async def _step(step: Step, around: _Around, session: Session) -> dict[str, Any]:
    workflow = around.workflow
    reads = list(step.reads())
    requests = list(step.model_requests(workflow.config))
    asked = {text for request in requests for text in _texts(request)}
    templates = {value.source: value for _, value in reads if isinstance(value, Template)}
    for text in asked - templates.keys():
        with suppress(TemplateError):  # of a file that the step names
            templates[text] = Template.compile(text)
    texts = {source: each.preview(around.state, around.is_open) for source, each in templates.items()}
    read = {
        _key(each) for value in (*templates.values(), *(value for _, value in reads)) for each in _references(value)
    }
    calls, notes = [], []
    if any(outer == step.id for outer, _ in workflow.children):
        notes.append("what is inside follows once, however often it runs")
    for request in requests:
        try:
            calls.append(await _call(_filled(request, texts, session), workflow, session))
        except ConfigurationError as error:
            notes.append(str(error))
    if not requests and "provider" in step.needs:
        notes.append(_ABOUT_CALLS)
    named = [each.name for each in step.references() if each.role == "tool" and each.name]
    return {
        "id": f"{around.place}{step.id}",
        "type": step.type,
        "depends_on": list(step.depends_on),
        "calls": calls,
        "tools": list(dict.fromkeys([*named, *(tool.name for request in requests for tool in request.tools)])),
        "fields": {
            field: texts[value.source] if isinstance(value, Template) else _shown(value, around)
            for field, value in reads
            if not (isinstance(value, Template) and value.source in asked)
        },
        "from_steps": {key: list(writers) for key in sorted(read) if (writers := around.writers(key))},
        "is_complete": not notes,
        "notes": notes,
    }


def _key(reference: Any) -> str:
    is_path = isinstance(reference, StatePath)
    return str(reference.parts[0]) if (is_path or reference.root == "state") and reference.parts else reference.root


def _references(value: Template | Expression | StatePath | ArgumentTree) -> Iterable[Any]:
    """What is read of the state."""
    if isinstance(value, StatePath):
        return [value]
    paths = value.state_paths if isinstance(value, ArgumentTree) else ()
    return [*value.references, *paths]


def _shown(value: Expression | StatePath | ArgumentTree, around: _Around) -> Any:
    """A field's value as far as it is known; a path as it may be written."""
    if isinstance(value, StatePath):
        return f"state.{value}"
    return json_value(value.preview(around.state, around.is_open) if isinstance(value, ArgumentTree) else value.source)


def _filled(request: ModelRequest, texts: Mapping[str, str], session: Session) -> ModelRequest:
    messages = tuple(_filled_message(each, texts) for each in request.messages)
    return replace(request, messages=messages, tools=tuple(_whole(each, session) for each in request.tools))


def _whole(spec: ToolSpec, session: Session) -> ToolSpec:
    """The tool as the model will see it: what the document does not say of it, it says itself."""
    if spec.parameters.get("properties"):
        return spec
    try:
        own = session.tool(spec.name).spec
    except TreadleError:
        return spec  # told where it is named
    return replace(own, description=spec.description or own.description)


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
            names = ", ".join(f"'{each}'" for each in by)
            yield f"   '{key}' is written by {'step' if len(by) == 1 else 'one of the steps'} {names}"
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
    if not calls:
        return f"no call of a model{' is known beforehand' if more else ''}{budget}; nothing was called"
    first = f"{calls} first call{'' if calls == 1 else 's'} of models"
    return f"{first}, about {data['input_tokens']:,} tokens to read, {cost}{budget}{more}; nothing was called"
