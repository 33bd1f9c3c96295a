"""The threads around llama.cpp, with a stand-in for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from treadle.errors import BadRequestError, ConfigurationError, NotInstalledError, ResponseError
from treadle.messages import ModelRequest, UserMessage
from treadle_local import engine as engine_module
from treadle_local.engine import Engine, EngineSettings, default_threads
from treadle_local.provider import LocalProvider, LocalSettings

SETTINGS = EngineSettings(context=128, parallel=1, batch=16, threads=1)


class Server:
    """Stands in for ``xllamacpp.Server``: runs ``work`` where a generation is asked for."""

    def __init__(self, work: Callable[[Callable[[bytes], bool]], None]) -> None:
        self.work = work
        self.asked = 0

    def handle_chat_completions(self, body: bytes, on_piece: Callable[[bytes], bool]) -> None:
        self.asked += 1
        self.work(on_piece)

    def handle_metrics(self) -> str:
        return ""


def loaded(work: Callable[[Callable[[bytes], bool]], None]) -> tuple[Engine, Server]:
    engine, server = Engine("local", SETTINGS), Server(work)
    engine._server = server
    return engine, server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + bytes(20))
    return path


async def test_pieces_arrive_in_order_and_then_the_end() -> None:
    def work(on_piece: Callable[[bytes], bool]) -> None:
        for number in range(100):
            assert on_piece(b"%d" % number) is False

    engine, _ = loaded(work)
    async with engine.generate(b"{}") as pieces:
        assert [piece async for piece in pieces] == [b"%d" % number for number in range(100)]


async def test_leaving_stops_the_generation_at_its_next_piece_and_waits_for_it() -> None:
    ended = threading.Event()

    def work(on_piece: Callable[[bytes], bool]) -> None:
        while not on_piece(b"x"):
            pass
        ended.set()

    engine, _ = loaded(work)
    async with engine.generate(b"{}") as pieces:
        await anext(pieces)
    assert ended.is_set()


async def test_a_call_that_does_not_stop_is_left_behind_after_the_grace_and_its_late_pieces_go_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "STOP_GRACE", 0.02)
    release, ended, told = threading.Event(), threading.Event(), []

    def work(on_piece: Callable[[bytes], bool]) -> None:
        on_piece(b"x")
        release.wait(10)
        told.append(on_piece(b"late"))
        ended.set()

    engine, _ = loaded(work)
    async with engine.generate(b"{}") as pieces:
        await anext(pieces)
    assert not ended.is_set()
    release.set()
    await trio.to_thread.run_sync(ended.wait, 10)
    assert told == [True]


async def test_a_call_that_waits_for_a_slot_is_cancelled_at_once_and_never_reaches_llama_cpp() -> None:
    release = threading.Event()

    def work(on_piece: Callable[[bytes], bool]) -> None:
        on_piece(b"x")
        release.wait(10)

    engine, server = loaded(work)
    async with engine.generate(b"{}") as first:
        await anext(first)
        with trio.move_on_after(0.02) as scope:
            async with engine.generate(b"{}") as second:
                await anext(second)
        assert scope.cancelled_caught
        release.set()
    assert server.asked == 1


async def test_an_error_of_the_body_leaves_as_itself() -> None:
    engine, _ = loaded(lambda on_piece: None)
    with pytest.raises(KeyError):
        async with engine.generate(b"{}"):
            raise KeyError("mine")


@pytest.mark.parametrize(
    ("raised", "error"),
    [(ValueError("no"), BadRequestError), (RuntimeError("no"), ResponseError), (MemoryError(), ResponseError)],
)
async def test_what_llama_cpp_raises_reaches_the_caller_as_an_error_of_ours(
    raised: Exception, error: type[Exception], file: Path
) -> None:
    def work(on_piece: Callable[[bytes], bool]) -> None:
        raise raised

    provider = LocalProvider("local", LocalSettings(model_path=file))
    provider._engine._server = Server(work)
    async with provider.exchange(ModelRequest(model="local", messages=(UserMessage.of("hi"),))) as events:
        with pytest.raises(error) as caught:
            await anext(events)
    assert caught.value.__cause__ is raised


async def test_a_first_caller_cancelled_while_the_model_loads_leaves_it_to_the_second(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, release = threading.Event(), threading.Event()
    starts: list[Path] = []

    def start(self: Engine, path: Path) -> None:
        starts.append(path)
        loading.set()
        release.wait(10)
        self._server = Server(lambda on_piece: None)

    monkeypatch.setattr(Engine, "_start", start)
    engine = Engine("local", SETTINGS)
    scope = trio.CancelScope()

    async def first() -> None:
        with scope:
            await engine.load(file)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.to_thread.run_sync(loading.wait, 10)
        nursery.start_soon(engine.load, file)
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        release.set()
    assert engine.loaded
    assert starts == [file]


async def test_a_failed_load_is_tried_again_by_the_next_call(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        class CommonParams:
            def __init__(self) -> None:
                self.model = self.cpuparams = self.cpuparams_batch = type("Fields", (), {})()

        @staticmethod
        def Server(params: Any) -> Any:
            raise RuntimeError("Failed to init server, please check the input params.")

    monkeypatch.setitem(sys.modules, "xllamacpp", Module)
    engine = Engine("local", SETTINGS)
    for _ in range(2):
        with pytest.raises(ConfigurationError) as caught:
            await engine.load(file)
        assert str(caught.value) == (
            f"llama.cpp cannot load the model file {file}; it is damaged, of a kind that this llama.cpp does not "
            "know, or too large for the memory there is with a context of 128 tokens for each of 1 calls"
        )
    assert not engine.loaded


async def test_without_xllamacpp_the_error_says_how_to_get_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(NotInstalledError, match=r"provider 'local' needs xllamacpp, .*; pip install xllamacpp"):
        await Engine("local", SETTINGS).load(file)


async def test_closing_frees_the_model_in_a_worker_thread() -> None:
    freed: list[threading.Thread] = []

    class Freed(Server):
        def __del__(self) -> None:
            freed.append(threading.current_thread())

    engine = Engine("local", SETTINGS)
    engine._server = Freed(lambda on_piece: None)
    await engine.close()
    assert len(freed) == 1
    assert freed[0] is not threading.current_thread()
    await engine.close()


def test_threads_are_half_of_the_processors_and_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for processors, threads in ((1, 1), (2, 1), (3, 1), (8, 4)):
        monkeypatch.setattr("os.sched_getaffinity", lambda pid, count=processors: set(range(count)), raising=False)
        assert default_threads() == threads
