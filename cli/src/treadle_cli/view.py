"""The screen of a run: lines of styled text, made from its progress, a time and a size. Draws nothing itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from rich.cells import cell_len, set_cell_size

from treadle_cli import amounts
from treadle_cli.output import one_line
from treadle_cli.problems import plural
from treadle_cli.progress import Phase, Progress, StepProgress

__all__ = ["ASCII", "UNICODE", "Glyphs", "Line", "Span", "run_lines", "step_lines"]

Span = tuple[str, str]
"""Text and its style."""

Line = list[Span]

FINAL_STEPS = 60
"""Most steps in the summary that stays on the screen."""

_DEEPEST_INDENT = 6

_STYLES = {
    Phase.WAITING: "dim",
    Phase.RUNNING: "cyan",
    Phase.RETRYING: "yellow",
    Phase.DONE: "green",
    Phase.FAILED: "red",
    Phase.SKIPPED: "dim",
    Phase.PAUSED: "yellow",
    Phase.CANCELLED: "yellow",
}

# Which steps are shown where there is no room for all.
_IMPORTANCE = {
    Phase.RUNNING: 0,
    Phase.RETRYING: 0,
    Phase.FAILED: 1,
    Phase.PAUSED: 1,
    Phase.CANCELLED: 2,
    Phase.DONE: 3,
    Phase.WAITING: 4,
    Phase.SKIPPED: 5,
}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Marks for each phase, and what stands for text that was cut. ``spinner`` is one of each moment."""

    spinner: str
    phases: Mapping[Phase, str]
    cut: str


UNICODE = Glyphs(
    spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
    phases={
        Phase.WAITING: "·",
        Phase.RETRYING: "↻",
        Phase.DONE: "✓",
        Phase.FAILED: "✗",
        Phase.SKIPPED: "–",  # noqa: RUF001 - a dash is meant
        Phase.PAUSED: "‖",
        Phase.CANCELLED: "■",
    },
    cut="…",
)

ASCII = Glyphs(
    spinner="|/-\\",
    phases={
        Phase.WAITING: ".",
        Phase.RETRYING: "@",
        Phase.DONE: "+",
        Phase.FAILED: "x",
        Phase.SKIPPED: "-",
        Phase.PAUSED: "=",
        Phase.CANCELLED: "#",
    },
    cut="~",
)


def run_lines(progress: Progress, now: float, width: int, height: int, glyphs: Glyphs = UNICODE) -> list[Line]:
    """The screen while a run is under way: the steps, as far as there is room, and a line for the whole."""
    lines = step_lines(progress, now, width, max(1, height - 2), glyphs)
    done, total = progress.settled_count, progress.total
    text = f"{done}/{plural(total, 'step')}  {amounts.duration(now - progress.started)}"
    lines.append([(_spinning(now, glyphs), "cyan"), (_cut(f" {text}", width - 1, glyphs), "bold")])
    return lines


def step_lines(
    progress: Progress, now: float, width: int, limit: int = FINAL_STEPS, glyphs: Glyphs = UNICODE
) -> list[Line]:
    """At most ``limit`` lines of steps, none wider than ``width`` cells."""
    steps = list(progress.rows())
    chosen = steps
    hidden: Counter[str] = Counter()
    if len(steps) > limit:
        # Notes and widths are only worked out for what is shown: a run may have thousands of steps.
        most = nsmallest(max(0, limit - 1), steps, key=_worth)
        kept = {step.id for step in most}
        chosen = [step for step in steps if step.id in kept]
        hidden.update(step.phase.value for step in steps if step.id not in kept)
    notes = {step.id: one_line(step.note(now)) for step in chosen}
    own_line = {step.id for step in chosen if width < 64 and notes[step.id] and step.phase is not Phase.RUNNING}
    if len(chosen) + len(own_line) + bool(hidden) > limit:
        own_line.clear()
    layout = _Layout.of(chosen, now, width)
    lines: list[Line] = []
    for step in chosen:
        lines.append(_step_line(step, "" if step.id in own_line else notes[step.id], now, layout, glyphs))
        if step.id in own_line:
            lines.append([(f"    {_cut(notes[step.id], width - 4, glyphs)}", _STYLES[step.phase])])
    if hidden:
        counts = ", ".join(f"{count} {phase}" for phase, count in hidden.items())
        lines.append([(_cut(f"  {glyphs.cut} and {counts}", width, glyphs), "dim")])
    return lines


