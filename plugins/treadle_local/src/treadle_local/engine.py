"""One model, loaded once, and the threads that wait for it.

What was found out about xllamacpp (2026.10), and is relied on:

* ``handle_chat_completions`` blocks, lets other threads run, and calls back for every piece of a streamed reply; a
  true value given back ends the generation. With ``return_progress`` a piece also comes after each batch of the
  prompt, so that a call can be stopped within a batch or a token.
* ``Server(...)`` does *not* let other threads run. What can be done outside is: the file is read once beforehand, so
  that it comes from memory, and llama.cpp's own warm-up run is left out. What remains is 0.2 s for 135M weights.
* A server that is freed before its loop has begun never ends. ``handle_metrics`` is answered by that loop: it is
  asked once after the start, and again before the end, where it waits, without stopping other threads, for the
  batch under way.
* A server always listens on a loopback port too. It gets a random key that nobody is told.
* llama.cpp writes no log with ``verbosity = -1``.
"""

from __future__ import annotations

import math
import os
import secrets
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import trio

from treadle.errors import ConfigurationError, NotInstalledError
from treadle.nurseries import open_nursery
from treadle_local.model_file import check_model_file

__all__ = ["STOP_GRACE", "Engine", "EngineSettings", "Piece", "default_threads"]

STOP_GRACE = 5.0
"""Seconds that a call which was told to stop is waited for. It then ends by itself, at its next batch or token."""

Piece = bytes | Exception
"""A piece of a reply, as JSON; or, as the last one, what llama.cpp raised."""

_READ_SIZE = 1 << 24

# What the binding makes of C++ exceptions, https://cython.readthedocs.io/en/latest/src/userguide/wrapping_CPlusPlus.html
_RAISED = (RuntimeError, ValueError, MemoryError, IndexError, ArithmeticError, OSError, TypeError)


def default_threads() -> int:
    """Half of the processors this process may use.

    llama.cpp's threads wait for each other by spinning, so one that has to share its processor slows all of them: on
    two busy cores two threads wrote 6 tokens a second where one wrote 30.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return max(1, (len(affinity(0)) if affinity else os.cpu_count() or 1) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How llama.cpp is run. ``context`` is in tokens, for each call; ``batch`` is in tokens."""

    context: int
    parallel: int
    batch: int
    threads: int | None


@dataclass(slots=True, eq=False)
class _Call:
    """One blocking call, seen from both of its sides."""

    stop: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)


class Engine:
    """Owns the model. ``provider`` is the name that errors speak of."""

    def __init__(self, provider: str, settings: EngineSettings) -> None:
        self._provider = provider
        self._settings = settings
        self._server: Any = None
        self._loading = trio.Lock()
        self._loader = trio.CapacityLimiter(1)
        # llama.cpp would queue further calls itself, where they could not be cancelled.
        self._slots = trio.CapacityLimiter(settings.parallel)
        self.loads = 0
        """How often a model was loaded."""

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._server is not None

    async def load(self, path: Path | None) -> None:
        """Load the model unless it is loaded. A caller that is cancelled leaves it whole for the next one.

        :raises ConfigurationError: the file is missing, no model, or llama.cpp cannot load it.
        """
        async with self._loading:
            if self.loaded:
                return
            checked = await trio.to_thread.run_sync(
                partial(check_model_file, path, provider=self._provider), limiter=self._loader
            )
            await self._read_through(checked)
            # Not abandoned on cancel: the thread ends with a loaded model, and that is kept.
            await trio.to_thread.run_sync(self._start, checked, limiter=self._loader)

    async def _read_through(self, path: Path) -> None:
        """Bring the file into the system's cache; can be cancelled between two pieces."""
        try:
            async with await trio.open_file(path, "rb", buffering=0) as file:
                while await file.read(_READ_SIZE):
                    pass
        except OSError as error:
            raise ConfigurationError(f"the model file {path} cannot be read: {error.strerror or error}") from error

    def _start(self, path: Path) -> None:
        try:
            xllamacpp = import_module("xllamacpp")
        except ImportError as error:
            raise NotInstalledError(
                f"provider '{self._provider}' needs xllamacpp, which cannot be imported: {error}",
                hint="pip install xllamacpp",
            ) from error
        settings = self._settings
        threads = settings.threads or default_threads()
        params = xllamacpp.CommonParams()
        params.verbosity = -1
        params.model.path = str(path)
        params.n_ctx = settings.context * settings.parallel
        params.n_parallel = settings.parallel
        params.n_batch = params.n_ubatch = settings.batch
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        params.use_jinja = True
        params.prefill_assistant = False  # a conversation that ends with the model's turn asks for a new one
        params.cache_ram_mib = 0  # would keep up to 8 GB of earlier prompts
        params.warmup = False
        params.fit_params = False
        params.endpoint_metrics = True
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [secrets.token_urlsafe()]
        params.n_threads_http = 1
        params.ui = False
        params.endpoint_slots = False
        try:
            server = xllamacpp.Server(params)
        except _RAISED as error:
            raise ConfigurationError(
                f"llama.cpp cannot load the model file {path}",
                hint="it is damaged, of a kind that this llama.cpp does not know, or too large for the memory there is "
                f"with a context of {settings.context} tokens for each of {settings.parallel} calls",
            ) from error
        server.handle_metrics()
        self.loads += 1
        self._server = server

    @asynccontextmanager
    async def generate(self, body: bytes) -> AsyncIterator[AsyncIterator[Piece]]:
        """Send a request to the loaded model and give the pieces of its reply.

        Leaving, early or by cancellation, stops the generation and waits until its thread has ended, for at most
        ``STOP_GRACE`` seconds.
        """
        call = _Call()
        send, receive = trio.open_memory_channel[Piece](math.inf)
        scope = trio.CancelScope(shield=True)
        with receive:
            async with open_nursery() as nursery:
                nursery.start_soon(self._work, body, call, send, scope)
                try:
                    yield receive
                finally:
                    call.stop.set()
                    if call.started.is_set():
                        scope.deadline = trio.current_time() + STOP_GRACE
                    else:
                        scope.cancel()

    async def _work(
        self, body: bytes, call: _Call, send: trio.MemorySendChannel[Piece], scope: trio.CancelScope
    ) -> None:
        token = trio.lowlevel.current_trio_token()
        with send, scope:
            try:
                await trio.to_thread.run_sync(
                    self._generate, body, call, token, send, abandon_on_cancel=True, limiter=self._slots
                )
            except _RAISED as error:
                send.send_nowait(error)

    def _generate(
        self, body: bytes, call: _Call, token: trio.lowlevel.TrioToken, send: trio.MemorySendChannel[Piece]
    ) -> None:
        """In a worker thread."""
        call.started.set()

        def deliver(piece: bytes) -> None:
            if not call.stop.is_set():  # once it is, the channel may be closed
                send.send_nowait(piece)

        def on_piece(piece: bytes) -> bool:
            if call.stop.is_set():
                return True
            try:
                token.run_sync_soon(deliver, piece)
            except trio.RunFinishedError:
                return True
            return call.stop.is_set()

        if not call.stop.is_set():
            self._server.handle_chat_completions(body, on_piece)

    async def close(self) -> None:
        """Free the model. Loading again is possible after it."""
        if not self.loaded:
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_GRACE):
            await trio.to_thread.run_sync(self._free, abandon_on_cancel=True, limiter=self._loader)

    def _free(self) -> None:
        # The last reference goes in this thread, as freeing waits for threads of llama.cpp.
        server, self._server = self._server, None
        server.handle_metrics()
