"""Which settings file counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import treadle
from treadle.api import default_host


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Go to a folder below the test's own, which is made."""

    def go(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)
        return folder

    return go


def test_without_any_there_is_none(below: Callable[[str], Path]) -> None:
    below("a/b")
    assert treadle.find_settings() is None
    assert treadle.load_settings() == treadle.Settings()


def test_the_nearest_one_upward_counts(below: Callable[[str], Path], tmp_path: Path) -> None:
    above = tmp_path / "treadle.yaml"
    above.touch()
    near = below("a/b") / "treadle.yaml"
    assert treadle.find_settings() == str(above)
    near.touch()
    assert treadle.find_settings() == "treadle.yaml", "in the working directory it is named as people name it"
    below("a/b/.git/c")
    assert treadle.find_settings() == str(near), "a repository does not end the way up"


def test_a_folder_of_that_name_is_passed_over(below: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").touch()
    (below("a") / "treadle.yaml").mkdir()
    assert treadle.find_settings() == str(tmp_path / "treadle.yaml")


def test_the_variable_names_one_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "treadle.yaml").touch()
    monkeypatch.setenv("TREADLE_CONFIG", "other.yaml")
    assert treadle.find_settings() == "other.yaml"
    for nothing in ("", "  "):
        monkeypatch.setenv("TREADLE_CONFIG", nothing)
        assert treadle.find_settings() is None


@pytest.mark.parametrize("which", ["stat", "lstat"])
def test_one_that_a_stranger_put_there_is_refused(
    below: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """In a shared directory such as /tmp anybody can leave one, or a link to one, which would send keys elsewhere."""
    file = tmp_path / "treadle.yaml"
    file.touch()
    below("mine")
    genuine = getattr(Path, which)

    def strangers(self: Path, **how: bool) -> object:
        return SimpleNamespace(st_uid=4242, st_mode=0o100644) if self == file else genuine(self, **how)

    monkeypatch.setattr(Path, which, strangers)
    with pytest.raises(treadle.ConfigurationError) as caught:
        treadle.find_settings()
    assert str(caught.value) == (
        f"{file} belongs to another user than you and its directory; "
        "--config FILE reads it all the same, --no-config goes on without"
    )


def test_one_that_belongs_to_whom_its_directory_does_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is where a container runs as root over a directory of the user's."""
    (tmp_path / "treadle.yaml").touch()
    for which in ("stat", "lstat"):
        monkeypatch.setattr(Path, which, lambda self, **how: SimpleNamespace(st_uid=4242, st_mode=0o100644))
    assert treadle.find_settings() == "treadle.yaml"


def test_programs_use_the_file_that_the_command_line_would(
    below: Callable[[str], Path], tmp_path: Path, installed: None
) -> None:
    """A workflow is held to the deployment's sandbox wherever it is run from; a program that wants none says so."""
    (tmp_path / "treadle.yaml").write_text("model: theirs\n", encoding="utf-8")
    below("a")
    default_host.cache_clear()
    try:
        assert default_host().settings.model == "theirs"
    finally:
        default_host.cache_clear()
    assert treadle.Host.discover().settings.model is None
