"""Sending no more of a long conversation than has room: the transcript stays whole."""

from __future__ import annotations

import contextvars
import hashlib
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import treadle
from treadle import messages as kernel
from treadle.contracts.memory import Group, TokenCounter, TrimPolicy, summary_message
from treadle.threads import run_on_trio
from treadle_loop.conversations.listening import silence
from treadle_loop.conversations.wire import as_response, from_reply, message_of, sent
from treadle_loop.errors import ConfigurationError
from treadle_loop.provider import ModelRequest, ModelResponse, Usage
from treadle_loop.transcript import Message
from treadle_loop.wrapping import WrappingClient, complete_on_loop, complete_on_trio

__all__ = ["TrimmingClient"]

_log = logging.getLogger("treadle_loop")

_MOST_SUMMARIES = 1000

_Ask = Callable[[ModelRequest], Awaitable[Any]]

_Kept = tuple[tuple[Message, ...], Group]
"""Messages that may not be parted, as the transcript has them and as policies see them."""


class TrimmingClient(WrappingClient):
    """A client that is sent what fits a budget. The newest turn of the user always goes; the transcript stays whole.

    What a policy of trimming folds into a summary is asked of the client itself. The tokens of that are added to those
    of the reply, and the summary is kept for the conversation's next requests.

    :param token_budget: most tokens of system prompt and messages, as they are counted.
    :param trim_policy: the name of one that is installed (``drop_oldest``, ``drop_pairs`` and ``summarize_oldest`` come
        with treadle-conversation), or one of your own.
    :param token_counter: the name of one that is installed, or one of your own; that of the deployment without it.
    :raises ConfigurationError: there is no such policy or counter; it says what to install.
    """

    def __init__(
        self,
        client: Any,
        token_budget: int,
        *,
        trim_policy: str | TrimPolicy = "drop_oldest",
        token_counter: str | TokenCounter | None = None,
    ) -> None:
        super().__init__(client)
        if type(token_budget) is not int or token_budget < 1:
            raise ConfigurationError(f"token_budget is a number of tokens, at least 1, not {token_budget!r}")
        self.token_budget = token_budget
        self._policy_name = trim_policy if isinstance(trim_policy, str) else type(trim_policy).__name__
        self._policy: TrimPolicy = _installed("trim_policy", trim_policy)
        self._counter: TokenCounter = _installed("token_counter", token_counter)
        self._summaries = _Summaries()

    def complete(self, request: ModelRequest) -> Any:
        """Send as much of the request as has room. Awaited where the client's own is.

        :raises ConfigurationError: the policy did what none may do.
        """
        room = self._room(request)
        if self.is_async:
            return self._complete(room, partial(complete_on_loop, self.client))
        if self._is_too_much(room):
            # A policy is awaited, and may need trio for that.
            room = _run_on_trio(partial(self._made, room, partial(complete_on_loop, self.client)))
        return room.charged(self.client.complete(room.asked), self.client)

    async def complete_async(self, request: ModelRequest) -> ModelResponse:
        """The same on trio."""
        return await self._complete(self._room(request), partial(complete_on_trio, self.client))

    async def _complete(self, room: _Room, ask: _Ask) -> ModelResponse:
        if self._is_too_much(room):
            room = await self._made(room, ask)
        return room.charged(await ask(room.asked), self.client)

    def _room(self, request: ModelRequest) -> _Room:
        messages, summary = self._summaries.find(request.messages)
        return _Room(request=request, kept=_grouped(messages), summary=summary)

    def _is_too_much(self, room: _Room) -> bool:
        return bool(room.kept) and self._size(room) > self.token_budget

    def _size(self, room: _Room) -> int:
        return self._count(room.sent)

    def _count(self, messages: Sequence[kernel.Message]) -> int:
        return self._counter.count(messages, model=self.client.model)

    async def _made(self, room: _Room, ask: _Ask) -> _Room:
        """As much room as the policy can make."""
        spent: list[ModelResponse] = []

        async def complete(asked: kernel.ModelRequest) -> kernel.ModelResponse:
            with silence():
                response = as_response(await ask(_summary_request(asked, room.request)))
            spent.append(response)
            return from_reply(response, model=self.client.model, provider=self.client.name)

        system = room.system
        groups = [*([(system,)] if system is not None else []), *(group for _, group in room.kept)]
        trimmed = await self._policy.trim(
            groups, budget=self.token_budget, summary=room.summary, count=self._count, complete=complete
        )
        kept = self._kept(room, trimmed, system)
        made = _Room(request=room.request, kept=kept, summary=trimmed.summary, spent=tuple(spent))
        if trimmed.summary is not None and trimmed.summary != room.summary:
            self._summaries.keep(room.request.messages, made.messages, trimmed.summary)
        if (size := self._size(made)) > self.token_budget:
            _log.warning(
                "%s: about %d tokens of %d after '%s' made room; they are sent all the same",
                self.name,
                size,
                self.token_budget,
                self._policy_name,
            )
        return made

    def _kept(self, room: _Room, trimmed: treadle.Trimmed, system: kernel.SystemMessage | None) -> tuple[_Kept, ...]:
        """What the policy left of the conversation, in its order.

        :raises ConfigurationError: it changed or moved something, or left nothing to answer.
        """
        rest: Iterator[_Kept] = iter(room.kept)
        left: list[_Kept] = []
        for group in trimmed.groups:
            if system is not None and group == (system,):
                continue
            found = next((each for each in rest if each[1] is group or each[1] == group), None)
            if found is None:
                raise self._broke("changed or moved messages; it may only leave some out")
            left.append(found)
        if not left or left[-1] != room.kept[-1]:
            raise self._broke("left out the newest message, which is to be answered")
        return tuple(left)

    def _broke(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"trim policy '{self._policy_name}' {what}")


