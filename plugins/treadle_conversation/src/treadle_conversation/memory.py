"""The memory ``conversation``: conversations in the state, and in files where a step asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from treadle import (
    AssistantMessage,
    Conversation,
    Message,
    ModelRequest,
    ModelResponse,
    ProviderError,
    StateError,
    StatePath,
    StepContext,
    StepError,
    SystemMessage,
    TokenCounter,
    ToolMessage,
    Trimmed,
    TrimPolicy,
    UserMessage,
)
from treadle.contracts.memory import Group, grouped, summary_message
from treadle.fields import MISSING, look_up
from treadle_conversation.files import StoredFile
from treadle_conversation.kept import Entry, Kept
from treadle_conversation.layout import Layout, messages_of

__all__ = ["StateMemory"]

_POLICY = "drop_oldest"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """What is kept if the turn succeeds, the reply aside."""

    key: str
    kept: Kept
    file: StoredFile | None


class StateMemory:
    """Keeps a conversation under a key of the state: the turns, its budget, how room is made, and a summary.

    With a ``store`` the conversation is in a file as well, and goes on there in the next run.
    """

    async def begin(
        self,
        ctx: StepContext,
        *,
        key: str,
        system_prompt: str | None,
        turn: Message | None,
        speaker: str | None,
        model: str,
        settings: Mapping[str, Any],
    ) -> Conversation:
        """The conversation with the new turn in it, trimmed to its budget.

        :raises StateError: what is kept is no conversation, or cannot be sent, or its budget has no room for the turn.
        :raises NotInstalledError: there is no such trim policy.
        """
        where = f"state.{key}"
        kept, file = _read(ctx, key, settings.get("store"))
        own: tuple[Message, ...] = ()
        if system_prompt is not None:
            instructions = SystemMessage(text=system_prompt)
            if speaker is not None:
                own = (instructions,)
            else:
                kept = _instructed(ctx, kept, instructions, where)
        if isinstance(turn, UserMessage):
            kept = replace(kept, entries=(*kept.entries, Entry.of(turn)))
        else:
            _check_last(kept, speaker, where)
        kept = await _Trimming(ctx, key, model, settings).trimmed(kept)
        lead = messages_of(Layout.of(kept.groups).lead)
        summary = () if kept.summary is None else (summary_message(kept.summary),)
        rest = messages_of(kept.groups)[len(lead) :]
        if rest and isinstance(last := rest[-1], AssistantMessage):
            # Another speaker's. Vendors refuse to answer a turn of the assistant, or take it for the reply's beginning.
            rest[-1] = UserMessage.of(last.text, name=last.name)
        return Conversation(messages=(*lead, *own, *summary, *rest), handle=_Turn(key=key, kept=kept, file=file))

    def commit(self, ctx: StepContext, conversation: Conversation, reply: Message) -> Mapping[str, Any]:
        """The conversation with the reply, to be written to its key. A stored one is written to its file here.

        :raises StateError: the file cannot be written; transient, where another run has gone on with it meanwhile.
        """
        turn: _Turn = conversation.handle
        assert isinstance(reply, AssistantMessage)
        value = replace(turn.kept, entries=(*turn.kept.entries, Entry.of(reply))).value()
        if turn.file is not None:
            turn.file.write(value)
        return {turn.key: value}


def _read(ctx: StepContext, key: str, store: str | None) -> tuple[Kept, StoredFile | None]:
    """The conversation in the file if there is one, with the budget and policy of the state; else the state's."""
    found = look_up(ctx.state, StatePath.parse(key).parts)
    inside = Kept.read(None if found is MISSING else found, f"state.{key}")
    if store is None:
        return inside, None
    file = StoredFile.read(store)
    if file.value is None:
        return inside, file
    return Kept.read(file.value, str(file.path)).with_settings_of(inside), file


def _instructed(ctx: StepContext, kept: Kept, instructions: SystemMessage, where: str) -> Kept:
    """With the step's system prompt first, where the conversation has none."""
    first = kept.groups[0][0] if kept.entries else None
    if not isinstance(first, SystemMessage):
        return replace(kept, entries=(Entry.of(instructions), *kept.entries))
    if first != instructions:
        ctx.warn(f"the system prompt is not used: {where} has one already, which stays")
    return kept


