"""Graphs from a few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from treadle_graph import WorkflowGraph


def sketch(
    steps: Mapping[str, Sequence[str]],
    targets: Mapping[str, Mapping[str, str]] | None = None,
    *,
    name: str = "sketch",
    types: Mapping[str, str] | None = None,
    order: Sequence[tuple[str, str]] = (),
) -> WorkflowGraph:
    """The graph of a workflow with these steps (id: what it waits for) and targets (id: target: label), and these
    order-only edges (earlier, later)."""
    made = [
        _step(step_id, waits_for, (targets or {}).get(step_id), types or {}) for step_id, waits_for in steps.items()
    ]
    workflow: Any = SimpleNamespace(name=name, steps=tuple(made), order=tuple(order), children={})
    return WorkflowGraph.of(workflow)


def _step(step_id: str, waits_for: Sequence[str], targets: Mapping[str, str] | None, types: Mapping[str, str]) -> Any:
    kind = types.get(step_id, "router" if targets else "task")
    return SimpleNamespace(id=step_id, type=kind, depends_on=tuple(waits_for), when=None, targets=lambda: targets or {})


@pytest.fixture(scope="session", name="sketch")
def sketch_fixture() -> Callable[..., WorkflowGraph]:
    return sketch


@pytest.fixture(scope="session")
def attack(sketch: Callable[..., WorkflowGraph]) -> WorkflowGraph:
    """A router whose conditions are written to break out of every format."""
    steps: dict[str, list[str]] = {"end": [], "graph.sub-1": ["end"], "über": ["end"]}
    targets = {f"t{index}": text for index, text in enumerate(ATTACKS)}
    steps |= {"choose": ["end"]} | {target: ["choose"] for target in targets}
    return sketch(steps, {"choose": targets}, name='x" ] } \\', types={"end": 'end"]', "über": "</text>&"})


ATTACKS = [
    'x == "a"',
    '"] --> x["',
    "a|b",
    "a\nb\r\n  c",
    '%%{init: {"x":1}}%%',
    "%% comment",
    "style:#a;",
    "classDef a:b#c;",
    "end",
    "<script>x</script>",
    "`**b** __c__`",
    "1. one",
    "- two",
    "# three",
    "&lt;&amp;#quot;",
    "\\N \\G \\",
    "]]>",
    "<!-- -->",
    "}} )) ]]",
    "$$x$$ ~~y~~",
    "\x1b[31mred\x07",
    "\u202egnp.exe",
    "a\x00b\ud800\ufffe",
    "é 漢字 👩\u200d💻",
    "",
]


@pytest.fixture(scope="session")
def attacks() -> list[str]:
    return ATTACKS
