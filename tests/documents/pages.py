"""The code blocks of a page, and running them in order as a reader would.

A page is a story in one folder. Its fenced blocks mean:

====================================  =====================================================================
a block with ``title="PATH"``         the file PATH is written with that text
``console``                           each line ``$ COMMAND`` is run; the lines below it are what it prints
``python``                            a program, run; a ``text`` block that comes next is what it prints
``text``, ``mermaid``, ``svg``        shown, not run
====================================  =====================================================================

A comment right above a block changes that: ``<!-- not run: REASON -->``, ``<!-- exit: 2 -->`` for a command or program
that fails on purpose, ``<!-- in a step: {type: llm_call} -->`` for fields of a step, which ``treadle validate`` then
checks among these others. In what is printed, ``...`` stands for any text of a line, and alone on a line for any
lines. A command without lines below it may print anything. ``cd DIR`` and ``export NAME=VALUE`` hold for the rest of
the page.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Block", "Story", "blocks_of", "matches"]

SHOWN = {"text", "mermaid", "svg", ""}
_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n+)?"
    r"^(?P<fence>`{3,})(?P<language>\w*)(?P<options>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_TITLE = re.compile(r'title="([^"]+)"')
_MARK = re.compile(r"not run: (?P<reason>.+)|exit: (?P<exit>\d+)|in a step: \{(?P<fields>.+)\}")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block, and the line that it begins on."""

    line: int
    language: str
    text: str
    title: str | None = None
    not_run: str | None = None
    exit_code: int = 0
    step: str | None = None

    @property
    def is_run(self) -> bool:
        """Whether running the page does something with it."""
        return self.not_run is None and (
            self.title is not None or self.step is not None or self.language in ("console", "python")
        )


def blocks_of(page: str) -> list[Block]:
    """Every fenced block of the page."""
    found = []
    for match in _FENCE.finditer(page):
        title = _TITLE.search(match["options"])
        mark = _MARK.fullmatch(match["mark"] or "")
        found.append(
            Block(
                line=page.count("\n", 0, match.start("fence")) + 1,
                language=match["language"],
                text=match["text"],
                title=title[1] if title else None,
                not_run=mark["reason"] if mark else None,
                exit_code=int(mark["exit"]) if mark and mark["exit"] else 0,
                step=mark["fields"] if mark else None,
            )
        )
    return found


@dataclass
class Story:
    """A page being run: where it stands, and with which variables."""

    folder: Path
    environment: dict[str, str]
    seconds: float = 120
    here: Path = field(init=False)

    def __post_init__(self) -> None:
        self.here = self.folder

    def run(self, blocks: list[Block]) -> None:
        """Run the blocks in order.

        :raises AssertionError: one of them does or prints something else than the page says.
        """
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            if block.not_run is not None:
                continue
            if block.title is not None:
                self._write(block.title, block.text)
            elif block.step is not None:
                self._write("fragment.yaml", _workflow_of(block.step, block.text))
                self._compare(["treadle", "validate", "fragment.yaml"], None, block)
            elif block.language == "console":
                for command, printed in commands_of(block.text):
                    self._command(command, printed, block)
            elif block.language == "python":
                # Step classes need a module to find their hints in, as in a file of one's own.
                self._write("program.py", block.text)
                printed = following.text if following is not None and following.language == "text" else None
                self._compare(["python", "-W", "error", "program.py"], printed, block)

    def _write(self, name: str, text: str) -> None:
        path = self.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _command(self, command: str, printed: str | None, block: Block) -> None:
        words = shlex.split(command)
        if words[0] == "cd":
            self.here = (self.here / words[1]).resolve()
            assert self.here.is_dir(), f"line {block.line}: {command}: there is no such folder"
        elif words[0] == "export":
            name, _, value = words[1].partition("=")
            self.environment[name] = value
        else:
            self._compare(["sh", "-c", command], printed, block)

    def _compare(self, arguments: list[str], printed: str | None, block: Block) -> None:
        done = subprocess.run(
            arguments,
            cwd=self.here,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            timeout=self.seconds,
        )
        what = f"line {block.line}: {arguments[-1]}"
        assert done.returncode == block.exit_code, f"{what} exited {done.returncode}:\n{done.stdout}"
        if printed is not None:
            assert matches(printed, done.stdout), f"{what} printed:\n{done.stdout}\nand the page says:\n{printed}"


def _workflow_of(fields: str, text: str) -> str:
    """A workflow with a step of these fields, and a step for each target that they name."""
    others = "".join(f"    {field.strip()}\n" for field in fields.split(","))
    workflow = f"name: page\nsteps:\n  - id: step\n{others}{textwrap.indent(text, '    ')}"
    for target in re.findall(r"target: (\w+)", text):
        workflow += f"  - {{id: {target}, type: llm_call, prompt: Hello, depends_on: [step]}}\n"
    return workflow


def commands_of(text: str) -> Iterator[tuple[str, str | None]]:
    """Each command of a console block with what it prints, None where the page does not say."""
    command: str | None = None
    printed: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, "\n".join(printed) if printed else None
            command, printed = line[2:], []
        elif line.startswith("> ") and command is not None and not printed:
            command += "\n" + line[2:]
        else:
            assert command is not None, f"a console block begins with '$ ', not with {line!r}"
            printed.append(line)
    if command is not None:
        yield command, "\n".join(printed) if printed else None


def matches(pattern: str, text: str) -> bool:
    """Whether the text is the pattern, in which ``...`` stands for anything. Space at ends of lines does not count."""
    lines = [line.rstrip() for line in pattern.strip("\n").splitlines()]
    regex = "".join(
        r"(?:[^\n]*\n)*" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", r"[^\n]*") + r"\n"
        for line in lines
    )
    given = "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())
    return re.fullmatch(regex, given) is not None


def environment_of(base: Mapping[str, str], binaries: Path) -> dict[str, str]:
    """The variables of a page: none of Treadle's or of a vendor's, the programs of one environment first."""
    kept = {
        name: value
        for name, value in base.items()
        if not re.search("TREADLE|OPENAI|ANTHROPIC|GOOGLE|OLLAMA|PYTEST|VIRTUAL_ENV|PYTHONPATH|COLUMNS", name)
    }
    return {**kept, "PATH": f"{binaries}:{kept.get('PATH', '')}", "NO_COLOR": "1", "COLUMNS": "100"}
