"""Files: read, replaced in one stroke."""

import os
import stat
from pathlib import Path

import pytest
import trio

from treadle import ToolError
from treadle_sandbox import files
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> PolicySandbox:
    return PolicySandbox(PolicyBlock(), tmp_path.resolve())


def _content(directory: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in directory.iterdir()}


async def test_what_is_written_is_read_back(sandbox: PolicySandbox) -> None:
    data = "ünï😀".encode()
    path = await sandbox.write("new/dïr/a.txt", data)
    assert path == sandbox.base / "new/dïr/a.txt"
    assert await sandbox.read("new/dïr/a.txt") == data
    assert await sandbox.read(str(path)) == data
    assert _content(path.parent) == {"a.txt": data}


async def test_a_new_file_has_the_permissions_that_the_umask_leaves(sandbox: PolicySandbox) -> None:
    old = os.umask(0o027)
    try:
        path = await sandbox.write("a", b"")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


async def test_an_existing_file_keeps_its_permissions_and_becomes_a_new_file(
    sandbox: PolicySandbox, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o750)
    with path.open("rb") as reader:
        await sandbox.write("a", b"newer")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"newer"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


async def test_through_a_link_the_file_that_is_meant_is_replaced(sandbox: PolicySandbox, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    assert await sandbox.write("link", b"new") == sandbox.base / "real"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


async def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    sandbox: PolicySandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fchmod", full)
    with pytest.raises(OSError, match="No space left"):
        await sandbox.write("a", b"new")
    assert _content(tmp_path) == {"a": b"old"}


async def test_a_directory_a_pipe_and_a_device_are_not_replaced(sandbox: PolicySandbox, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        await sandbox.write(".", b"")
    with pytest.raises(ToolError, match="pipe is not a regular file"):
        await sandbox.write("pipe", b"")
    await sandbox.write("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116 - nothing is read


async def test_a_read_is_limited_in_size(sandbox: PolicySandbox, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert await sandbox.read("a", max_bytes=5) == b"12345"
    with pytest.raises(ToolError, match=r"/a is larger than the limit of 4 bytes") as caught:
        await sandbox.read("a", max_bytes=4)
    assert caught.value.transient is False


async def test_a_missing_file_is_the_system_s_own_error(sandbox: PolicySandbox) -> None:
    with pytest.raises(FileNotFoundError):
        await sandbox.read("none")


async def test_a_read_that_blocks_can_be_cancelled(sandbox: PolicySandbox, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with trio.move_on_after(0.2) as scope:
        await sandbox.read("pipe")
    assert scope.cancelled_caught
    (tmp_path / "pipe").write_bytes(b"")  # lets the thread go


def test_paths_start_from_the_base_and_follow_dots_and_links(sandbox: PolicySandbox, tmp_path: Path) -> None:
    base = tmp_path.resolve()
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "circle").symlink_to("circle")
    assert sandbox.check_path("a/../b", write=True) == base / "b"
    assert sandbox.check_path("link/tmp2", write=False) == Path("/tmp2")
    assert sandbox.check_path("/x/y", write=False) == Path("/x/y")
    assert sandbox.check_path("circle", write=False) == base / "circle"
    with pytest.raises(ToolError, match=r"cannot be a path: .*embedded null"):
        sandbox.check_path("a\0b", write=False)
