"""What an enabled block allows of command lines, rule by rule, and what has got past other sandboxes."""

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from treadle import SandboxError
from treadle_sandbox.block import PolicyBlock
from treadle_sandbox.policy import PolicySandbox
from treadle_sandbox.programs import is_launcher


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories to be allowed, files outside of them, links, and programs."""
    root = tmp_path_factory.mktemp("world").resolve()
    for name in ("data/sub", "out", "secret", "bin", "other"):
        (root / name).mkdir(parents=True)
    (root / "data/file").write_text("x", encoding="utf-8")
    (root / "secret/key").write_text("k", encoding="utf-8")
    (root / "data/link").symlink_to("../secret")
    (root / "data/inner").symlink_to("sub")
    for place in ("bin/tool", "bin/Tool2", "other/tool", "data/tool", "bin/python3.11", "bin/sh"):
        (root / place).write_text("#!/bin/sh\n", encoding="utf-8")
        (root / place).chmod(0o755)
    (root / "bin/innocent").symlink_to("python3.11")
    (root / "data/same").symlink_to("../bin/tool")
    return root


@pytest.fixture
def allow(world: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PATH", f"{world / 'bin'}")

    def make(**fields: Any) -> PolicySandbox:
        given = {"allowed_commands": ("tool",), "readable_paths": ("data",), "writable_paths": ("out",)} | fields
        return PolicySandbox(PolicyBlock(enabled=True, **given), world)

    return make


def refusal(sandbox: PolicySandbox, command: str, cwd: str = "data") -> str:
    with pytest.raises(SandboxError) as caught:
        sandbox.check_command(command, cwd=cwd)
    assert caught.value.transient is False
    assert "sandbox" in str(caught.value)
    return str(caught.value)


# --- the rules --------------------------------------------------------------------------------------------


def test_the_directory_must_be_covered_by_what_may_be_read(allow: Any, world: Path) -> None:
    assert refusal(allow(), "tool", ".") == (
        f"the sandbox does not allow commands in '.': it stands for {world}, which is in none of allowed_paths and "
        "readable_paths"
    )
    assert "commands in 'out'" in refusal(allow(), "tool", "out")
    assert "commands in 'data/link'" in refusal(allow(), "tool", "data/link")
    assert "commands in 'data/../secret'" in refusal(allow(), "tool", "data/../secret")
    assert "commands in '.'" in refusal(allow(readable_paths=(), writable_paths=()), "tool", ".")
    allow().check_command("tool", cwd="data/sub")
    allow(allowed_paths=(".",)).check_command("tool", cwd=".")


@pytest.mark.parametrize("sign", ["|", ";", "&", "`", "<", ">", "$(", "<(", ">(", "\n", "\r", "||", "&&"])
@pytest.mark.parametrize("text", ["tool a {} b", "tool 'a {} b'", 'tool "a{}b"', "tool a{}", "{}tool", "tool \\{}"])
def test_an_operator_is_refused_anywhere(allow: Any, sign: str, text: str) -> None:
    assert "anywhere in a command, in quotes too: one call runs one program" in refusal(allow(), text.format(sign))


@pytest.mark.parametrize(
    "text",
    ["$HOME", "'$5'", "${IFS}", '"*.log"', "a?", "[ab]", "{a,b}", "x{1..3}y", "{a{b},c}", "~", "~root", "'~/x'",
     "--home=~", "a:~/b", "--x='~'", "=~"],
)  # fmt: skip
def test_an_expansion_is_refused_anywhere(allow: Any, text: str) -> None:
    assert "the sandbox refuses" in refusal(allow(), f"tool {text}")


@pytest.mark.parametrize("text", ["a~", "{}", "{a}", "{a.b}", "a,b", "'{a b}'", "100%", "#a", "!a", "a\\ b", "''", "-"])
def test_what_only_looks_a_little_like_it_is_passed(allow: Any, text: str) -> None:
    allow().check_command(f"tool {text}", cwd="data")


@pytest.mark.parametrize("command", ["", "   ", "''", "tool 'a", 'tool "', "tool \\"])
def test_a_line_that_cannot_be_read_is_refused(allow: Any, command: str) -> None:
    assert "the sandbox" in refusal(allow(), command)


def test_the_program_must_be_listed_in_the_same_case(allow: Any) -> None:
    assert refusal(allow(), "rm -r x") == "the sandbox does not allow the program 'rm': allowed_commands has tool"
    assert "the program 'TOOL'" in refusal(allow(), "TOOL")
    assert "the program 'tool2'" in refusal(allow(allowed_commands=("Tool2",)), "tool2")
    assert "allowed_commands has nothing" in refusal(allow(allowed_commands=()), "tool")


def test_a_path_to_a_program_must_be_the_file_on_path(allow: Any, world: Path) -> None:
    allow().check_command(f"{world}/bin/tool", cwd="data")
    for other in (f"{world}/other/tool", "./tool", f"{world}/data/tool", f"{world}/bin/../other/tool", "none/tool"):
        assert f"does not allow '{other}': 'tool' on PATH is {world}/bin/tool" in refusal(allow(), other)
    assert "the program 'same'" in refusal(allow(), "./same")
    assert "there is no 'gone' on PATH" in refusal(allow(allowed_commands=("gone",)), "/bin/gone")


def test_the_working_directory_on_path_is_no_place_for_programs(
    allow: Any, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (f":{world}/bin", f".:{world}/bin", f"data:{world}/bin"):
        monkeypatch.setenv("PATH", path)
        assert f"on PATH is {world}/bin/tool" in refusal(allow(), "./tool")


LAUNCHERS = [
    "sh",
    "bash",
    "zsh",
    "fish",
    "ksh",
    "dash",
    "env",
    "xargs",
    "find",
    "exec",
    "eval",
    "source",
    ".",
    "python",
    "python3",
    "node",
    "perl",
    "ruby",
    "php",
    "lua",
    "awk",
    "nc",
    "ncat",
    "socat",
    "ssh",
]


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_is_refused_unless_it_is_opted_in_by_name(allow: Any, name: str) -> None:
    text = refusal(allow(allowed_commands=(name,), danger_opt_in=("other",)), f"{name} x")
    assert text.startswith(f"the sandbox refuses '{name}', which can run anything else")
    allow(allowed_commands=(name,), danger_opt_in=(name,)).check_command(f"{name} x", cwd="data")


def test_an_opt_in_alone_allows_nothing(allow: Any) -> None:
    assert "the program 'sh'" in refusal(allow(danger_opt_in=("sh",)), "sh")


@pytest.mark.parametrize("name", ["python3.11", "perl5.36.0", "gawk", "lua5.4", "busybox", "sudo", "timeout"])
def test_other_names_of_launchers_are_known(name: str) -> None:
    assert is_launcher(name, None)
    assert not is_launcher(f"{name}x", None)


def test_a_link_to_a_launcher_is_one(allow: Any) -> None:
    assert "refuses 'innocent', which can run anything" in refusal(allow(allowed_commands=("innocent",)), "innocent")
    allow(allowed_commands=("innocent",), danger_opt_in=("innocent",)).check_command("innocent", cwd="data")


INSIDE = ["file", "none", "sub/../file", "./file", ".", "inner", "inner/x", "../out/new", "--opt=sub/x", "-f", "-la",
          "--", "https://example.com/a", "s/a/b/", "{world}/data/file", "a=b", "--file=file", "-f sub/x",
          "..sub"]  # fmt: skip


@pytest.mark.parametrize("argument", INSIDE)
def test_an_argument_within_the_lists_is_passed(allow: Any, world: Path, argument: str) -> None:
    allow().check_command(f"tool {argument.format(world=world)}", cwd="data")


OUTSIDE = [
    # traversal
    "..", "../..", "../secret", "sub/../../secret/key", "/etc/passwd", "//etc/passwd", "/", "./../secret", "sub/../..",
    # links
    "link", "link/key", "inner/../../secret", "sub/../link/key",
    # smuggled in options
    "--opt=/etc/passwd", "--opt=../secret", "--opt=..", "--opt=link", "-f/etc/passwd", "-finclude/list", "-C..",
    "-flink", "--file/etc/passwd", "-o=/etc/passwd", "--a=b=/etc/passwd", "if=/etc/passwd", "of=../secret/key",
    "--mount=type=bind,source=/etc", "@/etc/passwd", "name@/etc/passwd", "host:/etc/passwd", "a:../secret", "x,/etc",
    "file:///etc/passwd", "FILE:/etc/passwd", "file:///%65tc/passwd",
    # quoting
    "'/etc/passwd'", '"/etc"/passwd', "/e't'c/passwd", "\\/etc/passwd", "'..'", "--opt='/etc/passwd'", "'li'nk",
    # systems' own
    "/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/self/cwd/../secret", "/dev/fd/0", "/dev/tcp/1.1.1.1/80",
]  # fmt: skip


@pytest.mark.parametrize("argument", OUTSIDE)
def test_an_argument_outside_of_the_lists_is_refused(allow: Any, argument: str) -> None:
    assert "which is in none of allowed_paths, readable_paths and writable_paths" in refusal(
        allow(), f"tool {argument}"
    )


@pytest.mark.parametrize(
    "command",
    [
        "LD_PRELOAD=./evil.so tool", "PATH=. tool", "BASH_ENV=x tool", "FOO= tool", "env FOO=1 tool", "exec tool",
        "! tool", "(tool)", "{ tool; }", "if tool", "\\rm x", "r''m x", "too\\l2", "/bin/rm x", "tool\x00x",
        "\u00a0tool", "\ufeff tool", "t\u043eol", "tool\u2028x;",
    ],
)  # fmt: skip
def test_a_command_that_is_another_program_is_refused(allow: Any, command: str) -> None:
    refusal(allow(), command)


@pytest.mark.parametrize("argument", ["=/" * 3000, "a/" * 3000, "=" * 9000, " x=a/b" * 4000, "/" * 9000, "a" * 200_000])
def test_a_command_that_would_take_long_to_look_through_is_refused(
    allow: Any, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[object] = []
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **more: (looked_up.append(path), real(path, **more))[1])
    refusal(allow(), f"tool {argument}")
    assert len(looked_up) < 30_000


# --- against an oracle ------------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    ["tool", "rm", "./tool", "sh", " ", " ", "\t", "'", '"', "\\", "..", "/", "/etc/passwd", "link", "file", "sub",
     "-f", "--o=", "=", "a", "~", "{a,b}", "*", "$x", ";", "|", "&&", "\n", ">", "`", ":", "@", ",", "#", "%2e",
     "\u00e9"]
)  # fmt: skip
_LINES = st.lists(_PIECES, min_size=1, max_size=9).map("".join) | st.lists(_PIECES, max_size=6).map(
    lambda pieces: "tool " + "".join(pieces)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(_LINES)
@example("tool --o=../link")
@example("tool 'a'/../../secret")
def test_what_passes_holds_nothing_that_a_shell_would_act_on_and_no_way_out(
    allow: Any, world: Path, command: str
) -> None:
    """The oracle reads the words anew, and looks every part of them up as a path of its own."""
    try:
        allow().check_command(command, cwd="data")
    except SandboxError:
        return
    assert not set(command) & set("|;&`<>$*?[\n\r")
    words = shlex.split(command)
    assert words[0] in ("tool", f"{world}/bin/tool")
    allowed = (str(world / "data"), str(world / "out"))
    for word in words[1:]:
        starts = [0, *(place + 1 for place, sign in enumerate(word) if sign == "=")]
        for part in (word[start:] for start in starts if not word[start:].startswith("-")):
            real = os.path.realpath(world / "data" / part)
            if "/" in part or part in (".", "..") or (world / "data" / part).is_symlink():
                assert real.startswith(allowed), part


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=40))
def test_no_text_makes_the_check_fail_otherwise_than_by_a_refusal(allow: Any, text: str) -> None:
    for command in (text, f"tool {text}"):
        try:
            allow().check_command(command, cwd="data")
        except SandboxError:
            continue
