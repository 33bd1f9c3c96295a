"""Environments with installed packages, for tests of packages and of pages. They are made once a session, offline."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workspace import META

from documents.pages import environment_of
from installs.wheelhouse import Environment, Wheelhouse

MakeEnvironment = Callable[..., Environment]

# What a stranger who tries Treadle out has installed: the defaults that need no key.
USUAL = ("treadle-cli", "treadle-llm-call", "treadle-openai", "treadle-replay", "treadle-router", "treadle-tools")


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    return Wheelhouse(tmp_path_factory.mktemp("wheels"), roots=[META, *USUAL])


@pytest.fixture(scope="session")
def strangers(tmp_path_factory: pytest.TempPathFactory, wheelhouse: Wheelhouse) -> Environment:
    """The environment of somebody who writes plugins: the usual packages, pytest, a build backend and pip."""
    made = _environment(tmp_path_factory.mktemp("strangers"), wheelhouse)
    made.run("python", "-m", "pip", "install", "--quiet", *USUAL, *Wheelhouse.TOOLS, cwd=made.folder)
    return made


@pytest.fixture(scope="session")
def make_environment(
    tmp_path_factory: pytest.TempPathFactory, wheelhouse: Wheelhouse, strangers: Environment
) -> MakeEnvironment:
    """Makes a virtual environment that holds the given requirements and what they need, and no pip."""

    def make(*requirements: str) -> Environment:
        made = _environment(tmp_path_factory.mktemp("environment"), wheelhouse, "--without-pip")
        python = str(made.binaries / "python")
        strangers.run("python", "-m", "pip", "--python", python, "install", "-q", *requirements, cwd=made.folder)
        return made

    return make


def _environment(place: Path, wheelhouse: Wheelhouse, *options: str) -> Environment:
    folder = place / "venv"
    command = [sys.executable, "-m", "venv", *options, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return Environment(folder, {**environment_of(os.environ, folder / "bin"), **wheelhouse.pip_settings()})


@pytest.fixture
def strangers_home(tmp_path: Path) -> Path:
    """An empty folder to work in."""
    home = tmp_path / "home"
    home.mkdir()
    return home