def _worth(step: StepProgress) -> tuple[int, int, int]:
    """Which steps are shown first: of what is done in child runs none before the run's own steps."""
    below = step.depth > 0 and step.phase not in (Phase.RUNNING, Phase.RETRYING, Phase.FAILED, Phase.PAUSED)
    return (max(_IMPORTANCE.values()) + 1 if below else _IMPORTANCE[step.phase], step.depth, -step.settled)


def _name(step: StepProgress) -> str:
    return "  " * min(step.depth, _DEEPEST_INDENT) + one_line(step.label)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Widths of the columns in cells; 0 for one that is not shown."""

    id: int
    type: int
    time: int
    tokens: int
    cost: int
    note: int

    @classmethod
    def of(cls, steps: Sequence[StepProgress], now: float, width: int) -> _Layout:
        """Columns appear from the left to the right in the order of their worth, as far as there is room."""

        def widest(cells: list[str], most: int) -> int:
            return min(most, max(map(cell_len, cells), default=0))

        wanted = {
            "time": widest([_time(step, now) for step in steps], 12),
            "tokens": widest([_tokens(step) for step in steps], 18),
            "cost": widest([_cost(step) for step in steps], 12),
            "type": widest([step.type for step in steps], 14),
        }
        name = widest([_name(step) for step in steps], max(8, width // 3))
        left = width - 2 - name
        for column, cells in wanted.items():
            roomy = {"time": 0, "tokens": 0, "cost": 0, "type": 16}[column]
            if cells and left - cells - 2 >= roomy:
                left -= cells + 2
            else:
                wanted[column] = 0
        return cls(id=name, note=max(0, left - 2), **wanted)


def _step_line(step: StepProgress, note: str, now: float, layout: _Layout, glyphs: Glyphs) -> Line:
    style = _STYLES[step.phase]
    mark = _spinning(now, glyphs) if step.phase is Phase.RUNNING else glyphs.phases[step.phase]
    quiet = "dim" if step.phase in (Phase.WAITING, Phase.SKIPPED) else ""
    line: Line = [(f"{mark} ", style), (_fit(_name(step), layout.id, glyphs), quiet)]
    if layout.type:
        line.append((f"  {_fit(one_line(step.type), layout.type, glyphs)}", "dim"))
    for text, cells in ((_time(step, now), layout.time), (_tokens(step), layout.tokens), (_cost(step), layout.cost)):
        if cells:
            line.append((f"  {_fit(text, cells, glyphs, right=True)}", quiet))
    if note and layout.note >= 8:
        line.append((f"  {_cut(note, layout.note, glyphs)}", style if step.phase is not Phase.RUNNING else "dim"))
    return line


def _time(step: StepProgress, now: float) -> str:
    if step.phase in (Phase.WAITING, Phase.SKIPPED):
        return ""
    seconds = step.elapsed(now)
    # A clock that counts tenths from the start is steadier to look at than one that begins with milliseconds.
    return f"{seconds:.1f} s" if step.phase is Phase.RUNNING and seconds < 0.1 else amounts.duration(seconds)


def _tokens(step: StepProgress) -> str:
    return "" if step.tokens == 0 else "? tokens" if step.tokens is None else amounts.tokens(step.tokens)


def _cost(step: StepProgress) -> str:
    settled = step.phase in (Phase.DONE, Phase.FAILED, Phase.CANCELLED, Phase.PAUSED)
    if not settled or (step.cost_usd == 0 and step.tokens == 0):
        return ""
    return "$?" if step.cost_usd is None else amounts.cost(step.cost_usd)


def _spinning(now: float, glyphs: Glyphs) -> str:
    return glyphs.spinner[int(now * 10) % len(glyphs.spinner)]


def _cut(text: str, cells: int, glyphs: Glyphs) -> str:
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1) + glyphs.cut if cells > 0 else ""


def _fit(text: str, cells: int, glyphs: Glyphs, *, right: bool = False) -> str:
    text = _cut(text, cells, glyphs)
    padding = " " * (cells - cell_len(text))
    return padding + text if right else text + padding
