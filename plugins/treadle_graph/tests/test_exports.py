"""Mermaid and DOT: whole examples, and texts that are written to break out of them."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treadle
from treadle_graph import WorkflowGraph, dot, mermaid
from treadle_graph.text import short_label

ROOT = Path(__file__).parents[3]
Sketch = Callable[..., WorkflowGraph]

DEMO_MERMAID = """\
flowchart TD
    s_classify["classify<br/>llm_call"]
    s_route{"route<br/>router"}
    s_billing_policy["billing_policy<br/>tool"]
    s_technical_policy["technical_policy<br/>tool"]
    s_reply["reply<br/>llm_call"]
    s_classify --> s_route
    s_route -->|"state.ticket.topic == #quot;billing#quot;"| s_billing_policy
    s_route -->|"default"| s_technical_policy
    s_billing_policy --> s_reply
    s_technical_policy --> s_reply
"""

DEMO_DOT = """\
digraph "triage" {
    node [shape=box, style=rounded, fontname="Helvetica,Arial,sans-serif"];
    edge [fontname="Helvetica,Arial,sans-serif", fontsize=10];
    "classify" [label="classify\\nllm_call"];
    "route" [label="route\\nrouter", shape=diamond, style=""];
    "billing_policy" [label="billing_policy\\ntool"];
    "technical_policy" [label="technical_policy\\ntool"];
    "reply" [label="reply\\nllm_call"];
    "classify" -> "route";
    "route" -> "billing_policy" [label="state.ticket.topic == \\"billing\\""];
    "route" -> "technical_policy" [label="default"];
    "billing_policy" -> "reply";
    "technical_policy" -> "reply";
}
"""

# What may stand on a line of ours: nothing in quotes can end them, open a directive or be code.
MERMAID_TEXT = r'"(?:[^"`<>&;%{}:\\*#~$]|#quot;|#\d+;|<br/>)+"'
MERMAID_NAME = r"(?:s_[A-Za-z0-9_]+|n\d+)"
MERMAID_LINE = re.compile(
    rf"    (?:{MERMAID_NAME}(?:\[{MERMAID_TEXT}\]|\{{{MERMAID_TEXT}\}})"
    rf"|{MERMAID_NAME} -->(?:\|{MERMAID_TEXT}\|)? {MERMAID_NAME})"
)
# Quoted: no quote, unless a backslash stands before it; backslashes come in pairs (or \n).
DOT_TEXT = r'"(?:[^"\\]|\\\\|\\"|\\n)*"'
DOT_LINE = re.compile(
    rf"    (?:{DOT_TEXT} \[label={DOT_TEXT}(?:, shape=diamond, style=\"\")?\]"
    rf"|{DOT_TEXT} -> {DOT_TEXT}(?: \[label={DOT_TEXT}\])?);"
)


@pytest.fixture(scope="module")
def demo() -> WorkflowGraph:
    return WorkflowGraph.of(treadle.load_workflow(ROOT / "examples" / "demo.yaml", host=treadle.Host.discover()))


def test_the_demo_in_mermaid(demo: WorkflowGraph) -> None:
    assert demo.to_mermaid() == DEMO_MERMAID


def test_the_guide_shows_the_demo_as_it_is(demo: WorkflowGraph) -> None:
    guide = (ROOT / "docs" / "graph.md").read_text(encoding="utf-8")
    assert re.findall(r"```mermaid\n(.*?)```", guide, flags=re.DOTALL) == [demo.to_mermaid()]
    assert f"```text\n{demo.to_text()}```" in guide


def test_the_demo_in_dot(demo: WorkflowGraph) -> None:
    assert demo.to_dot() == DEMO_DOT


def test_no_text_breaks_out_of_mermaid(attack: WorkflowGraph) -> None:
    head, *lines = attack.to_mermaid().splitlines()
    assert head == "flowchart TD"
    assert [line for line in lines if not MERMAID_LINE.fullmatch(line)] == []
    assert len(lines) == len(attack.nodes) + len(attack.edges)


def test_no_text_breaks_out_of_dot(attack: WorkflowGraph) -> None:
    head, _, _, *lines, tail = attack.to_dot().splitlines()
    assert (head, tail) == ('digraph "x\\" ] } \\\\" {', "}")
    assert [line for line in lines if not DOT_LINE.fullmatch(line)] == []
    assert len(lines) == len(attack.nodes) + len(attack.edges)


def test_ids_that_mean_something_to_mermaid_are_names_like_others(sketch: Sketch) -> None:
    graph = sketch({"end": [], "subgraph": ["end"], "o.x": ["end"], "x-1": ["o.x"], "übung": ["end"], "n2": ["end"]})
    assert graph.to_mermaid().splitlines()[1:] == [
        '    s_end["end<br/>task"]',
        '    s_subgraph["subgraph<br/>task"]',
        '    n2["o.x<br/>task"]',
        '    n3["x-1<br/>task"]',
        '    n4["übung<br/>task"]',
        '    s_n2["n2<br/>task"]',
        "    s_end --> s_subgraph",
        "    s_end --> n2",
        "    s_end --> n4",
        "    s_end --> s_n2",
        "    n2 --> n3",
    ]


@given(st.text(max_size=60))
def test_a_condition_in_mermaid_reads_as_it_was_written(label: str) -> None:
    """Undoing the entity codes as Mermaid does, by HTML's rules, gives the text back."""
    (edge,) = [line for line in _one_choice(label, mermaid.draw) if "-->" in line]
    assert MERMAID_LINE.fullmatch(edge)
    found = re.search(r'\|"(.*)"\|', edge)
    text = html.unescape(re.sub(r"#(\d+);", r"&#\1;", found[1]).replace("#quot;", '"')) if found else ""
    assert text == short_label(label)