def _check_last(kept: Kept, speaker: str | None, where: str) -> None:
    """Without a prompt, the last turn must be one to answer: the user's, a tool's or another speaker's."""
    last = kept.groups[-1][-1] if kept.entries else None
    if isinstance(last, UserMessage | ToolMessage):
        return
    if isinstance(last, AssistantMessage) and speaker is not None and last.name != speaker:
        return
    hint = "give the step a prompt"
    if last is None or isinstance(last, SystemMessage):
        raise StateError(f"{where} has no turn to answer, and the step has no prompt", hint=hint)
    spoke = "the assistant" if speaker is None else f"'{speaker}'"
    raise StateError(f"{spoke} spoke last in {where}, and the step has no prompt", hint=hint)


class _Trimming:
    """Makes room in one conversation, for one turn."""

    def __init__(self, ctx: StepContext, key: str, model: str, settings: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._where = f"state.{key}"
        self._model = model
        self._settings = settings
        self._counter: TokenCounter | None = None

    async def trimmed(self, kept: Kept) -> Kept:
        """The conversation within its budget, or as it is where the rules say so."""
        budget: int | None = self._settings.get("token_budget") or kept.token_budget
        name: str = self._settings.get("trim_policy") or kept.trim_policy or _POLICY
        policy: TrimPolicy | None = None
        if budget is not None or name != _POLICY:
            policy = self._ctx.role("trim_policy", name)  # so that a wrong name is told before there is need of it
        groups = kept.groups
        if budget is None or policy is None or self._size(groups, kept.summary) <= budget:
            return kept
        if not self._is_to_be_trimmed(Layout.of(groups), kept.summary, budget):
            return kept
        trimmed = await policy.trim(
            groups, budget=budget, summary=kept.summary, count=self._count, complete=self._complete
        )
        made = replace(kept, entries=self._entries(kept, trimmed, name), summary=trimmed.summary or None)
        left = self._size(made.groups, made.summary)
        if left > budget:
            self._ctx.warn(
                f"{self._where} takes about {left} tokens of {budget} after '{name}' made room; it is sent all the same"
            )
        return made

    def _is_to_be_trimmed(self, layout: Layout, summary: str | None, budget: int) -> bool:
        """Whether trimming is of use: not where what no policy removes is the reason.

        :raises StateError: the budget has no room for the newest turn.
        """
        newest = self._size((*layout.newest, *layout.work[-1:]), None)
        fixed = self._size(layout.lead, summary)
        if newest <= budget <= fixed:
            self._ctx.warn(
                f"the system messages and the summary of {self._where} alone take about {fixed} tokens of {budget}; "
                "nothing is removed, and the request goes over"
            )
            return False
        needed = self._size(layout.needed, summary)
        if needed > budget:
            raise StateError(
                f"the token_budget {budget} of {self._where} has no room for the new turn, which takes about "
                f"{newest} tokens, {needed} with what stays",
                hint="raise the budget, or shorten the turn",
            )
        return True

    def _count(self, messages: Sequence[Message]) -> int:
        if self._counter is None:
            self._counter = self._ctx.role("token_counter")
        return self._counter.count(messages, model=self._model)

    def _size(self, groups: Sequence[Group], summary: str | None) -> int:
        return self._count([*messages_of(groups), *(() if summary is None else (summary_message(summary),))])

    async def _complete(self, request: ModelRequest) -> ModelResponse:
        try:
            return await self._ctx.complete(
                replace(request, key=f"{self._ctx.step_id}::summarize", model=self._model, stream=False)
            )
        except ProviderError as error:
            self._ctx.warn(f"{self._where} could not be summarized by the model: {error}")
            raise

    def _entries(self, kept: Kept, trimmed: Trimmed, name: str) -> tuple[Entry, ...]:
        """What the policy left, as it was written.

        :raises StepError: what it left is not to be sent.
        """
        whose = f"trim policy '{name}'"
        rest = iter(kept.entries)
        left = []
        for group in trimmed.groups:
            entry = next((each for each in rest if each.group == group), None)
            if entry is None:
                raise StepError(
                    f"{whose} changed, parted or moved messages of {self._where}; it may only leave some out"
                )
            left.append(entry)
        before, after = Layout.of(kept.groups), Layout.of(trimmed.groups)
        if after.lead[: len(before.lead)] != before.lead or after.newest != before.newest:
            raise StepError(f"{whose} removed the instructions or the newest user turn of {self._where}")
        if before.work and after.work[-1:] != before.work[-1:]:
            raise StepError(f"{whose} removed what is to be answered in {self._where}")
        grouped(messages_of(trimmed.groups))
        return tuple(left)
