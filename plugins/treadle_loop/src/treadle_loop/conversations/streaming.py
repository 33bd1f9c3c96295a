"""A conversation that is read while it runs."""

from __future__ import annotations

import contextvars
import functools
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from treadle.threads import await_on_trio, is_asyncio_running
from treadle_loop.conversations.conversation import Conversation
from treadle_loop.conversations.events import ConversationEvent, ConversationFinished, Telling, TextDelta
from treadle_loop.conversations.summaries import ConversationResult

__all__ = ["AsyncConversationStream", "ConversationStream"]


@dataclass(frozen=True, slots=True)
class _Ended:
    """Nothing comes any more. What ended it is raised where the stream is read."""

    error: BaseException | None = None


_Told = ConversationEvent | _Ended
_Put = Callable[[_Told], None]


async def _told(conversation: Conversation, put: _Put) -> None:
    """Run a conversation on trio, and tell of its end."""
    try:
        result = await conversation.run_on_trio()
    except Exception as error:
        put(_Ended(error))
    else:
        put(ConversationFinished(result))
        put(_Ended())


class _Stream:
    """What both kinds of stream have."""

    def __init__(self) -> None:
        self._result: ConversationResult | None = None
        self._is_over = False

    @property
    def result(self) -> ConversationResult:
        """What the conversation came to.

        :raises RuntimeError: the stream has not been read to its end, or ended with an error.
        """
        if self._result is None:
            raise RuntimeError("there is no result before the stream has been read to its end")
        return self._result

    def _event(self, told: _Told) -> ConversationEvent | None:
        """The event, or None at the end.

        :raises Exception: what ended the conversation.
        """
        if isinstance(told, _Ended):
            self._is_over = True
            if told.error is not None:
                raise told.error
            return None
        if isinstance(told, ConversationFinished):
            self._result = told.result
        return told


class ConversationStream(_Stream):
    """Events of a conversation as they happen; :attr:`text` for its text alone, :attr:`result` after the last one.

    .. code-block:: python

        with agent.stream("Tell me a story") as stream:
            for text in stream.text:
                print(text, end="")
        print(stream.result.summary.usage)

    The conversation begins when the stream is entered or first read, and runs on trio in a thread of its own, where its
    observers are called too. Leaving the ``with`` before the end cancels it, the model call included. What ends the
    conversation is raised where the stream is read. A slow reader slows nothing down.
    """

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._queue: queue.SimpleQueue[_Told] = queue.SimpleQueue()
        self._conversation = conversation.also_tell(Telling(self._queue.put))
        self._thread: threading.Thread | None = None
        self._begun = threading.Event()
        self._cancel: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConversationEvent]:
        return self

    def __next__(self) -> ConversationEvent:
        if self._is_over:
            raise StopIteration
        self._begin()
        event = self._event(self._queue.get())
        if event is None:
            raise StopIteration
        return event

    @property
    def text(self) -> Iterator[str]:
        """The text as it is written, of every reply."""
        return (event.text for event in self if isinstance(event, TextDelta))

    def close(self) -> None:
        """End the conversation, where it still runs, and wait for that."""
        self._is_over = True
        if self._thread is not None:
            self._begun.wait()
            self._cancel()
            self._thread.join()
            self._queue.put(_Ended())  # for whoever reads in another thread

    def _begin(self) -> None:
        if self._thread is None:
            # A daemon: a program that ends with a stream which nobody closed is not to hang.
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._run,), name="treadle-stream", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        import trio

        try:
            if getattr(self._conversation.client, "loop", None) == "asyncio":
                import asyncio

                asyncio.run(self._on_asyncio())
            else:
                trio.run(self._on_trio)
        except BaseException as error:  # told where the stream is read
            self._queue.put(_Ended(error))
        finally:
            self._begun.set()

    async def _on_trio(self) -> None:
        import trio

        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:
            self._cancel = functools.partial(_soon, token, scope.cancel)
            self._begun.set()
            await _told(self._conversation, self._queue.put)

    async def _on_asyncio(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(await_on_trio(lambda: _told(self._conversation, self._queue.put)))

        def cancel() -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(task.cancel)

        self._cancel = cancel
        self._begun.set()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


class AsyncConversationStream(_Stream):
    """The same for programs on trio or asyncio: ``async with`` it, then ``async for``.

    Under asyncio the conversation has a thread of its own. Leaving the ``async with`` before the end cancels it.
    """

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._stack = AsyncExitStack()
        self._get: Callable[[], Awaitable[_Told]] | None = None

    async def __aenter__(self) -> Self:
        opened = _on_asyncio if is_asyncio_running() else _on_trio
        self._get = await self._stack.enter_async_context(opened(self._conversation))
        return self

    async def __aexit__(self, *raised: Any) -> bool | None:
        self._is_over = True
        return await self._stack.__aexit__(*raised)

    def __aiter__(self) -> AsyncIterator[ConversationEvent]:
        return self

    async def __anext__(self) -> ConversationEvent:
        if self._is_over:
            raise StopAsyncIteration
        if self._get is None:
            raise RuntimeError("a stream is read within `async with`")
        event = self._event(await self._get())
        if event is None:
            raise StopAsyncIteration
        return event

    @property
    def text(self) -> AsyncIterator[str]:
        """The text as it is written, of every reply."""
        return _Texts(self)


class _Texts:
    """An iterator and no generator: one that is left early would have to be closed."""

    def __init__(self, events: AsyncIterator[ConversationEvent]) -> None:
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            event = await self._events.__anext__()
            if isinstance(event, TextDelta):
                return event.text


@asynccontextmanager
async def _on_trio(conversation: Conversation) -> AsyncIterator[Callable[[], Awaitable[_Told]]]:
    import trio

    from treadle.nurseries import open_nursery  # it imports trio

    token = trio.lowlevel.current_trio_token()
    send, receive = trio.open_memory_channel[_Told](float("inf"))

    def put(told: _Told) -> None:
        # Always this way, from whatever thread, so that the order stays.
        _soon(token, functools.partial(send.send_nowait, told))

    conversation.also_tell(Telling(put))
    try:
        async with open_nursery() as nursery:
            nursery.start_soon(_told, conversation, put)
            yield receive.receive
            nursery.cancel_scope.cancel()
    finally:
        put(_Ended())  # for whoever reads in another task


@asynccontextmanager
async def _on_asyncio(conversation: Conversation) -> AsyncIterator[Callable[[], Awaitable[_Told]]]:
    import asyncio

    loop = asyncio.get_running_loop()
    events: asyncio.Queue[_Told] = asyncio.Queue()

    def put(told: _Told) -> None:
        with suppress(RuntimeError):  # the loop has been closed; nobody reads
            loop.call_soon_threadsafe(events.put_nowait, told)

    conversation.also_tell(Telling(put))
    task = asyncio.ensure_future(await_on_trio(lambda: _told(conversation, put)))
    try:
        yield events.get
    finally:
        task.cancel()
        await asyncio.wait({task})
        put(_Ended())  # for whoever reads in another task


def _soon(token: Any, function: Callable[[], object]) -> None:
    """Have it called on that trio, or not at all where that has ended."""
    import trio

    with suppress(trio.RunFinishedError):
        token.run_sync_soon(function)
