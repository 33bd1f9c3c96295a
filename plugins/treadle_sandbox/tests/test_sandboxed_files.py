"""Files under an enabled block: by their real path, and opened as they were checked."""

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from treadle import SandboxError, ToolError
from treadle_sandbox import files
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("both", "read/deep", "write", "secret"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("both", "read", "write", "secret"):
        (tmp_path / name / "file").write_bytes(name.encode())
    return tmp_path.resolve()


def _sandbox(base: Path, **fields: Any) -> PolicySandbox:
    given = {"allowed_paths": ("both",), "readable_paths": ("read",), "writable_paths": ("write",)}
    return PolicySandbox(PolicyBlock(**{"enabled": True, **given, **fields}), base)


async def _refused(sandbox: PolicySandbox, path: str, *, write: bool) -> str:
    with pytest.raises(SandboxError) as caught:
        await (sandbox.write(path, b"new") if write else sandbox.read(path))
    assert caught.value.transient is False
    return str(caught.value)


async def test_reading_and_writing_have_their_lists(base: Path) -> None:
    sandbox = _sandbox(base)
    assert await sandbox.read("both/file") == b"both"
    assert await sandbox.read(str(base / "read/deep/../file")) == b"read"
    assert await sandbox.write("both/new/a", b"x") == base / "both/new/a"
    assert await sandbox.write("write/file", b"x") == base / "write/file"
    assert await _refused(sandbox, "write/file", write=False) == (
        f"the sandbox does not allow 'write/file' to be read: it stands for {base}/write/file, which is in none of "
        "allowed_paths and readable_paths"
    )
    assert await _refused(sandbox, "read/file", write=True) == (
        f"the sandbox does not allow 'read/file' to be written: it stands for {base}/read/file, which is in none of "
        "allowed_paths and writable_paths"
    )


async def test_without_lists_nothing_can_be_read_or_written(base: Path) -> None:
    sandbox = _sandbox(base, allowed_paths=(), readable_paths=(), writable_paths=())
    for write in (False, True):
        assert "does not allow 'both/file'" in await _refused(sandbox, "both/file", write=write)


@pytest.mark.parametrize(
    "path",
    ["..", ".", "/", "/etc/passwd", "both/../secret/file", "bothx/file", "both/../both/../../x", "~/x", "file",
     "both\\..\\secret", "//etc/passwd", "/proc/self/environ", "/proc/self/cwd/secret/file",
     "/proc/self/root/etc/passwd", "/dev/zero", "/dev/stdin", "BOTH/file"],
)  # fmt: skip
@pytest.mark.parametrize("write", [False, True])
async def test_a_way_out_is_refused(base: Path, path: str, write: bool) -> None:
    (base / "bothx").mkdir()
    assert "the sandbox does not allow" in await _refused(_sandbox(base), path, write=write)


@pytest.mark.parametrize("target", ["../secret/file", "/etc/passwd", "../secret", "missing/../../secret/file"])
async def test_a_link_that_points_outside_is_refused(base: Path, target: str) -> None:
    (base / "both/link").symlink_to(target)
    (base / "both/chain").symlink_to("link")
    for path in ("both/link", "both/chain", "both/link/file", "both/link/new"):
        for write in (False, True):
            assert "the sandbox does not allow" in await _refused(_sandbox(base), path, write=write)
    assert (base / "secret/file").read_bytes() == b"secret"
    assert sorted(each.name for each in (base / "secret").iterdir()) == ["file"]


async def test_a_link_within_is_followed(base: Path) -> None:
    (base / "both/link").symlink_to("../read/file")
    assert await _sandbox(base).read("both/link") == b"read"


async def test_the_lists_mean_the_directories_of_the_start(base: Path) -> None:
    """A workflow that could replace an allowed directory by a link would else allow itself the target."""
    (base / "allowed").symlink_to("both")
    sandbox = _sandbox(base, allowed_paths=("allowed",))
    (base / "allowed").unlink()
    (base / "allowed").symlink_to("secret")
    assert "the sandbox does not allow" in await _refused(sandbox, "allowed/file", write=False)
    assert await sandbox.read("both/file") == b"both"


async def test_a_list_may_name_what_is_not_there_yet(base: Path) -> None:
    sandbox = _sandbox(base, writable_paths=("later/out",))
    assert await sandbox.write("later/out/deep/a", b"x") == base / "later/out/deep/a"


async def test_a_file_is_larger_than_allowed_by_its_encoded_size(base: Path) -> None:
    sandbox = _sandbox(base, max_write_bytes=4)
    await sandbox.write("both/file", "üü".encode())
    with pytest.raises(SandboxError) as caught:
        await sandbox.write("both/file", b"12345")
    assert str(caught.value) == (
        "the sandbox does not allow 'both/file' to be written: its 5 bytes are more than max_write_bytes (4)"
    )
    assert (base / "both/file").read_bytes() == "üü".encode()
    await _sandbox(base, enabled=False, max_write_bytes=4).write("both/file", b"12345")


async def test_writing_in_pieces_makes_no_larger_file(base: Path) -> None:
    """Every write replaces the file; a number of files is not limited."""
    sandbox = _sandbox(base, max_write_bytes=4)
    for _ in range(3):
        await sandbox.write("both/file", b"1234")
    assert await sandbox.read("both/file") == b"1234"


async def test_a_path_longer_than_the_system_s_limit_is_not_looked_up(base: Path) -> None:
    with pytest.raises(ToolError, match="a path of 5000 characters is too long; the most is 4096"):
        await _sandbox(base).read("a/" * 2500)


async def test_only_regular_files_are_touched(base: Path) -> None:
    os.mkfifo(base / "both/pipe")
    with trio.fail_after(20):
        assert "regular files only" in await _refused(_sandbox(base), "both/pipe", write=False)
        assert "regular files only" in await _refused(_sandbox(base), "both/pipe", write=True)
    sandbox = _sandbox(base, allowed_paths=("/dev",))
    assert "regular files only" in await _refused(sandbox, "/dev/zero", write=False)
    assert "regular files only" in await _refused(sandbox, "/dev/null", write=True)
    with pytest.raises(IsADirectoryError):
        await _sandbox(base).read("both")
    with pytest.raises(ToolError, match="cannot be a path"):
        await _sandbox(base).read("both/\0")


# --- races ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", ["both/sub", "both/sub/file"])
@pytest.mark.parametrize("write", [False, True])
async def test_a_link_swapped_in_between_check_and_use_is_not_followed(
    base: Path, monkeypatch: pytest.MonkeyPatch, swapped: str, write: bool
) -> None:
    (base / "both/sub").mkdir()
    (base / "both/sub/file").write_bytes(b"inside")
    sandbox = _sandbox(base)
    checked = sandbox.check_path

    def swap_after(path: str, *, write: bool) -> Path:
        place = checked(path, write=write)
        (base / swapped).rename(base / "both/moved")
        (base / swapped).symlink_to(base / ("secret" if swapped == "both/sub" else "secret/file"))
        return place

    monkeypatch.setattr(sandbox, "check_path", swap_after)
    with pytest.raises(SandboxError, match="a link took the place of a part of it while it was opened"):
        await (sandbox.write("both/sub/file", b"new") if write else sandbox.read("both/sub/file"))
    assert (base / "secret/file").read_bytes() == b"secret"


async def test_a_link_swapped_in_before_the_last_rename_is_itself_replaced(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., None] = os.replace

    def swap_first(*args: Any, **options: Any) -> None:
        (base / "both/file").unlink()
        (base / "both/file").symlink_to(base / "secret/file")
        real(*args, **options)

    monkeypatch.setattr(files.os, "replace", swap_first)
    await _sandbox(base).write("both/file", b"new")
    assert (base / "secret/file").read_bytes() == b"secret"
    assert (base / "both/file").read_bytes() == b"new"
    assert not (base / "both/file").is_symlink()


async def test_a_directory_that_is_swapped_all_the_time_never_lets_anything_out(base: Path) -> None:
    """Another process renames a directory and a link to a secret one to and fro."""
    (base / "both/sub").mkdir()
    (base / "both/sub/file").write_bytes(b"inside")
    stop = threading.Event()
    sub = base / "both/sub"

    def swap() -> None:
        while not stop.is_set():
            sub.rename(base / "both/kept")
            with suppress(FileExistsError):  # a directory that a write has made meanwhile
                sub.symlink_to(base / "secret")
            while (base / "both/kept").exists():
                if sub.is_symlink():
                    sub.unlink()
                with suppress(OSError):  # a write may put something there again and again
                    shutil.rmtree(sub, ignore_errors=True)
                    (base / "both/kept").rename(sub)

    thread = threading.Thread(target=swap)
    thread.start()
    sandbox, seen = _sandbox(base), set()
    try:
        for _ in range(150):
            with suppress(SandboxError, OSError):
                seen.add(await sandbox.read("both/sub/file"))
            with suppress(SandboxError, OSError):
                await sandbox.write("both/sub/planted", b"x")
    finally:
        stop.set()
        thread.join()
    assert seen <= {b"inside"}
    assert sorted(each.name for each in (base / "secret").iterdir()) == ["file"]


async def test_no_descriptor_is_left_open(base: Path) -> None:
    sandbox = _sandbox(base)
    await sandbox.read("both/file")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - they are only counted
    await sandbox.read("both/file")
    await sandbox.write("both/a/b/c", b"")
    for path in ("both/none", "both/file/x", "both"):
        with pytest.raises(OSError, match=r"No such file|Not a directory|Is a directory"):
            await sandbox.read(path)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
