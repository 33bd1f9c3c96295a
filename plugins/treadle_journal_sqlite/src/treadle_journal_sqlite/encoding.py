"""Entries as JSON text and back.

Values that are long are kept once, by their hash. A request is kept as what it adds to the messages of the request
before it in the same step, so that a tool loop's record grows with its text and not with the square of it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
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

__all__ = ["Asked", "Decoder", "Encoder"]

Asked = tuple[str, str, str | None, Sequence[Message]]
"""Run, step and key of a request, and its messages."""

_LONG = 512
_DECODER = json.JSONDecoder()
_SHOWN = 80
_STATUSES: Mapping[str, StepStatus] = {str(each): each for each in StepStatus}
_CONSTANT_KEPT = 5
"""Texts of what many runs have, beside those of runs under way."""
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
_REST_OF_A_REQUEST = [each.name for each in fields(ModelRequest) if each.name != "messages"]
_RESULT_FIELDS = [
    each.name for each in fields(StepResult) if each.name not in ("exception", "usage", "output", "pending")
]


class Encoder:
    """Makes the JSON text of entries. Long texts are kept apart: ``longer`` holds those of the last entry by digest.

    ``asked`` is what the last entry asked of a model, to be handed to :meth:`appended` once its number is known.
    """

    def __init__(self) -> None:
        self.longer: dict[bytes, str] = {}
        self.asked: Asked | None = None
        self.kept: KeptDocument | None = None
        """That of a run that was read, which need not be kept anew as it goes on."""
        self._last: dict[str, dict[tuple[str, str | None], tuple[int, Sequence[Message]]]] = {}
        self._constant: dict[int, tuple[Any, str, dict[bytes, str]]] = {}
        self._kept_for: dict[str, set[int]] = {}
        self._runs_with: Counter[int] = Counter()

    def encode(self, run_id: str, step: str, data: Mapping[str, Any]) -> str:
        """The text of an entry."""
        self.longer, self.asked = {}, None
        place = run_id, step
        return f"{{{','.join([_pair(name, self._value(name, value, place)) for name, value in data.items()])}}}"

    def appended(self, asked: Asked, seq: int) -> None:
        """The entry that asked has that number. What is asked next is told by what is new in it."""
        run_id, step, key, messages = asked
        self._last.setdefault(run_id, {})[step, key] = seq, messages

    def forget(self, run_id: str) -> None:
        """The run is over."""
        self._last.pop(run_id, None)
        for constant in self._kept_for.pop(run_id, ()):
            self._runs_with[constant] -= 1
            if not self._runs_with[constant] and len(self._constant) > _CONSTANT_KEPT:
                del self._constant[constant], self._runs_with[constant]

    def _value(self, name: str, value: Any, place: tuple[str, str]) -> str:
        if isinstance(value, ModelRequest):
            return self._request(value, place, is_chained=name == "request")
        if isinstance(value, EmbedRequest):
            return _object(embed=self.put(dump(value)))
        if isinstance(value, ModelResponse | EmbedResponse):
            kind = "embedded" if isinstance(value, EmbedResponse) else "response"
            return _object(**{kind: self.put(dump(value))})
        if isinstance(value, StepResult):
            return self._step_result(value)
        if isinstance(value, StepOutcome):
            return self._outcome(value)
        if isinstance(value, RunResult):
            return self._run_result(value)
        if isinstance(value, Workflow) or name == "versions":
            return self._constant_text(value, place[0])
        if name == "workflow" and isinstance(value, Mapping):  # as it was read, of a run that is forked
            text = _json({name: each for name, each in value.items() if name not in ("document", "files")})
            return self._with_document(text, self.put(value["document"]), value["files"])
        return self.put(json_value(value))

    def put(self, value: Any) -> str:
        """The text of a JSON value in its place, or of the key of it where it is long."""
        text = _json(value)
        return f'{{"v":{text}}}' if len(text) <= _LONG else self._kept(text)

    def _kept(self, text: str) -> str:
        digest = hashlib.blake2b(text.encode("ascii"), digest_size=16)
        self.longer[digest.digest()] = text
        return f'{{"h":"{digest.hexdigest()}"}}'

    def _constant_text(self, value: Any, run_id: str) -> str:
        """Of what many runs have, such as their workflow: made once. What is long in it is kept once for a run."""
        known = self._constant.get(id(value))
        if known is None:
            before, self.longer = self.longer, {}
            text = self._workflow(value) if isinstance(value, Workflow) else self.put(value)
            known = self._constant[id(value)] = value, text, self.longer
            self.longer = before
        _, text, longer = known
        kept = self._kept_for.setdefault(run_id, set())
        if id(value) not in kept:
            kept.add(id(value))
            self._runs_with[id(value)] += 1
            self.longer |= longer
        return text

    def _request(self, request: ModelRequest, place: tuple[str, str], *, is_chained: bool) -> str:
        base, before = self._last.get(place[0], {}).get((place[1], request.key), (0, ()))
        same = 0
        for mine, theirs in zip(request.messages, before, strict=False):
            if mine is not theirs and mine != theirs:
                break
            same += 1
        if is_chained:
            self.asked = (*place, request.key, request.messages)
        added = ",".join([self.put(dump(message)) for message in request.messages[same:]])
        rest = self.put({"messages": [], **{name: dump(getattr(request, name)) for name in _REST_OF_A_REQUEST}})
        return f'{{"rest":{rest},"base":{base},"same":{same},"added":[{added}]}}'

    def _step_result(self, result: StepResult) -> str:
        given = ((name, getattr(result, name)) for name in _RESULT_FIELDS)
        plain = {name: json_value(value) for name, value in given if value is not None}
        usage = dump(result.usage) if result.usage != Usage.ZERO else None
        made = {"fields": self.put(plain), "output": self.put(json_value(result.output)), "usage": _json(usage)}
        if result.pending:
            made["pending"] = _json([each.to_json() for each in result.pending])
        return _object(**made)

    def _outcome(self, outcome: StepOutcome) -> str:
        made = {"value": self.put(json_value(outcome.value))}
        if outcome.shown is not outcome.value:
            made["raw"] = self.put(json_value(outcome.shown))
        if outcome.writes:
            made["writes"] = self._each(outcome.writes)
        if outcome.not_taken:
            made["not_taken"] = _json(sorted(outcome.not_taken))
        return _object(**made)

    def _each(self, values: Mapping[str, Any]) -> str:
        return f"{{{','.join([f'{_json(name)}:{self.put(json_value(value))}' for name, value in values.items()])}}}"

    def _run_result(self, result: RunResult) -> str:
        plain = {
            "run_id": result.run_id,
            "workflow_name": result.workflow_name,
            "status": str(result.status),
            "total_tokens": result.total_tokens,
            "total_cost_usd": result.total_cost_usd,
            "budget_usd": result.budget_usd,
            "total_duration_ms": result.total_duration_ms,
            "error": result.error,
            "warnings": [[each.step_id, each.message] for each in result.warnings],
            "annotations": json_value(result.annotations),
        }
        return _json(plain)[:-1] + "," + _pair("final_state", self.put(json_value(result.final_state))) + "}"

    def _workflow(self, workflow: Workflow) -> str:
        if self.kept is not None and self.kept.data is workflow.data:
            about, document = _about_workflow(workflow, self.kept.digest), _json(self.kept.place)
        else:
            about, document = _about_workflow(workflow, workflow.digest), self.put(json_value(workflow.data))
        return self._with_document(_json(about), document, workflow.files)

    def _with_document(self, about: str, document: str, files: Mapping[str, Any]) -> str:
        return f"{about[:-1]},{_pair('document', document)},{_pair('files', self._each(files))}}}"


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


_BROKEN = (ValueError, LookupError, TypeError, AttributeError)
"""What comes of an entry that does not say what it was written to say."""

_NEEDED: Mapping[str, Sequence[str]] = {
    "run_started": ("workflow", "state"),
    "run_resumed": ("workflow", "state", "assumed"),
    "answered": ("answers", "expired"),
    "tool_call_started": ("tool_name", "arguments"),
    "run_finished": ("result",),
}


class Decoder:
    """Makes entries of their JSON text. For one run, in order.

    :param text: gives what was kept under a key.
    :param damaged: the error that says what is wrong with the file.
    """

    def __init__(self, text: Callable[[str], str], damaged: Callable[[str], Exception]) -> None:
        self.document: KeptDocument | None = None
        self._text = text
        self._damaged = damaged
        self._kept: dict[str, Any] = {}
        self._messages: dict[int, tuple[Message, ...]] = {}
        self._requests: dict[int, _Later] = {}
        """Those whose messages have not been asked for, by the number of their entries."""
        self._results: dict[str, StepResult] = {}
        self._steps: list[str] = []

    def decode(self, seq: int, kind: str, step: str, text: str) -> Mapping[str, Any]:
        """The data of an entry.

        :raises Exception: that of ``damaged``: it cannot be made of that text.
        """
        try:
            return self._decode(seq, kind, step, text)
        except _BROKEN as error:
            raise self._unreadable(seq, error) from error

    def _unreadable(self, seq: int, error: Exception) -> Exception:
        return self._damaged(f"its entry {seq} cannot be read ({type(error).__name__}: {str(error)[:_SHOWN]})")

    def _decode(self, seq: int, kind: str, step: str, text: str) -> Mapping[str, Any]:
        if kind == "step_started":  # the commonest first: a run may have tens of thousands
            self._results.pop(step, None)
            if text == "{}":
                return {}
        if kind.startswith("model_call") and '"h":' not in text:  # or the journal may be closed by then
            later = _Later(
                text,
                lambda name, value: self._value(name, value, kind, seq),
                lambda error: self._unreadable(seq, error),
            )
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
        for name in _NEEDED.get(kind, ()):
            if name not in data and not step:
                raise KeyError(name)
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

    __slots__ = ("_made", "_make", "_raw", "_text", "_unreadable")

    def __init__(
        self, text: str, make: Callable[[str, Any], Any], unreadable: Callable[[Exception], Exception]
    ) -> None:
        self._text = text
        self._make = make
        self._unreadable = unreadable
        self._raw: Mapping[str, Any] | None = None
        self._made: dict[str, Any] = {}

    @property
    def raw(self) -> Mapping[str, Any]:
        """As it was written."""
        if self._raw is None:
            try:
                self._raw = dict(_DECODER.raw_decode(self._text)[0])
            except _BROKEN as error:
                raise self._unreadable(error) from error
        return self._raw

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            value = self.raw[name]
            try:
                self._made[name] = self._make(name, value)
            except _BROKEN as error:
                raise self._unreadable(error) from error
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


def _pair(name: str, text: str) -> str:
    """For a name that the code knows, which needs no escapes."""
    return f'"{name}":{text}'


def _object(**texts: str) -> str:
    return f"{{{','.join([_pair(name, text) for name, text in texts.items()])}}}"
