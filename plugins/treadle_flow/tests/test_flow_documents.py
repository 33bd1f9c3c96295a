"""What is wrong with workflows inside workflows is told where it stands, when the outermost one is checked."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from flow_world import PLUGINS

import treadle
from treadle import DocumentError, Host


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(text: str, **files: str) -> list[str]:
    """What is said of a workflow ``main.yaml`` with files beside it."""
    for name, content in {"main": text, **files}.items():
        Path(f"{name}.yaml").write_text(dedent(content).lstrip(), encoding="utf-8")
    try:
        found = treadle.load_workflow("main.yaml", host=Host.of(PLUGINS)).warnings
    except DocumentError as error:
        found = tuple(error.problems)
    return [str(each) for each in found]


HEAD = "name: main\nsteps:\n"


def test_a_mistake_in_a_file_is_told_in_that_file(folder):
    found = problems(
        HEAD + "  - {id: s, type: subworkflow, workflow_path: part.yaml}\n",
        part="""
            name: part
            steps:
              - id: a
                type: say
                txt: hello
        """,
    )
    assert found == [
        "part.yaml:3:5: steps.a: the field 'text' is missing",
        "part.yaml:5:5: steps.a.txt: unknown field; did you mean 'text'?",
    ]


def test_a_mistake_in_a_body_is_told_where_it_stands_in_the_parent(folder):
    found = problems(
        HEAD
        + """\
  - id: each
    type: foreach
    items: state.l
    steps:
      - {id: a, type: say, text: "{state.", depends_on: [b]}
  - id: again
    type: loop
    until: steps.b.output == state.cnt
    step: {type: sya, text: x}
  - id: sub
    type: subworkflow
    workflow_inline:
      name: x
      stps: []
"""
    )
    assert [each.partition("; ")[0] for each in found if "warning" not in each] == [
        (
            "main.yaml:7:35: steps.each.steps.a.text: '{state.' at column 1 of the template: the reference goes wrong "
            "after '{state'"
        ),
        "main.yaml:7:58: steps.each.steps.a.depends_on.0: no step 'b'",
        "main.yaml:11:18: steps.again.step.type: no step type 'sya'",
        "main.yaml:15:7: steps.sub.workflow_inline: the field 'steps' is missing",
        "main.yaml:16:7: steps.sub.workflow_inline.stps: unknown field",
    ]


def test_expressions_over_the_bodys_state_are_checked_against_it(folder):
    found = problems(
        HEAD
        + """\
  - id: again
    type: loop
    until: steps.b.output == state.cuont
    steps:
      - {id: a, type: count, output: count}
