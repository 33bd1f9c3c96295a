"""A conversation with an agent on the terminal."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import trio

from treadle import ConfigurationError, RunEvent
from treadle.contracts.events import TextEmitted, ToolCallFinished, ToolCallStarted
from treadle.contracts.results import json_value
from treadle_agent.agent import Agent, AgentError, AgentResult

__all__ = ["Chat", "Saved", "Terminal", "TurnView"]

_PROMPT = "> "
_LEAVE = ("/quit", "/exit")
_COMMAND = re.compile(r"/\w*(?!\S)")
"""What is meant for the chat and not for the agent: a word after a slash. ``/etc/hosts`` is none."""
_HELP = """\
/help   this
/quit   end the chat; /exit and Ctrl-D do the same
Ctrl-C  stop the turn that is under way; twice at the prompt, end the chat
All else is said to the agent. What begins with /word is, too, where a space stands before it.
"""


class Terminal(Protocol):
    """Where a chat is held."""

    def read(self, prompt: str) -> str:
        """A line; blocks, in a thread. ``EOFError`` at the end of what can be read."""
        ...

    def write(self, text: str) -> None:
        """Text as it is."""
        ...

    def typed(self) -> str:
        """What is typed and not entered yet, as far as that can be known."""
        ...


class Saved:
    """Chats kept by name, one JSON file each, below a folder.

    :raises ConfigurationError: the name is none, or what is kept cannot be read.
    """

    def __init__(self, folder: Path, name: str) -> None:
        if not name or not all(each.isalnum() or each in "._-" for each in name) or name.startswith("."):
            raise ConfigurationError(
                f"{name!r} cannot be the name of a chat", hint="use letters, digits, '.', '_', '-'"
            )
        self.file = folder / f"{name}.json"

    def load(self) -> Any:
        """The conversation; None where there is none yet."""
        try:
            return json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{self.file} cannot be read: {error}", hint="give the chat another --name"
            ) from error

    def keep(self, conversation: Any) -> None:
        """Write it: all of it or nothing, whatever happens meanwhile."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_name(f"{self.file.name}.{os.getpid()}.new")
        beside.write_text(json.dumps(conversation, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.file)


class TurnView:
    """What is seen of a turn: text as it comes, and a line for each tool call."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self.has_text = False
        self._at_line_start = True

    def __call__(self, event: RunEvent) -> None:
        """Take in an event."""
        if isinstance(event, TextEmitted):
            self.has_text = True
            self._put(event.text)
        elif isinstance(event, ToolCallStarted):
            self.end_line()
            self._put(f"  ({event.tool_name} ...)\n")
        elif isinstance(event, ToolCallFinished) and event.error is not None:
            self.end_line()
            self._put(f"  ({event.tool_name}: {event.error})\n")

    def end_line(self) -> None:
        """Go on at the start of a line."""
        if not self._at_line_start:
            self._put("\n")

    def _put(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self._write(text)


class Chat:
    """Turn after turn, until the person leaves. Ctrl-C stops the turn that is under way, and not the chat."""

    def __init__(self, agent: Agent, terminal: Terminal, saved: Saved | None, state: Mapping[str, Any]) -> None:
        self._agent = agent
        self._terminal = terminal
        self._saved = saved
        self._state = state
        self._conversation: Any = saved.load() if saved is not None else None

    async def hold(self) -> None:
        """Read and answer until the end of input or ``/quit``."""
        turns = len((self._conversation or {}).get("messages", ())) if isinstance(self._conversation, dict) else 0
        taken_up = f", taken up after {turns} messages" if turns else ""
        self._terminal.write(
            f"{self._agent.definition.name}{taken_up}. /help lists commands; /quit or Ctrl-D ends the chat.\n"
        )
        with trio.open_signal_receiver(signal.SIGINT) as signals:
            while True:
                line = await self._read(signals)
                if line is None or line.strip() in _LEAVE:
                    return
                if (command := _COMMAND.match(line)) is not None:
                    known = command.group() == "/help"
                    told = _HELP if known else f"no command {command.group()}; /help lists those there are\n"
                    self._terminal.write(told)
                elif line.strip():
                    await self._turn(line.strip(), signals)

    async def _read(self, signals: Any) -> str | None:
        """A line; None at the end. A second Ctrl-C ends the chat too: the first may be for a turn just over."""
        line: str | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                is_first = True
                async for _ in signals:
                    if is_first:
                        is_first = False
                        self._terminal.write(f"\n(Ctrl-C again ends the chat)\n{_PROMPT}{self._terminal.typed()}")
                    else:
                        self._terminal.write("\n")
                        nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                line = await trio.to_thread.run_sync(self._terminal.read, _PROMPT, abandon_on_cancel=True)
            except EOFError:
                self._terminal.write("\n")
            nursery.cancel_scope.cancel()
        return line

    async def _turn(self, prompt: str, signals: Any) -> None:
        view = TurnView(self._terminal.write)
        answered: AgentResult | None = None
        failed: AgentError | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                answered = await self._agent.invoke(
                    prompt, conversation=self._conversation, state=self._state, on_event=view
                )
            except AgentError as error:
                failed = error
            nursery.cancel_scope.cancel()
        view.end_line()
        if failed is not None:
            self._terminal.write(f"error: {failed}\n(the turn is not kept)\n")
        elif answered is None:  # Ctrl-C: the nursery has caught its own cancellation
            self._terminal.write("(stopped; the turn is not kept)\n")
        else:
            self._keep(answered, shows=not view.has_text)

    def _keep(self, answered: AgentResult, *, shows: bool) -> None:
        if shows:
            self._terminal.write(f"{shown(answered.reply)}\n")
        self._conversation = answered.conversation
        if self._saved is not None:
            self._saved.keep(json_value(self._conversation))


def shown(reply: Any) -> str:
    """A reply as text; a typed one as JSON."""
    if isinstance(reply, str):
        return reply
    return json.dumps(json_value(reply), ensure_ascii=False, indent=2)
