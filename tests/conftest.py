"""Environments with installed packages, for tests of packages and of pages. They are made once a session, offline."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from documents.pages import environment_of
from installs.wheelhouse import Environment, Wheelhouse

MakeEnvironment = Callable[..., Environment]

# What a stranger who tries Treadle out has installed: the defaults that need no key.
USUAL = ("treadle-cli", "treadle-llm-call", "treadle-openai", "treadle-replay", "treadle-router", "treadle-tools")


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    return Wheelhouse(tmp_path_factory.mktemp("wheels"), roots=USUAL)


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory, wheelhouse: Wheelhouse) -> MakeEnvironment:
    """Makes a virtual environment with the given requirements installed from the wheelhouse."""

    def make(*requirements: str) -> Environment:
        folder = tmp_path_factory.mktemp("environment") / "venv"
        done = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        variables = {**environment_of(os.environ, folder / "bin"), **wheelhouse.pip_settings()}
        made = Environment(folder, variables)
        made.run("python", "-m", "pip", "install", "--quiet", *requirements, cwd=folder)
        return made

    return make


@pytest.fixture(scope="session")
def strangers(make_environment: MakeEnvironment) -> Environment:
    """The environment of somebody who writes plugins: the usual packages, pytest and a build backend."""
    return make_environment(*USUAL, *Wheelhouse.TOOLS)


@pytest.fixture
def strangers_home(tmp_path: Path) -> Path:
    """An empty folder to work in."""
    home = tmp_path / "home"
    home.mkdir()
    return home
