"""What a server answers to each request."""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import trio

from treadle import ConfigurationError, Record, RunStatus, Session, TreadleError, Workflow, close_match, hide_secrets
from treadle_approval.continuing import Continuations, folder_problem, tools_problem
from treadle_approval.http import Answer, Request

__all__ = ["Routes", "is_loopback"]

_RUN = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
_GATE = re.compile(r"\w[\w.:-]{0,999}")
_PATH = re.compile(r"/(?P<verb>approve|reject)/(?P<run>[^/]*)(?:/(?P<gate>.*))?", re.DOTALL)
_DECISIONS = {"approve": "approved", "reject": "rejected"}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_MOST_LOGGED = 2000


class _RefusedError(Exception):
    def __init__(self, status: int, why: str, **more: Any) -> None:
        super().__init__(why)
        self.answer = Answer(status, {"error": why, **more})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Routes:
    """Answers requests from a session's journal.

    :param token: what every request must have; None where none is asked for.
    :param hosts: what a ``Host`` header may name, without its port; None for anything.
    :param say: tells whoever runs the server.
    :param now: seconds since 1970.
    """

    def __init__(
        self,
        session: Session,
        runs: Continuations,
        *,
        token: str | None,
        hosts: Collection[str] | None,
        say: Callable[[str], object],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._runs = runs
        self._token = None if token is None else token.encode("utf-8")
        self._hosts = None if hosts is None else frozenset(hosts) | _LOOPBACK
        self._say = say
        self._now = now

    async def answer(self, request: Request) -> Answer:
        """The answer to a request. What goes wrong with a journal or a run is one too."""
        try:
            self._admit(request)
            return await self._route(request)
        except _RefusedError as refused:
            return refused.answer
        except ConfigurationError as error:
            return Answer(409, {"error": error.message})
        except (TreadleError, OSError) as error:
            self._say(f"error: {error}")
            return Answer(500, {"error": "the server cannot read or write its journal"})

    def _admit(self, request: Request) -> None:
        """Refuse who may not ask. A page of the web can make its reader's browser ask this server, by its address or,
        after a change of DNS, by a name of the page's own; browsers then say so in Origin or Host."""
        headers = request.headers
        host = headers.get("host", b"").decode("latin-1")
        if self._hosts is not None and _without_port(host).lower() not in self._hosts:
            raise _RefusedError(403, "the Host header names no address of this server")
        origin = headers.get("origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2].lower() != host.lower():
            raise _RefusedError(403, "pages of other origins may not ask this server")
        if self._token is None:
            return
        bearer = headers.get("authorization", b"").partition(b" ")
        given = headers.get("x-treadle-token", bearer[2].strip() if bearer[0].lower() == b"bearer" else b"")
        if not hmac.compare_digest(given, self._token):
            raise _RefusedError(401, "the token is missing or wrong")

    async def _route(self, request: Request) -> Answer:
        path = request.target.partition("?")[0]
        if request.method == "GET" and path == "/pending":
            return Answer(200, {"paused_runs": await self._paused()})
        if request.method == "POST":
            if path == "/webhook":
                said = json.dumps(hide_secrets(_object(request.body)), ensure_ascii=True)
                self._say(f"webhook: {said[:_MOST_LOGGED]}")
                return Answer(200, {"status": "received"})
            if path == "/answer":
                data = _object(request.body)
                return await self._decide(_text(data, "run_id"), data.get("gate"), _text(data, "answer"))
            if found := _PATH.fullmatch(path):
                gate = found["gate"]
                if gate is None and request.body.strip():
                    gate = _object(request.body).get("gate")
                else:
                    gate = None if gate is None else unquote(gate)
                return await self._decide(unquote(found["run"]), gate, _DECISIONS[found["verb"]])
        if path == "/pending":
            raise _RefusedError(405, "GET this address", allow="GET")
        if request.method != "POST" and (path in ("/webhook", "/answer") or _PATH.fullmatch(path)):
            raise _RefusedError(405, "POST to this address", allow="POST")
        raise _RefusedError(404, "there is nothing of that name here")

    # --- what waits ---

    async def _paused(self) -> list[dict[str, Any]]:
        found = []
        for run_id in list(self._session.journal.unfinished()):
            await trio.lowlevel.checkpoint()
            try:
                entries = list(self._session.journal.entries(run_id))
                if not entries:
                    continue
                record = Record(run_id, entries)
            except (TreadleError, OSError) as error:
                self._say(f"run {run_id}: cannot be read: {error}")
                continue
            waiting = record.gates.waiting
            if not waiting:
                continue
            found.append(
                {
                    "run_id": run_id,
                    "workflow_name": _name(record),
                    "paused_step_id": next(iter(waiting)).partition(":")[0],
                    "updated_at": datetime.fromtimestamp(entries[-1].at, UTC).isoformat(timespec="milliseconds"),
                    "gates": [
                        {**each.to_json(), "step_id": gate.partition(":")[0], "gate": gate}
                        for gate, each in waiting.items()
                    ],
                }
            )
        return found

    # --- answers ---

    async def _decide(self, run_id: str, gate: Any, answer: str) -> Answer:
        """Take an answer. No other task runs between looking at the record and writing to it, so that of two answers
        to a gate one is taken."""
        if not _RUN.fullmatch(run_id) or ".." in run_id:
            raise _RefusedError(400, "that is no id of a run")
        if gate is not None and not (isinstance(gate, str) and _GATE.fullmatch(gate)):
            raise _RefusedError(400, "that is no gate")
        entries = list(self._session.journal.entries(run_id))
        if not entries:
            raise _RefusedError(404, f"there is no run '{run_id}'")
        record = Record(run_id, entries)
        if record.result is not None and record.result.status is RunStatus.SUCCESS:
            raise _RefusedError(409, f"run {run_id} has succeeded")
        if problem := folder_problem(record):
            raise _RefusedError(409, problem)
        if missing := record.redacted_keys():
            keys = ", ".join(missing)
            raise _RefusedError(
                409, f"run {run_id} needs what was not recorded ({keys}): treadle resume {run_id} -s ..."
            )
        if problem := tools_problem(self._session, record):
            raise _RefusedError(409, problem)
        self._check_times(record)
        name = self._gate(record, gate, answer)
        accepted = {"status": "accepted", "run_id": run_id, "gate": name, "answer": answer}
        if name not in record.gates.waiting:
            # The answer is known, and whoever went on with the run is gone.
            if problem := await self._runs.begin(run_id):
                raise _RefusedError(409, problem)
            return Answer(202, accepted)
        choices = record.gates.waiting[name].choices
        if choices and answer not in choices:
            raise _RefusedError(400, f"gate '{name}' is answered with one of {', '.join(choices)}", choices=choices)
        await self._session.answer(run_id, {name: answer})
        self._say(f"run {run_id}: {name} is answered '{answer[:_MOST_LOGGED]}'")
        self._runs.go_on(run_id)
        return Answer(202, accepted)

    def _check_times(self, record: Record) -> None:
        now = self._now()
        if any(each.deadline is not None and each.deadline <= now for each in record.gates.waiting.values()):
            self._runs.go_on(record.run_id)
            raise _RefusedError(409, f"run {record.run_id}: nobody answered in time, and it goes on without")

    def _gate(self, record: Record, gate: str | None, answer: str) -> str:
        """The gate that is meant: one that waits, or one that has this answer, of a run that was interrupted."""
        waiting, known, run_id = record.gates.waiting, record.gates.known, record.run_id
        if gate is None:
            if len(waiting) > 1:
                raise _RefusedError(409, f"run {run_id} waits at several gates; name one", gates=list(waiting))
            if waiting:
                return next(iter(waiting))
            gate = next(iter(known)) if len(known) == 1 else None
            if gate is None:
                raise _RefusedError(409, f"run {run_id} waits for no answer")
        if gate in waiting:
            return gate
        asked = known.get(gate)
        if asked is None:
            match = close_match(gate, known)
            hint = f"; did you mean '{match}'?" if match else ""
            raise _RefusedError(404, f"run {run_id} has no gate '{gate}'{hint}", gates=list(waiting))
        interrupted = record.result is None or record.result.status is RunStatus.CANCELLED or record.gates.has_answers
        if asked.answer == answer and interrupted and not asked.expired and not self._runs.is_active(run_id):
            return gate
        raise _RefusedError(409, f"run {run_id}: gate '{gate}' has been answered '{asked.answer}'")


def _without_port(host: str) -> str:
    """The name in a Host header: ``[::1]:80`` is ``[::1]``."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/\s]+)(:\d*)?", host)
    return "" if found is None else found[1]


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise _RefusedError(400, "the body is not JSON") from None
    if not isinstance(data, dict):
        raise _RefusedError(400, "the body must be a JSON object")
    return data


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise _RefusedError(400, f"'{name}' is missing, or is no text")
    return value


def _name(record: Record) -> str:
    workflow = record.workflow
    return workflow.name if isinstance(workflow, Workflow) else str(workflow["name"])