@given(st.text(max_size=60))
def test_a_condition_in_dot_reads_as_it_was_written(label: str) -> None:
    """Undoing the quotes, the label's escapes and the entities, in Graphviz' order, gives the text back."""
    (edge,) = [line for line in _one_choice(label, dot.draw) if "->" in line]
    assert DOT_LINE.fullmatch(edge)
    found = re.search(r'label="(.*)"\]', edge)
    text = found[1].replace('\\"', '"').replace("\\\\", "\\").replace("&amp;", "&") if found else ""
    assert text == short_label(label)


def _one_choice(label: str, draw: Callable[[WorkflowGraph], str]) -> list[str]:
    from types import SimpleNamespace
    from typing import Any

    steps = [
        SimpleNamespace(id="r", type="router", depends_on=(), when=None, targets=lambda: {"t": label}),
        SimpleNamespace(id="t", type="task", depends_on=("r",), when=None, targets=dict),
    ]
    workflow: Any = SimpleNamespace(name="x", steps=steps, order=(), children={})
    return [line for line in draw(WorkflowGraph.of(workflow)).splitlines() if '"r"' in line or "s_r" in line]


INSIDE = """
name: outer
steps:
  - id: a
    type: llm_call
    when: 1 < 2
    prompt: x
  - id: sub
    type: subworkflow
    depends_on: [a]
    workflow_inline:
      name: inner
      steps: [{id: each, type: foreach, items: [1], step: {type: llm_call, prompt: x}}]
"""


def _inside() -> WorkflowGraph:
    import treadle

    return WorkflowGraph.of(treadle.parse_workflow(INSIDE, host=treadle.Host.discover(), config={"provider": "mock"}))


def test_what_a_step_runs_is_drawn_as_a_part_of_its_own() -> None:
    graph = _inside()
    assert graph.to_mermaid() == (
        "flowchart TD\n"
        '    s_a["a<br/>llm_call<br/>when 1 #60; 2"]\n'
        '    s_sub["sub<br/>subworkflow"]\n'
        "    s_a --> s_sub\n"
        '    subgraph inner0["sub"]\n'
        '        i0_s_each["each<br/>foreach"]\n'
        "    end\n"
        '    subgraph inner1["sub.each"]\n'
        '        i1_s_step["step<br/>llm_call"]\n'
        "    end\n"
    )
    assert '    subgraph cluster_1 {\n        label="sub.each";\n        "sub.each.step"' in graph.to_dot()
    text = graph.to_text(ascii_only=True)
    assert "o  a    llm_call     when 1 < 2" in text
    assert text.endswith("\nsub:\no  each  foreach\n\nsub.each:\no  step  llm_call\n")


def test_the_dict_of_a_graph_has_what_is_inside() -> None:
    first, second = _inside().to_dict()["nodes"]
    assert first["when"] == "1 < 2"
    assert second["inner"]["nodes"][0]["inner"]["nodes"][0]["id"] == "step"