def _grouped(messages: Sequence[Message]) -> tuple[_Kept, ...]:
    """A call and its results together; everything else on its own."""
    parts: list[list[Message]] = []
    for message in messages:
        if message.tool_results and parts and parts[-1][-1].tool_calls:
            parts[-1].append(message)
        else:
            parts.append([message])
    return tuple((tuple(part), tuple(one for each in part for one in sent(each))) for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """A request, and what of it goes.

    :param summary: of what does not go.
    :param spent: the responses that making room took.
    """

    request: ModelRequest
    kept: tuple[_Kept, ...]
    summary: str | None = None
    spent: tuple[ModelResponse, ...] = ()

    @property
    def system(self) -> kernel.SystemMessage | None:
        """The system prompt."""
        return None if self.request.system is None else treadle.SystemMessage(text=self.request.system)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What goes of the transcript."""
        return tuple(message for messages, _ in self.kept for message in messages)

    @property
    def sent(self) -> list[kernel.Message]:
        """All that goes, as it is counted."""
        before = [self.system] if self.system is not None else []
        noted = [] if self.summary is None else [summary_message(self.summary)]
        return [*before, *noted, *(message for _, group in self.kept for message in group)]

    @property
    def asked(self) -> ModelRequest:
        """The request as it goes; a summary stands behind the system prompt."""
        messages = self.messages
        if self.summary is None and len(messages) == len(self.request.messages):
            return self.request
        noted = [] if self.summary is None else [summary_message(self.summary).text]
        system = "\n\n".join([*([self.request.system] if self.request.system else []), *noted])
        return self.request.model_copy(update={"messages": messages, "system": system or None})

    def charged(self, given: Any, client: Any) -> ModelResponse:
        """The client's response, with what making room took."""
        response = as_response(given, api=getattr(client, "api", None))
        if not self.spent:
            return response
        usage: Usage = sum((each.usage for each in self.spent[1:]), self.spent[0].usage) + response.usage
        return response.model_copy(update={"usage": usage})


class _Summaries:
    """What was folded away, and into which summary, so that the next request of a conversation need not do it again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[bytes, tuple[str, tuple[int, ...]]] = {}

    def find(self, messages: Sequence[Message]) -> tuple[Sequence[Message], str | None]:
        """The messages without those that a known summary stands for, and that."""
        with self._lock:
            known = dict(self._found)
        if not known:
            return messages, None
        best: tuple[Sequence[Message], str | None] = messages, None
        for count, digest in enumerate(_digests(messages), start=1):
            if digest in known:
                summary, stayed = known[digest]
                best = [*(messages[n] for n in stayed), *messages[count:]], summary
        return best

    def keep(self, messages: Sequence[Message], kept: Sequence[Message], summary: str) -> None:
        """Remember what stands for the messages that are not kept. What is oldest is forgotten."""
        ids = {id(each) for each in kept}
        stayed = [id(each) in ids for each in messages]
        if all(stayed):
            return
        count = max(n for n, stays in enumerate(stayed) if not stays) + 1
        *_, digest = _digests(messages[:count])
        with self._lock:
            self._found[digest] = summary, tuple(n for n in range(count) if stayed[n])
            while len(self._found) > _MOST_SUMMARIES:
                del self._found[next(iter(self._found))]


def _digests(messages: Sequence[Message]) -> Iterator[bytes]:
    """One for each beginning of the conversation, the shortest first."""
    digest = hashlib.sha256()
    for each in messages:
        digest.update(each.model_dump_json().encode("utf-8", "surrogatepass"))
        yield digest.digest()


def _summary_request(asked: kernel.ModelRequest, request: ModelRequest) -> ModelRequest:
    """What a policy asks, as a client takes it."""
    system = [each.text for each in asked.messages if isinstance(each, treadle.SystemMessage)]
    others = [each for each in asked.messages if not isinstance(each, treadle.SystemMessage)]
    return ModelRequest(
        messages=tuple(message_of(each) for each in others),
        system="\n\n".join(system) or None,
        max_tokens=asked.max_tokens or request.max_tokens,
    )


def _run_on_trio(function: Callable[[], Awaitable[_Room]]) -> _Room:
    """Run it here; where trio is running, which stands still meanwhile as for any synchronous call, in a thread."""
    import trio

    if not trio.lowlevel.in_trio_run():
        return run_on_trio(function)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="treadle-trim") as pool:
        return pool.submit(context.run, run_on_trio, function).result()


def _installed(role: Literal["trim_policy", "token_counter"], wanted: Any) -> Any:
    """The policy or counter of that name, or the deployment's; what is one already as it is.

    :raises ConfigurationError: there is none, or it is none.
    """
    if wanted is not None and not isinstance(wanted, str):
        method = {"trim_policy": "trim", "token_counter": "count"}[role]
        if not callable(getattr(wanted, method, None)):
            raise ConfigurationError(f"a {role} has the method {method}(); {type(wanted).__name__} has none")
        return wanted
    host = treadle.default_host()
    try:
        found = host.sole(role, "a TrimmingClient") if wanted is None else host.get(role, wanted)
        return found.load()()
    except treadle.TreadleError as error:
        raise ConfigurationError(error.message, hint=error.hint) from error