"""
    )
    assert found == [
        "main.yaml:5:12: steps.again.until: no step 'b' in the body",
        "main.yaml:5:12: warning: steps.again.until: nothing provides 'state.cuont' in the body; did you mean 'count'?",
    ]


def test_an_item_is_known_inside_and_a_problem_outside(folder):
    found = problems(
        """
        name: main
        state: {docs: [{name: a}]}
        steps:
          - id: each
            type: foreach
            items: state.docs
            as: doc
            step: {type: say, text: "{doc.name} {state.doc.name} {index}"}
          - {id: after, type: say, text: "{doc.name} {state.index}"}
        """
    )
    assert found == [
        "main.yaml:9:36: warning: steps.after.text: 'doc.name' is known only inside step 'each', and not here",
        "main.yaml:9:47: warning: steps.after.text: 'state.index' is known only inside step 'each', and not here",
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("type: subworkflow",
         "a subworkflow is given by one of workflow_path and workflow_inline, and neither is there"),
        (
            "type: subworkflow, workflow_path: a.yaml, workflow_inline: {}",
            "a subworkflow is given by one of workflow_path and workflow_inline, and both are",
        ),
        (
            "type: foreach, items: state.l, step: {}, steps: [{}]",
            "the body is given by one of step, steps, workflow_inline and workflow_path, and step and steps are there",
        ),
        ("type: loop, until: 'True'",
         "the body is given by one of step, steps, workflow_inline and workflow_path, and none is there"),
        ("type: foreach, items: [1], as: index, step: {type: count}",
         "as, index and key must be three names, not index, index, key"),
    ],
)  # fmt: skip
def test_what_must_be_said_once(folder, fields, told):
    assert f"main.yaml:3:5: steps.s: {told}" in problems(HEAD + f"  - {{id: s, {fields}}}\n")


@pytest.mark.parametrize(
    ("given", "more", "told"),
    [
        ("{langg: German}", "", "input.langg: no step reads state key 'langg'; did you mean 'lang'?"),
        ("{lang: German}", "", None),
        ("{zzz: 1}", "", None),  # it is in what is returned
        ("{zzz: 1}", ", return_keys: [out]", "input.zzz: no step reads state key 'zzz'"),
        ("{zzz: 1}", ", return_keys: [zzz]", None),
        ("{topic: 1}", "", None),  # the child's own state has it
    ],
)
def test_input_that_the_workflow_does_not_read_is_warned_of(folder, given, more, told):
    inner = "{name: i, state: {topic: x}, steps: [{id: a, type: say, text: '{state.lang}', output: out}]}"
    found = problems(HEAD + f"  - {{id: s, type: subworkflow, workflow_inline: {inner}, input: {given}{more}}}\n")
    warned = [each.partition("warning: steps.s.")[2] for each in found if ".input" in each]
    assert warned == ([] if told is None else [told])


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ("'{state.l}'", "a template makes text; write a path, such as state.documents, or an expression"),
        ("5", "must be a list, a mapping, or text such as state.documents"),
        ("docs", "column 1: unknown name docs in expression 'docs'; write state.docs"),
    ],
)
def test_items_that_cannot_be_gone_over_are_told_when_the_file_loads(folder, items, told):
    found = problems(HEAD + f"  - {{id: s, type: foreach, step: {{type: count}}, items: {items}}}\n")
    assert found == [f"main.yaml:3:56: steps.s.items: {told}"]


@pytest.mark.parametrize("name", ["state", "a b", "1"])
def test_a_name_must_be_one(folder, name):
    found = problems(HEAD + f"  - {{id: s, type: foreach, items: [1], step: {{type: count}}, as: {name!r}}}\n")
    assert found == [
        (
            f"main.yaml:3:65: steps.s.as: '{name}' cannot be a name here; use letters, digits and _, and neither "
            "'state' nor 'steps'"
        )
    ]


def test_files_that_run_each_other_in_a_circle_are_told_with_the_way_round(folder):
    step = "{id: s, type: subworkflow, workflow_path: %s.yaml}"
    found = problems(HEAD + f"  - {step % 'b'}\n", b=HEAD + f"  - {step % 'c'}\n", c=HEAD + f"  - {step % './b'}\n")
    assert found == [
        "c.yaml:3:47: steps.s.workflow_path: workflows run each other in a circle: b.yaml -> c.yaml -> b.yaml"
    ]
    found = problems(HEAD + f"  - {step % 'main'}\n")
    assert found == [
        "main.yaml:3:47: steps.s.workflow_path: workflows run each other in a circle: main.yaml -> main.yaml"
    ]


def test_a_file_that_is_not_there_is_told_with_a_close_one(folder):
    found = problems(HEAD + "  - {id: s, type: subworkflow, workflow_path: prt.yaml}\n", part="name: x\n")
    assert found == [
        "main.yaml:3:47: steps.s.workflow_path: no such file: looked for 'prt.yaml'; did you mean 'part.yaml'?"
    ]
    (folder / "sub").mkdir()
    (folder / "sub" / "main.yaml").write_text((folder / "main.yaml").read_text())
    with pytest.raises(DocumentError) as caught:
        treadle.load_workflow("sub/main.yaml", host=Host.of(PLUGINS))
    assert "no such file: looked for 'prt.yaml' and 'sub/prt.yaml'; did you mean 'part.yaml'?" in str(caught.value)
    assert problems(HEAD + "  - {id: s, type: subworkflow, workflow_path: sub}\n") == [
        "main.yaml:3:47: steps.s.workflow_path: is a directory, not a file: 'sub'"
    ]


@pytest.mark.parametrize("content", ["", "- a\n", "name: [\n", "name: x\nname: y\nsteps: []\n"])
def test_a_file_that_is_no_workflow_is_told(folder, content):
    found = problems(HEAD + "  - {id: s, type: subworkflow, workflow_path: part.yaml}\n", part=content)
    assert found
    assert all(each.startswith("part.yaml:") for each in found)


def test_a_file_is_told_of_once_however_often_it_is_named(folder):
    step = "  - {{id: s{0}, type: subworkflow, workflow_path: part.yaml, input: {{k{0}: 1}}}}\n"
    steps = "".join(map(step.format, range(40)))
    found = problems(HEAD + steps, part=HEAD + "  - {id: a, type: say, text: '{state.x}', wrong: 1}\n")
    assert found == [
        "part.yaml:3:32: warning: steps.a.text: nothing provides 'state.x'; declare 'x' under state:, or pass -s x=...",
        (
            "part.yaml:3:43: steps.a.wrong: unknown field; there are asks_on, budget_usd, depends_on, fails_on, id, "
            "kills_on, log, output, retry, text, timeout, wait, when"
        ),
    ]
    assert len(found) == 2


def test_two_files_named_by_each_of_thirty_levels_take_no_time_in_the_power_of_levels(folder):
    for level in range(30):
        steps = "".join(
            f"  - {{id: s{n}, type: subworkflow, workflow_path: l{level + 1}.yaml, input: {{k{n}: 1}}}}\n" for n in "ab"
        )
        Path(f"l{level}.yaml").write_text(HEAD + steps)
    Path("l30.yaml").write_text(HEAD + "  - {id: a, type: count}\n")
    assert treadle.load_workflow("l0.yaml", host=Host.of(PLUGINS)).warnings == ()


def test_what_the_workflow_inside_reads_makes_it_come_after_who_writes_that(folder):
    main = """
        name: main
        steps:
          - {id: first, type: say, text: x}
          - {id: writes, type: say, text: hello, output: word}
          - {id: s, type: subworkflow, workflow_path: part.yaml, depends_on: [first]}
    """
    found = problems(main, part=HEAD + "  - {id: a, type: say, text: '{state.word}'}\n")
    assert found == [
        (
            "main.yaml:5:47: warning: steps.s.workflow_path: 'state.word' comes from step 'writes', which this step "
            "does not wait for; it is run afterwards all the same; add depends_on: [writes]"
        )
    ]
    isolated = main.replace("depends_on: [first]", "depends_on: [first], isolated_state: true")
    found = problems(isolated, part=HEAD + "  - {id: a, type: say, text: '{state.word}'}\n")
    assert [each.partition(";")[0] for each in found] == [
        "part.yaml:3:32: warning: steps.a.text: nothing provides 'state.word'"
    ]


def test_a_key_that_is_given_back_and_that_nothing_provides_is_told(folder):
    found = problems(
        HEAD + "  - {id: s, type: subworkflow, workflow_path: part.yaml, return_keys: [wrod]}\n",
        part=HEAD + "  - {id: a, type: say, text: x, output: word}\n",
    )
    assert found == [
        "main.yaml:3:72: warning: steps.s.return_keys.0: nothing in the workflow provides 'wrod'; did you mean 'word'?"
    ]


def test_a_key_that_only_a_workflow_inside_reads_is_read(folder):
    Path("part.yaml").write_text(HEAD + "  - {id: a, type: say, text: '{state.word}'}\n")
    Path("main.yaml").write_text(HEAD + "  - {id: s, type: subworkflow, workflow_path: part.yaml}\n")
    workflow = treadle.load_workflow("main.yaml", host=Host.of(PLUGINS), state_keys=["word"])
    assert workflow.warnings == ()
    assert list(workflow.doubts_about(["word"])) == []
