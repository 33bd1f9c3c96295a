"""Commands: their result, and that nothing of them is left behind."""

import os
from pathlib import Path

import pytest
import trio

from treadle import CommandResult, ToolError
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox

SOON = 20.0
"""Generous: what must not take the 60 seconds that the commands here would."""


@pytest.fixture
def sandbox(tmp_path: Path) -> PolicySandbox:
    return PolicySandbox(PolicyBlock(), tmp_path.resolve())


def _runs(pid: int) -> bool:
    """Whether the process runs; a zombie of another parent no longer does."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


async def _until_gone(pid: int) -> None:
    with trio.fail_after(SOON):
        while _runs(pid):  # noqa: ASYNC110 - another process has no event to wait for
            await trio.sleep(0.01)


def _written(path: Path) -> list[int]:
    return [int(pid) for pid in path.read_text(encoding="utf-8").split()] if path.exists() else []


async def _pids(path: Path, count: int) -> list[int]:
    with trio.fail_after(SOON):
        while len(_written(path)) < count:  # noqa: ASYNC110 - another process has no event to wait for
            await trio.sleep(0.01)
    return _written(path)


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_command_gives_its_code_and_both_outputs(sandbox: PolicySandbox) -> None:
    result = await sandbox.run("printf 'ü😀'; printf oops >&2; exit 3")
    assert result == CommandResult(returncode=3, stdout="ü😀".encode(), stderr=b"oops")


async def test_a_signal_is_a_negative_code(sandbox: PolicySandbox) -> None:
    assert (await sandbox.run("kill -TERM $$")).returncode == -15


async def test_a_command_has_no_input_and_the_whole_environment(
    sandbox: PolicySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOR_THE_COMMAND", "x y")
    assert (await sandbox.run('cat; printf %s "$FOR_THE_COMMAND"')).stdout == b"x y"


async def test_cwd_is_relative_to_the_base(sandbox: PolicySandbox) -> None:
    base = sandbox.base
    (base / "sub").mkdir()
    assert (await sandbox.run("pwd -P")).stdout.decode() == f"{base}\n"
    assert (await sandbox.run("pwd -P", cwd="sub")).stdout.decode() == f"{base}/sub\n"
    with pytest.raises(ToolError) as caught:
        await sandbox.run("pwd", cwd="none")
    assert str(caught.value) == f"cwd 'none' is not a directory (it stands for {base}/none)"
    assert caught.value.transient is False


async def test_more_output_than_a_pipe_holds_is_collected(sandbox: PolicySandbox) -> None:
    result = await sandbox.run("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2")
    assert (len(result.stdout), len(result.stderr)) == (300_000, 300_000)


async def test_too_much_output_ends_the_command(sandbox: PolicySandbox) -> None:
    assert (await sandbox.run("printf 12345; printf 12345 >&2", max_bytes=10)).stdout == b"12345"
    with pytest.raises(ToolError) as caught, trio.fail_after(SOON):
        await sandbox.run("yes", max_bytes=1000)
    assert str(caught.value) == "the command wrote more than the limit of 1000 bytes and was ended"
    assert caught.value.transient is False


async def test_a_time_out_is_a_result_and_ends_the_whole_group(sandbox: PolicySandbox, tmp_path: Path) -> None:
    with trio.fail_after(SOON):
        result = await sandbox.run("printf early; sleep 60 & echo $! $$ > pids; wait", timeout=0.5)
    assert result == CommandResult(returncode=-1, stdout=b"early", stderr=b"Command timed out", timed_out=True)
    for pid in await _pids(tmp_path / "pids", 2):
        await _until_gone(pid)


async def test_a_cancellation_ends_the_whole_group_even_one_that_ignores_signals(
    sandbox: PolicySandbox, tmp_path: Path
) -> None:
    with trio.fail_after(SOON):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sandbox.run, "trap '' TERM INT HUP; sleep 60 & echo $! $$ > pids; wait; sleep 60")
            pids = await _pids(tmp_path / "pids", 2)
            nursery.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[1], 0)  # the shell has been waited for, so not even a zombie is left
    await _until_gone(pids[0])


async def test_a_background_process_that_holds_the_output_does_not_hold_the_call(
    sandbox: PolicySandbox, tmp_path: Path
) -> None:
    with trio.fail_after(SOON):
        result = await sandbox.run("sleep 60 & echo $! > pids; echo hi", timeout=30)
    assert result == CommandResult(returncode=0, stdout=b"hi\n", stderr=b"")
    (pid,) = await _pids(tmp_path / "pids", 1)
    await _until_gone(pid)


async def test_what_a_background_process_writes_soon_after_is_still_read(sandbox: PolicySandbox) -> None:
    assert (await sandbox.run("(sleep 0.1; echo late) & echo hi")).stdout == b"hi\nlate\n"


async def test_a_shell_that_ended_in_time_did_not_time_out(sandbox: PolicySandbox) -> None:
    with trio.fail_after(SOON):
        result = await sandbox.run("sleep 60 & echo hi", timeout=0.5)
    assert (result.timed_out, result.returncode, result.stdout) == (False, 0, b"hi\n")


async def test_a_child_in_a_session_of_its_own_is_ended_too(sandbox: PolicySandbox, tmp_path: Path) -> None:
    with trio.fail_after(SOON):
        result = await sandbox.run("setsid sh -c 'echo $$ > pids; exec sleep 60'; echo never", timeout=1)
    assert result.timed_out
    (pid,) = await _pids(tmp_path / "pids", 1)
    await _until_gone(pid)


async def test_a_process_that_redirected_its_output_lives_on(sandbox: PolicySandbox) -> None:
    result = await sandbox.run("sleep 60 > /dev/null 2>&1 & echo $!")
    os.kill(int(result.stdout), 9)


async def test_commands_leave_no_descriptor_open(sandbox: PolicySandbox) -> None:
    await sandbox.run("true")
    before = _open_descriptors()
    for command in ("true", "sleep 60", "sleep 60 & true"):
        await sandbox.run(command, timeout=0.1)
    assert _open_descriptors() == before


async def test_what_cannot_be_started_is_said(sandbox: PolicySandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="the command holds a NUL character"):
        await sandbox.run("echo a\0b")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match=r"the command cannot be started in .*: No such file or directory"):
        await sandbox.run("true")
