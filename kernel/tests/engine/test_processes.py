"""Steps that block in processes: an attempt ends when it must, and the process with it."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
from engine_doubles import act, flow, host_of, run, statuses

import treadle
from treadle._bridges.processes import call_in_process

MODULE = '''
import os, subprocess, sys, time
from pathlib import Path


class Odd(ValueError):
    """Goes out and does not come back."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Rude(BaseException):
    pass


def note_and_sleep(file):
    """Say who we are and whom we started, then block."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    partial = Path(file + ".part")
    partial.write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    partial.rename(file)
    time.sleep(600)


def leave_behind(file):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return [os.getpid(), child.pid]


def fail(kind):
    if kind == "odd":
        raise Odd(1, 2)
    if kind == "rude":
        raise Rude("no manners")
    if kind == "transient":
        raise ConnectionError("gone")
    raise ExceptionGroup("several", [ValueError("a"), OSError("b")])


def surroundings():
    os.write(1, b"by descriptor\\n")
    print("by print")
    subprocess.run(["sh", "-c", "echo by a child"])
    return {
        "input": sys.stdin.read(),
        "name": __name__,
        "cwd": os.getcwd(),
        "open": sorted(int(each) for each in os.listdir("/proc/self/fd")) if os.path.isdir("/proc") else [],
        "session": os.getsid(0) == os.getpid(),
    }


def lock():
    import threading

    return threading.Lock()


def interrupt():
    raise KeyboardInterrupt
'''


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that a process can import as well."""
    (tmp_path / "work_in_processes.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import work_in_processes

    yield work_in_processes
    del sys.modules["work_in_processes"]


def in_process(function: Callable[..., Any], *args: Any) -> Any:
    async def behave(ctx):
        return await ctx.run_in_process(function, *args)

    return behave


async def pids_in(file: Path) -> list[int]:
    """Those that the function has written down, once it has."""
    written = trio.Path(file)
    while not await written.exists():  # noqa: ASYNC110 - another process writes it
        await trio.sleep(0.01)
    return [int(each) for each in (await written.read_text(encoding="utf-8")).split()]


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody has waited for does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def until_ended(*pids: int) -> None:
    """An orphan is told of its end a moment later than its parent."""
    with trio.fail_after(60):
        while any(map(is_alive, pids)):  # noqa: ASYNC110 - nobody tells of the end of an orphan
            await trio.sleep(0.01)


@asynccontextmanager
async def calling(folder: Path) -> AsyncIterator[tuple[trio.Process, list[int]]]:
    """A program that makes a call which does not end, and the processes of that call."""
    program = (
        "import sys, trio; sys.path.insert(0, sys.argv[1]); import work_in_processes as work\n"
        "from treadle._bridges.processes import call_in_process\n"
        "trio.run(call_in_process, work.note_and_sleep, sys.argv[2])"
    )
    argv = [sys.executable, "-c", program, str(folder), str(folder / "pids")]
    process = await trio.lowlevel.open_process(argv, stderr=subprocess.DEVNULL)
    try:
        with trio.fail_after(60):
            yield process, await pids_in(folder / "pids")
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def is_zombie_of_ours(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


async def test_a_function_runs_in_another_process_and_gives_its_value():
    host = host_of({"a": in_process(operator.add, [1], [2]), "b": in_process(os.getpid)})
    result = await run(flow(host, act("a", output="a"), act("b", output="b")))
    assert result.final_state["a"] == [1, 2]
    assert result.final_state["b"] != os.getpid()


async def test_an_attempt_that_times_out_kills_it_and_what_it_started(work, tmp_path):
    host = host_of({"a": in_process(work.note_and_sleep, str(tmp_path / "pids"))})
    with trio.fail_after(60):
        result = await run(flow(host, act("a", timeout=1.0), act("b", "a")))
        pids = await pids_in(tmp_path / "pids")
        assert statuses(result) == {"a": "timeout", "b": "skipped"}
        await until_ended(*pids)
    assert not is_zombie_of_ours(pids[0])
    assert result.warnings == ()


async def test_a_run_that_is_cancelled_kills_it_at_once(work, tmp_path):
    host = host_of({"a": in_process(work.note_and_sleep, str(tmp_path / "pids"))})
    with trio.fail_after(60):
        async with treadle.open(host=host) as session, trio.open_nursery() as nursery:
            going = session.start(flow(host, act("a")))

            @nursery.start_soon
            async def cancel() -> None:
                await pids_in(tmp_path / "pids")
                going.cancel("enough")

            result = await going.execute()
        pids = await pids_in(tmp_path / "pids")
        assert not is_zombie_of_ours(pids[0])
        await until_ended(*pids)
    assert (result.status, statuses(result)) == ("cancelled", {"a": "cancelled"})


async def test_a_scope_inside_the_step_ends_only_the_call(work, tmp_path):
    async def behave(ctx):
        with trio.move_on_after(1.0):
            await ctx.run_in_process(work.note_and_sleep, str(tmp_path / "pids"))
        return "went on"

    result = await run(flow(host_of({"a": behave}), act("a", output="x")))
    assert result.final_state == {"x": "went on"}
    await until_ended(*await pids_in(tmp_path / "pids"))


async def test_what_a_function_leaves_in_its_group_ends_with_the_call(work, tmp_path):
    own, child = await call_in_process(work.leave_behind, "")
    await until_ended(own, child)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups here")
async def test_it_ends_when_its_caller_is_killed(work, tmp_path):
    """Nobody is left to kill it, so it sees to that itself, and ends its group."""
    async with calling(tmp_path) as (process, pids):
        process.kill()
        await until_ended(*pids)


# --- errors ---------------------------------------------------------------------------------------


async def test_its_error_is_the_steps_and_tells_where_it_was_raised():
    result = await run(flow(host_of({"a": in_process(int, "x")}), act("a")))
    step = result.step_results["a"]
    assert step.error == "ValueError: invalid literal for int() with base 10: 'x'"
    assert step.error_classification == "permanent"
    assert isinstance(step.exception, ValueError)
    assert step.exception.__notes__[0].startswith("in the process of function 'int':\nValueError: invalid literal")


@pytest.mark.parametrize(
    ("kind", "error", "classification"),
    [
        ("odd", "function 'fail' raised Odd: 1 and 2", "permanent"),
        ("rude", "function 'fail' raised Rude: no manners", "transient"),
        ("transient", "ConnectionError: gone", "transient"),
        ("group", "ExceptionGroup: several (2 sub-exceptions)", "transient"),
    ],
)
async def test_errors_of_every_kind_come_back_or_are_told(work, kind, error, classification):
    result = await run(flow(host_of({"a": in_process(work.fail, kind)}), act("a")))
    assert result.step_results["a"].error == error
    assert result.step_results["a"].error_classification == classification


@pytest.mark.parametrize(
    ("function", "args", "error"),
    [
        (os._exit, (3,), "the process of function '_exit' ended with exit code 3 without an answer"),
        (os.abort, (), "the process of function 'abort' was ended by SIGABRT without an answer"),
        (sys.exit, (4,), "function 'exit' raised SystemExit: 4"),
    ],
)
async def test_a_process_that_ends_by_itself_is_a_failure_that_may_pass(function, args, error):
    result = await run(flow(host_of({"a": in_process(function, *args)}), act("a")))
    assert (result.step_results["a"].error, result.step_results["a"].error_classification) == (error, "transient")


async def test_an_interrupt_in_it_is_no_interrupt_here(work):
    result = await run(flow(host_of({"a": in_process(work.interrupt)}), act("a")))
    assert result.step_results["a"].error == "function 'interrupt' raised KeyboardInterrupt"


async def test_what_cannot_be_sent_is_a_permanent_error_before_anything_is_started():
    for function, args, why in (
        (lambda: 1, (), r"function '<lambda>' cannot be called in a process: .*"),
        (
            id,
            (threading.Lock(),),
            r"function 'id' cannot be called in a process: TypeError: cannot pickle '_thread.lock' .*",
        ),
    ):
        with pytest.raises(
            treadle.StepError, match=rf"^{why}; give it a function of a module, and arguments"
        ) as caught:
            await call_in_process(function, *args)
        assert not caught.value.transient


async def test_a_value_that_cannot_be_brought_back_is_a_permanent_error(work):
    with pytest.raises(
        treadle.StepError, match=r"^what function 'lock' made cannot be brought back .*lock' obj"
    ) as caught:
        await call_in_process(work.lock)
    assert not caught.value.transient


async def test_a_function_that_is_not_found_there_is_a_permanent_error():
    module = ModuleType("made_up_module")
    exec("def here(): pass", vars(module))  # noqa: S102 - a module that no file defines
    sys.modules["made_up_module"] = module
    try:
        with pytest.raises(treadle.StepError) as caught:
            await call_in_process(module.here)
    finally:
        del sys.modules["made_up_module"]
    assert str(caught.value) == (
        "function 'here' cannot be called in a process: there, ModuleNotFoundError: No module named 'made_up_module'; "
        "define it in a module that can be imported"
    )
    assert not caught.value.transient


# --- what it is in --------------------------------------------------------------------------------


async def test_big_values_go_both_ways():
    text = os.urandom(1 << 20) * 30
    assert await call_in_process(operator.add, text, b"!") == text + b"!"


async def test_what_it_prints_goes_to_standard_error_and_it_inherits_nothing(work, capfd):
    hidden = os.open(os.devnull, os.O_RDONLY)
    try:
        found = await call_in_process(work.surroundings)
    finally:
        os.close(hidden)
    assert (found["input"], found["name"], found["session"]) == ("", "work_in_processes", True)
    assert found["cwd"] == str(Path.cwd())
    # Standard ones, the two pipes, and the folder that is being listed.
    assert len(found["open"]) <= 6
    out, err = capfd.readouterr()
    assert out == ""
    assert sorted(err.splitlines()) == ["by a child", "by descriptor", "by print"]


async def test_nothing_is_left_of_many_calls(work):
    def counted() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    await call_in_process(operator.add, 1, 2)
    before = counted()
    for number in range(10):
        with trio.move_on_after(0.005 * number):
            await call_in_process(operator.add, 1, 2)
        with pytest.raises(ZeroDivisionError):
            await call_in_process(operator.truediv, 1, 0)
    with trio.fail_after(60):
        while counted()[1] > before[1]:  # noqa: ASYNC110 - trio's idle threads end by themselves
            await trio.sleep(0.1)
    assert counted()[0] == before[0]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # noqa: ASYNC222 - it does not wait


async def test_at_most_as_many_at_once_as_steps(autojump_clock, monkeypatch):
    now = most = 0

    async def counting(function: Any, *args: Any, is_fault: Any) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await trio.sleep(1)
        now -= 1

    monkeypatch.setattr("treadle._engine.context.call_in_process", counting)

    async def many(ctx):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ctx.run_in_process, time.sleep, 1)

    assert (await run(flow(host_of({"a": many}), act("a"), config={"max_concurrent_steps": 3}))).ok
    assert most == 3


# --- programs -------------------------------------------------------------------------------------

PROGRAM = """
import time, trio
from treadle import Host, Step, StepOutcome, build_workflow, open
from treadle.testing import offering

def double(number):
    return number * 2

class Work(Step):
    async def run(self, ctx):
        return StepOutcome(value=await ctx.run_in_process(double, 21))

host = Host.of({"lab": offering({"step_type": {"work": Work}})})

async def main():
    async with open(host=host) as session:
        data = {"name": "x", "config": {"max_retries": 0}, "steps": [{"id": "a", "type": "work"}]}
        result = (await session.run(build_workflow(data, host=host))).step_results["a"]
        print(result.output, result.error)
"""


@pytest.mark.parametrize("guard", ["if __name__ == '__main__':\n    ", ""])
def test_a_function_of_the_program_itself_is_found(tmp_path, guard):
    """What the program does at its top is done again in the process; a guard, as for multiprocessing, prevents it."""
    (tmp_path / "program.py").write_text(f"{PROGRAM}\n{guard}trio.run(main)\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "42 None\n"
    told = "" if guard else (
        "None function 'double' cannot be called in a process by a program that one is importing; "
        "begin runs under: if __name__ == '__main__':\n"
    )  # fmt: skip
    assert done.stderr == told


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups here")
async def test_ctrl_c_ends_the_process_with_the_program(work, tmp_path):
    async with calling(tmp_path) as (process, pids):
        process.send_signal(signal.SIGINT)
        assert await process.wait() == -signal.SIGINT
        await until_ended(*pids)
