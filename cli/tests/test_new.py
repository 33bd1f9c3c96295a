"""``treadle plugins new``: what it writes, and what it refuses."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from treadle_cli.template_files import KINDS

Invoke = Callable[..., Result]


@pytest.mark.parametrize("kind", KINDS)
def test_it_writes_a_package_and_says_what_comes_next(kind: str, invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("plugins", "new", "acme-moon", "--kind", kind)
    assert done.exit_code == 0, done.output
    written = [line.removesuffix(" written") for line in done.stdout.splitlines() if line.endswith(" written")]
    on_disk = sorted(
        path.relative_to(tmp_path).as_posix() for path in (tmp_path / "acme-moon").rglob("*") if path.is_file()
    )
    assert sorted(written) == on_disk
    assert done.stdout.splitlines()[-5:] == [
        "next:",
        "  cd acme-moon",
        "  pip install -e '.[test]'",
        "  pytest",
        "  treadle plugins check acme_moon",
    ]


def test_the_folder_may_be_made_elsewhere(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("plugins", "new", "acme_moon", "--kind", "tool", "--path", "far/away")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "far" / "away" / "acme-moon" / "src" / "acme_moon" / "tool.py").is_file()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Acme", "'Acme' is no name for a plugin; use lower-case letters and digits in words joined by - or _"),
        ("acme--moon", "'acme--moon' is no name for a plugin"),
        ("../acme", "'../acme' is no name for a plugin"),
        ("2acme", "'2acme' is no name for a plugin"),
        ("größe", "'größe' is no name for a plugin"),
        ("", "'' is no name for a plugin"),
        ("class", "'class' is a word of Python; choose another"),
        ("treadle-moon", "names that begin with treadle are Treadle's own; begin with a name of yours"),
        ("json", "there is a package 'json' already, which the new one would hide"),
        ("click", "there is a package 'click' already, which the new one would hide"),
    ],
)
def test_what_is_no_name_is_refused_in_a_sentence(name: str, said: str, invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("plugins", "new", "--kind", "tool", "--", name)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_what_is_there_is_never_written_over(what: str, invoke: Invoke, tmp_path: Path) -> None:
    place = tmp_path / "acme-moon"
    {"folder": place.mkdir, "file": place.touch, "link": lambda: place.symlink_to("nowhere")}[what]()
    done = invoke("plugins", "new", "acme-moon", "--kind", "tool")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "error: acme-moon is there already; choose another name, or say --path DIR\n"


def test_a_place_that_cannot_be_written_is_told(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = invoke("plugins", "new", "acme-moon", "--kind", "tool", "--path", "file/inside")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: file/inside")
    assert "cannot be written: " in done.stderr


def test_an_unknown_kind_gets_the_list(invoke: Invoke) -> None:
    done = invoke("plugins", "new", "acme-moon", "--kind", "stepp")
    assert done.exit_code == 2
    assert "'step', 'tool', 'provider', 'trim_policy', 'attachment_fetcher', 'sandbox'" in done.stderr


def test_what_users_type_otherwise_is_understood_or_told(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("plugins", "new", "acme-moon", "--kind", "trim-policy", "--path", "far")
    assert done.exit_code == 0
    assert done.stdout.startswith("far was not there and has been made\n")
    assert "@hookimpl\ndef treadle_trim_policies()" in (
        tmp_path / "far" / "acme-moon" / "src" / "acme_moon" / "plugin.py"
    ).read_text(encoding="utf-8")
    refused = invoke("plugins", "new", "9lives", "--kind", "tool")
    assert "beginning with a letter" in refused.stderr
    assert invoke("plugins", "list").stdout.splitlines()[0].split()[:2] == ["NAME", "DISTRIBUTION"]
    assert "plugins" in invoke("plugins", "list", "--json").stdout


def test_nothing_is_written_that_nobody_checks(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("plugins", "new", "acme-moon", "--kind", "tool").exit_code == 0
    written = tomllib.loads((tmp_path / "acme-moon" / "pyproject.toml").read_text(encoding="utf-8"))
    assert "treadle" not in written["tool"]
    assert written["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/acme_moon"]
    assert "test" in written["project"]["optional-dependencies"]
