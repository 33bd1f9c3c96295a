"""Every code block of the documentation does what its page says."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workspace import ROOT

from documents.pages import SHOWN, Block, Story, blocks_of, commands_of, environment_of, matches
from installs.wheelhouse import Environment

PAGES = {
    path.relative_to(ROOT).as_posix(): blocks_of(path.read_text(encoding="utf-8"))
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
}
# What these show is held to be true elsewhere.
ELSEWHERE = {
    "README.md": "tests/e2e/test_examples.py",
    "docs/errors.md": "tests/documents/test_errors_page.py",
    "docs/plugins/testing.md": "tests/documents/test_testing_page.py",
    "docs/settings.md": "kernel/tests/settings/test_guide.py",
}
RUN = {name: blocks for name, blocks in PAGES.items() if blocks and name not in ELSEWHERE}
# Pages for people who install things: they run where only wheels are installed.
STRANGERS = {name for name in RUN if name.startswith("docs/plugins/") or name in ("docs/index.md", "docs/tutorial.md")}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_page_that_is_tested_elsewhere_is_named_there(name: str) -> None:
    test = (ROOT / ELSEWHERE[name]).read_text(encoding="utf-8")
    assert Path(name).name in test or "errors_page" in test


def unruly(blocks: list[Block]) -> Iterator[str]:
    """Blocks that are neither run, shown, nor excused."""
    for block in blocks:
        if not block.is_run and block.language not in SHOWN and not block.not_run:
            yield f"line {block.line}: a block of {block.language} without title= or <!-- not run: REASON -->"


@pytest.mark.parametrize("name", RUN)
def test_every_block_is_run_or_says_why_not(name: str) -> None:
    assert list(unruly(RUN[name])) == []


@pytest.mark.parametrize("name", sorted(RUN.keys() - STRANGERS))
def test_the_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    """In a folder with the examples, beside the packages as they stand here."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copy(ROOT / "examples" / "first.yaml", tmp_path)
    (tmp_path / "workflow.yaml").write_text((ROOT / "examples" / "first.yaml").read_text(encoding="utf-8"))
    Story(tmp_path, environment_of(os.environ, Path(sys.executable).parent)).run(RUN[name])


@pytest.mark.parametrize("name", sorted(STRANGERS))
def test_a_stranger_who_follows_the_page_gets_there(name: str, tmp_path: Path, strangers: Environment) -> None:
    """In an empty folder, where wheels are installed and nothing else. What the page installs is removed again."""
    before = strangers.names()
    try:
        Story(tmp_path, dict(strangers.variables), seconds=300).run(RUN[name])
    finally:
        if added := sorted(strangers.names() - before):
            strangers.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", *added, cwd=tmp_path)


# --- the runner itself --------------------------------------------------------------------------------


PAGE = """\
```yaml title="a/b.yaml"
x: 1
```

<!-- not run: it costs money -->
```console
$ false
```

<!-- exit: 3 -->
```console
$ cat a/b.yaml; exit 3
x: 1
```

```python
print("one\\ntwo")
```

```text
one
...
```

```json
{}
```
"""


def test_blocks_are_read_with_their_marks() -> None:
    written, excused, command, program, shown, other = blocks_of(PAGE)
    assert (written.title, written.line, written.is_run) == ("a/b.yaml", 1, True)
    assert (excused.not_run, excused.is_run) == ("it costs money", False)
    assert (command.exit_code, command.is_run) == (3, True)
    assert (program.language, program.is_run, shown.is_run) == ("python", True, False)
    assert list(unruly([other])) == ["line 25: a block of json without title= or <!-- not run: REASON -->"]


def story(tmp_path: Path) -> Story:
    return Story(tmp_path, environment_of(os.environ, Path(sys.executable).parent))


def test_a_story_is_run(tmp_path: Path) -> None:
    story(tmp_path).run(blocks_of(PAGE))
    assert (tmp_path / "a" / "b.yaml").read_text() == "x: 1\n"


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```console\n$ false\n```\n", "line 1: false exited 1"),
        ("```console\n$ echo a\nb\n```\n", "echo a printed:\na\n\nand the page says:\nb"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "program.py printed:\n1\n"),
        ("```python\nraise SystemExit(2)\n```\n", "program.py exited 2"),
        ("```console\n$ cd nowhere\n```\n", "cd nowhere: there is no such folder"),
        ("```console\necho a\n```\n", "a console block begins with '$ '"),
    ],
)
def test_a_story_that_is_not_true_is_told(page: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        story(tmp_path).run(blocks_of(page))


def test_a_folder_and_a_variable_hold_for_the_rest_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    page = "```console\n$ cd inner\n$ export WORD=tides\n```\n\n```console\n$ echo $WORD > here\n```\n"
    story(tmp_path).run(blocks_of(page))
    assert (tmp_path / "inner" / "here").read_text() == "tides\n"


@pytest.mark.parametrize(
    ("pattern", "text", "answer"),
    [
        ("a\nb", "a\nb\n", True),
        ("a", "a\nb\n", False),
        ("...", "", True),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...\nd", "a\nd", True),
        ("a ... c", "a b c", True),
        ("a ... c", "a b\nc", False),
        ("a.c", "abc", False),
    ],
)
def test_three_dots_stand_for_anything(pattern: str, text: str, answer: bool) -> None:
    assert matches(pattern, text) is answer


def test_commands_are_told_from_what_they_print() -> None:
    assert list(commands_of("$ a\n1\n2\n$ b\n")) == [("a", "1\n2"), ("b", None)]
