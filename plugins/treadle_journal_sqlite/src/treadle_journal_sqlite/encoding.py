"""Entries as JSON text and back.

Values that are long are kept once, by their hash. A request is kept as what it adds to the messages of the request
before it in the same step, so that a tool loop's record grows with its text and not with the square of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from treadle import (
    EmbedRequest,
    EmbedResponse,
    Message,
    ModelRequest,
    ModelResponse,
    Pending,
    RunResult,
    RunStatus,
    StepOutcome,
    StepResult,
    StepStatus,
    Usage,
    Workflow,
)
from treadle.contracts.events import RunWarning
from treadle.contracts.results import json_value
from treadle.messages import dump, load

__all__ = ["Decoder", "Encoder"]

_LONG = 512
_DECODER = json.JSONDecoder()
_STATUSES: Mapping[str, StepStatus] = {str(each): each for each in StepStatus}
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
_RESULT_FIELDS = [
    each.name for each in fields(StepResult) if each.name not in ("exception", "usage", "output", "pending")
]


class Encoder:
    """Makes the JSON text of entries. Long texts are kept apart: ``longer`` holds those of the last entry by digest."""

    def __init__(self) -> None:
        self.longer: dict[bytes, str] = {}
        self.kept: KeptDocument | None = None
        """That of a run that was read, which need not be kept anew as it goes on."""
        self._workflow_text: tuple[Workflow, dict[str, Any], str] | None = None
        self._last: dict[tuple[str, str, str | None], tuple[int, Sequence[Message]]] = {}
        self._workflows: dict[tuple[str, int], tuple[Workflow, Any]] = {}
        self._asked: tuple[tuple[str, str, str | None], Sequence[Message]] | None = None

    def encode(self, run_id: str, step: str, data: Mapping[str, Any]) -> str:
        """The text of an entry."""
        self.longer, self._asked = {}, None
        return _json({name: self._value(name, value, (run_id, step)) for name, value in data.items()})

    def appended(self, seq: int) -> None:
        """The entry has that number. What is asked next is told by what is new in it."""
        if self._asked is not None:
            place, messages = self._asked
            self._last[place] = seq, messages

    def forget(self, run_id: str) -> None:
        """The run is over."""
        self._last = {key: last for key, last in self._last.items() if key[0] != run_id}
        self._workflows = {key: each for key, each in self._workflows.items() if key[0] != run_id}

    def _value(self, name: str, value: Any, place: tuple[str, str]) -> Any:
        if isinstance(value, ModelRequest):
            return self._request(value, place, is_chained=name == "request")
        if isinstance(value, EmbedRequest):
            return {"embed": self.put(dump(value))}
        if isinstance(value, ModelResponse | EmbedResponse):
            kind = "embedded" if isinstance(value, EmbedResponse) else "response"
            return {kind: self.put(dump(value))}
        if isinstance(value, StepResult):
            return self._step_result(value)
        if isinstance(value, StepOutcome):
            return self._outcome(value)
        if isinstance(value, RunResult):
            return self._run_result(value)
        if isinstance(value, Workflow):
            # A run may have any number of child runs of one workflow, which is then kept already.
            known = self._workflows.get((place[0], id(value)))
            if known is None:
                known = self._workflows[place[0], id(value)] = value, self._workflow(value)
            return known[1]
        if name == "workflow" and isinstance(value, Mapping):  # as it was read, of a run that is forked
            files = {path: self.put(data) for path, data in value["files"].items()}
            return {**value, "document": self.put(value["document"]), "files": files}
        return self.put(json_value(value))

    def put(self, value: Any) -> Any:
        """A JSON value in its place, or the key of it where it is long."""
        if value is None or type(value) in (int, bool, float):
            return {"v": value}
        text = _json(value)
        if len(text) <= _LONG:
            return {"v": value}
        return self._kept(text)

    def _kept(self, text: str) -> dict[str, str]:
        digest = hashlib.blake2b(text.encode("ascii"), digest_size=16)
        self.longer[digest.digest()] = text
        return {"h": digest.hexdigest()}

    def _request(self, request: ModelRequest, place: tuple[str, str], *, is_chained: bool) -> Any:
        base, before = self._last.get((*place, request.key), (0, ()))
        same = 0
        for mine, theirs in zip(request.messages, before, strict=False):
            if mine is not theirs and mine != theirs:
                break
            same += 1
        if is_chained:
            self._asked = (*place, request.key), request.messages
        added = [self.put(dump(message)) for message in request.messages[same:]]
        rest = dump(replace(request, messages=()))
        return {"rest": self.put(rest), "base": base, "same": same, "added": added}

    def _step_result(self, result: StepResult) -> Any:
        plain = {name: json_value(getattr(result, name)) for name in _RESULT_FIELDS}
        plain = {name: value for name, value in plain.items() if value is not None}
        usage = dump(result.usage) if result.usage != Usage.ZERO else None
        pending = [each.to_json() for each in result.pending]
        return {"fields": self.put(plain), "output": self.put(json_value(result.output)), "usage": usage} | (
            {"pending": pending} if pending else {}
        )

    def _outcome(self, outcome: StepOutcome) -> Any:
        made: dict[str, Any] = {"value": self.put(json_value(outcome.value))}
        if outcome.shown is not outcome.value:
            made["raw"] = self.put(json_value(outcome.shown))
        if outcome.writes:
            made["writes"] = {path: self.put(json_value(value)) for path, value in outcome.writes.items()}
        if outcome.not_taken:
            made["not_taken"] = sorted(outcome.not_taken)
        return made

    def _run_result(self, result: RunResult) -> Any:
        return {
            "run_id": result.run_id,
            "workflow_name": result.workflow_name,
            "status": str(result.status),
            "final_state": self.put(json_value(result.final_state)),
            "total_tokens": result.total_tokens,
            "total_cost_usd": result.total_cost_usd,
            "budget_usd": result.budget_usd,
            "total_duration_ms": result.total_duration_ms,
            "error": result.error,
            "warnings": [[each.step_id, each.message] for each in result.warnings],
            "annotations": json_value(result.annotations),
        }

    def _workflow(self, workflow: Workflow) -> Any:
        files = {path: self.put(json_value(data)) for path, data in workflow.files.items()}
        if self.kept is not None and self.kept.data is workflow.data:
            about = _about_workflow(workflow, self.kept.digest)
            return {**about, "document": self.kept.place, "files": files}
        if self._workflow_text is None or self._workflow_text[0] is not workflow:  # a batch runs one many times
            about = _about_workflow(workflow, workflow.digest)
            self._workflow_text = workflow, about, _json(json_value(workflow.data))
        _, about, text = self._workflow_text
        document = {"v": json.loads(text)} if len(text) <= _LONG else self._kept(text)
        return {**about, "document": document, "files": files}


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """A document that is in the journal: as it was read from there, its digest, and its place in an entry."""

    data: Any
    digest: str
    place: Mapping[str, Any]


def _about_workflow(workflow: Workflow, digest: str) -> dict[str, Any]:
    given = workflow.data.get("config") or {}
    config = json_value(workflow.config.model_dump(mode="json", exclude_unset=True))
    overrides = {name: value for name, value in config.items() if name not in given or value != given[name]}
    return {
        "name": workflow.name,
        "source": workflow.source,
        "digest": digest,
        "overrides": {name: value for name, value in overrides.items() if value is not None},
        "file_digest": workflow.file_digest,
        "settings_digest": workflow.host.settings.digest,
        "order": workflow.order,
    }


class Decoder:
    """Makes entries of their JSON text. ``text`` gives what was kept under a key. For one run, in order."""

    def __init__(self, text: Callable[[str], str]) -> None:
        self.document: KeptDocument | None = None
        self._text = text
        self._kept: dict[str, Any] = {}
        self._messages: dict[int, tuple[Message, ...]] = {}
        self._requests: dict[int, _Later] = {}
        """Those whose messages have not been asked for, by the number of their entries."""
        self._results: dict[str, StepResult] = {}
        self._steps: list[str] = []

    def decode(self, seq: int, kind: str, step: str, text: str) -> Mapping[str, Any]:
        """The data of an entry."""
        if kind == "step_started":  # the commonest first: a run may have tens of thousands
            self._results.pop(step, None)
            if text == "{}":
                return {}
        if kind.startswith("model_call") and '"h":' not in text:  # or the journal may be closed by then
            later = _Later(text, lambda name, value: self._value(name, value, kind, seq))
            if kind == "model_call_started":
                self._requests[seq] = later
            return later
        raw = _DECODER.raw_decode(text)[0]
        if kind == "step_finished":
            result = self._results[step] = self._step_result(raw["result"])
            return (
                {"result": result, "outcome": self._outcome(raw["outcome"])} if "outcome" in raw else {"result": result}
            )
        data = {name: self._value(name, value, kind, seq) for name, value in raw.items()}
        if kind in ("run_started", "run_resumed") and not step:
            workflow = data["workflow"]
            self._steps = [each["id"] for each in workflow["document"].get("steps", ())]
            self._results = {} if kind == "run_started" else self._results
            if kind == "run_started":
                self.document = KeptDocument(workflow["document"], workflow["digest"], raw["workflow"]["document"])
        return data

    def _value(self, name: str, value: Any, kind: str, seq: int) -> Any:
        if name in ("request", "asked"):
            return (
                load(EmbedRequest, self._get(value["embed"])) if "embed" in value else self._request(value, name, seq)
            )
        if name == "response":
            shape = ModelResponse if "response" in value else EmbedResponse
            return load(shape, self._get(next(iter(value.values()))))
        if name == "workflow":
            files = {path: self._get(data) for path, data in value.get("files", {}).items()}
            return {**value, "document": self._get(value["document"]), "files": files}
        if name == "result" and kind == "run_finished":
            return self._run_result(value)
        return self._get(value)

    def _get(self, value: Mapping[str, Any]) -> Any:
        if "v" in value:
            return value["v"]
        key = value["h"]
        if key not in self._kept:
            self._kept[key] = self._text(key)
        return json.loads(self._kept[key])

    def _request(self, value: Mapping[str, Any], name: str, seq: int) -> ModelRequest:
        messages = self._messages.get(seq) if name == "request" else None
        if messages is None:
            messages = self._told(value)
        if name == "request":
            self._messages[seq] = messages
        plain: ModelRequest = load(ModelRequest, self._get(value["rest"]))
        return replace(plain, messages=messages)

    def _told(self, value: Mapping[str, Any]) -> tuple[Message, ...]:
        """The messages of a request. Those of the requests that it builds on, any number of them, are made first."""
        pending = []
        while (base := value["base"]) in self._requests and base not in self._messages:
            pending.append((base, value))
            value = self._requests.pop(base).raw["request"]
        messages = self._with_base(value)
        for base, value in reversed(pending):
            self._messages[base] = messages
            messages = self._with_base(value)
        return messages

    def _with_base(self, value: Mapping[str, Any]) -> tuple[Message, ...]:
        before = self._messages.get(value["base"], ())[: value["same"]]
        return (*before, *(load(Message, self._get(each)) for each in value["added"]))

    def _step_result(self, value: Mapping[str, Any]) -> StepResult:
        plain = self._get(value["fields"])
        plain.setdefault("cost_usd", None)
        plain["status"] = _STATUSES[plain["status"]]
        plain["output"] = self._get(value["output"])
        if value["usage"] is not None:
            plain["usage"] = load(Usage, value["usage"])
        if "pending" in value:
            plain["pending"] = tuple(map(Pending.from_json, value["pending"]))
        return StepResult(**plain)

    def _outcome(self, value: Mapping[str, Any]) -> StepOutcome:
        made = {name: self._get(value[name]) for name in ("value", "raw") if name in value}
        if "writes" in value:
            made["writes"] = {path: self._get(each) for path, each in value["writes"].items()}
        if "not_taken" in value:
            made["not_taken"] = frozenset(value["not_taken"])
        return StepOutcome(**made)

    def _run_result(self, value: Mapping[str, Any]) -> RunResult:
        known = self._results
        plain = {name: each for name, each in value.items() if name not in ("status", "final_state", "warnings")}
        return RunResult(
            **{**plain, "annotations": tuple(value["annotations"])},
            status=RunStatus(value["status"]),
            final_state=self._get(value["final_state"]),
            step_results={name: known.get(name) or undecided(name) for name in self._steps},
            warnings=tuple(
                RunWarning(run_id=value["run_id"], step_id=step_id, message=text) for step_id, text in value["warnings"]
            ),
        )


class _Later(Mapping[str, Any]):
    """The data of an entry, each value made when it is first asked for. Of a long run that goes on few ever are."""

    __slots__ = ("_made", "_make", "_raw", "_text")

    def __init__(self, text: str, make: Callable[[str, Any], Any]) -> None:
        self._text = text
        self._make = make
        self._raw: Mapping[str, Any] | None = None
        self._made: dict[str, Any] = {}

    @property
    def raw(self) -> Mapping[str, Any]:
        """As it was written."""
        if self._raw is None:
            self._raw = _DECODER.raw_decode(self._text)[0]
        return self._raw

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._make(name, self.raw[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.raw

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)


def undecided(step_id: str) -> StepResult:
    """The result of a step of which nothing is recorded."""
    return StepResult(step_id=step_id, status=StepStatus.PENDING, reason="it comes after a step that has not finished")


def _json(value: Any) -> str:
    return _ENCODER.encode(value)
