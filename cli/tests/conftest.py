"""The command as a program of its own, a stranger's plugin for it, and a terminal to run it on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from treadle_cli.main import treadle_command

HERE = Path(__file__).parent

_LEFT_OUT = re.compile(r"(OPENAI|GENERIC_OPENAI|TREADLE|PYTHON|COV|NO_COLOR|FORCE_COLOR|TERM|COLUMNS|LINES)")


def _heed_ctrl_c() -> None:
    """A test run in the background of a script is told to ignore it, and so would be what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True)
class Program:
    """Starts ``python -m treadle_cli`` in ``folder``, with nothing of the developer's own settings."""

    folder: Path
    plugins: Path
    cache: Path

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not _LEFT_OUT.match(name)}
        own = {"PYTHONPATH": str(self.plugins), "XDG_CACHE_HOME": str(self.cache), "PYTHONIOENCODING": "utf-8"}
        return kept | own | extra

    def start(self, *args: str, env: Mapping[str, str] = {}, **options: Any) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-m", "treadle_cli", *args],
            cwd=self.folder,
            env=self.environment(env),
            **{"preexec_fn": _heed_ctrl_c if os.name == "posix" else None, **streams, **options},
        )

    def __call__(self, *args: str, env: Mapping[str, str] = {}, stdin: str | None = None) -> Ended:
        source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        with self.start(*args, env=env, stdin=source) as process:
            out, err = process.communicate(None if stdin is None else stdin.encode(), timeout=60)
        return Ended(process.returncode, out.decode(), err.decode())

    def write(self, name: str, text: str) -> str:
        """Write a file that the program finds under that name."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


@dataclass(frozen=True)
class Ended:
    """What a program left behind."""

    code: int
    out: str
    err: str


def install(folder: Path, name: str, version: str, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Make ``folder`` look like site-packages with a distribution that declares these entry points."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    sections = (f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items())
    (info / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")


@pytest.fixture(scope="session")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the plugin ``acme`` is installed: steps ``nap``, ``say`` and ``block``."""
    folder = tmp_path_factory.mktemp("acme")
    shutil.copy(HERE / "acme" / "acme_steps.py", folder)
    install(folder, "acme-steps", "1.0", {"treadle.plugins": {"acme": "acme_steps"}})
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def program(tmp_path: Path, acme: Path, cache: Path) -> Program:
    return Program(tmp_path, acme, cache)


@pytest.fixture
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Install a distribution of Python modules, given by their text, in a folder of its own."""

    def make(name: str, groups: Mapping[str, Mapping[str, str]], modules: Mapping[str, str]) -> Path:
        folder = tmp_path_factory.mktemp(name)
        install(folder, name, "0.9", groups)
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(text, encoding="utf-8")
        return folder

    return make


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command in this process, in a folder of its own."""
    for name in list(os.environ):
        if _LEFT_OUT.match(name):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *args, **options: runner.invoke(treadle_command, args, prog_name="treadle", **options)
