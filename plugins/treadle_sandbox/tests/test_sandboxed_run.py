"""What an enabled block runs: the checked words, in the checked directory, with a small environment."""

import os
from pathlib import Path
from typing import Any

import pytest

from treadle import CommandResult, SandboxError, ToolError
from treadle_sandbox import policy
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path.resolve()


def _allow(base: Path, *commands: str, **fields: Any) -> PolicySandbox:
    block = {"enabled": True, "allowed_commands": commands, "allowed_paths": (".",), **fields}
    return PolicySandbox(PolicyBlock(**block), base)


async def test_the_words_run_as_they_were_read_and_no_shell_sees_them(base: Path) -> None:
    result = await _allow(base, "printf").run("printf '%s:' a 'b  c' \"d'e\" f\\ g '' '#h' !i")
    assert result == CommandResult(returncode=0, stdout=b"a:b  c:d'e:f g::#h:!i:", stderr=b"")


async def test_a_program_is_called_by_the_name_that_was_written(base: Path) -> None:
    sandbox = _allow(base, "sh", danger_opt_in=("sh",))
    (base / "script").write_text("echo name $0", encoding="utf-8")
    assert (await sandbox.run("sh script")).stdout == b"name script\n"


async def test_a_command_gets_five_variables(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANG", "LC_ALL", "TZ", "OPENAI_API_KEY", "LD_PRELOAD", "LC_TIME", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "C" if name.startswith("L") and name != "LD_PRELOAD" else "")
    monkeypatch.setenv("SECRET", "s3cret")
    result = await _allow(base, "env", danger_opt_in=("env",)).run("env")
    names = {line.partition("=")[0] for line in result.stdout.decode().splitlines()}
    assert names == {"PATH", "HOME", "LANG", "LC_ALL", "TZ"}


async def test_a_program_that_is_not_there_is_a_result_as_a_shell_has_it(base: Path) -> None:
    result = await _allow(base, "no-such-program").run("no-such-program a")
    assert result == CommandResult(returncode=127, stdout=b"", stderr=b"no-such-program: not found\n")


async def test_a_refused_command_does_not_start(base: Path) -> None:
    with pytest.raises(SandboxError, match="refuses '>' anywhere"):
        await _allow(base, "touch").run("touch made > x")
    with pytest.raises(SandboxError, match="the program 'touch'"):
        await _allow(base, "ls").run("touch made")
    assert os.listdir(base) == ["data"]  # noqa: PTH208


async def test_it_runs_in_the_directory_that_was_checked_whatever_becomes_of_its_name(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is swapped in after the directory was opened and before the program starts."""
    real = policy.run_command

    async def swap_first(*args: Any, **options: Any) -> CommandResult:
        (base / "data").rename(base / "moved")
        (base / "data").symlink_to("/")
        return await real(*args, **options)

    monkeypatch.setattr(policy, "run_command", swap_first)
    result = await _allow(base, "pwd", allowed_paths=("data",)).run("pwd -P", cwd="data")
    assert result.stdout.decode() == f"{base}/moved\n"


async def test_a_link_that_takes_the_directory_s_place_before_it_is_opened_is_refused(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = policy.checked_command

    def swap_after(*args: Any, **options: Any) -> Any:
        checked = real(*args, **options)
        (base / "data").rmdir()
        (base / "data").symlink_to("/")
        return checked

    monkeypatch.setattr(policy, "checked_command", swap_after)
    with pytest.raises(SandboxError, match="a link took the place of a part of it"):
        await _allow(base, "pwd", allowed_paths=("data",)).run("pwd", cwd="data")


async def test_a_directory_to_run_in_that_is_not_there_is_said(base: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await _allow(base, "pwd").run("pwd", cwd="none")
    assert str(caught.value) == f"cwd 'none' is not a directory (it stands for {base}/none)"


@pytest.mark.parametrize("enabled", [False, True])
async def test_a_flood_of_output_ends_at_the_block_s_limit(base: Path, enabled: bool) -> None:
    sandbox = _allow(base, "yes", enabled=enabled, max_output_bytes=1000)
    with pytest.raises(ToolError) as caught:
        await sandbox.run("yes", timeout=60)
    assert str(caught.value) == (
        "the command wrote more than sandbox.max_output_bytes (1000) and was ended; set "
        "config.sandbox.max_output_bytes higher, or to none"
    )
    assert caught.value.transient is False


async def test_a_time_out_ends_it(base: Path) -> None:
    result = await _allow(base, "sleep").run("sleep 60", timeout=0.2)
    assert result == CommandResult(returncode=-1, stdout=b"", stderr=b"Command timed out", timed_out=True)


async def test_variables_that_hold_the_deployment_s_keys_are_kept_from_every_command(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "s3cret")
    monkeypatch.setenv("OTHER", "yes")
    context = {"secret_variables": lambda: frozenset({"ACME_KEY"})}
    for block in ({}, {"max_output_bytes": 99999}):
        parent = PolicyBlock.model_validate(block, context=context)
        combined = PolicySandbox.combine(parent, PolicyBlock.model_validate({}, context=context))
        out = (await PolicySandbox(combined, base).run("env")).stdout.decode()
        assert "OTHER=yes" in out
        assert "s3cret" not in out
    enabled = {"enabled": True, "allowed_commands": ["env"], "danger_opt_in": ["env"], "allowed_paths": ["."]}
    context = {"secret_variables": lambda: frozenset({"HOME"})}
    sandbox = PolicySandbox(PolicyBlock.model_validate(enabled, context=context), base)
    assert "HOME=" not in (await sandbox.run("env")).stdout.decode()


async def test_no_descriptor_is_left_open(base: Path) -> None:
    sandbox = _allow(base, "true", "sleep")
    await sandbox.run("true")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - they are only counted
    for command in ("true", "sleep 60"):
        await sandbox.run(command, timeout=0.1)
    with pytest.raises(SandboxError):
        await sandbox.run("rm")
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
