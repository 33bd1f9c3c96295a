"""What a person reads when a workflow is wrong: each mistake once, at its place, with a way out."""

from collections.abc import Callable

import pytest

from treadle._plugins import Host

Problems = Callable[..., list[str]]

HEAD = "name: demo\nsteps:\n"
PATH_HINT = "write it like items[0].name"
ID_HINT = "use letters, digits, _, . and -, beginning with a letter, a digit or _"
BRACE_HINT = 'in YAML a value that begins with { needs quotes: "{state.x}"'


def test_a_right_document_has_no_problems(problems: Problems) -> None:
    assert problems(HEAD + "  - {id: a, type: say, prompt: 'hi {state.x}', output: a.b}\nstate: {x: 1}\n") == []


FIELDS = "there are config, description, name, requires, state, state_schema, steps, version"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n- b\n", ["1:1: a workflow is a mapping with name and steps, not a list"]),
        ("just text", ["1:1: a workflow is a mapping with name and steps, not 'just text'"]),
        ("steps: []", ["1:1: the field 'name' is missing", "1:8: steps: must not be empty"]),
        ("name: x", ["1:1: the field 'steps' is missing"]),
        ("nmae: x\nname: x\nsteps: [{id: a, type: idle}]", ["1:1: nmae: unknown field; did you mean 'name'?"]),
        (
            "name: x\nsteps: [{id: a, type: idle}]\nzzz: 1",
            [
                "3:1: zzz: unknown field; " + FIELDS,
            ],
        ),
        ("name: 12\nsteps: [{id: a, type: idle}]", ["1:7: name: must be text, not 12; put it in quotes"]),
        ("name: ''\nsteps: [{id: a, type: idle}]", ["1:7: name: must not be empty"]),
        (
            "name: x\nstate:\nsteps: [{id: a, type: idle}]",
            ["2:7: state: must be a mapping, not empty; write {} or leave it out"],
        ),
        ("name: x\nstate: [1]\nsteps: [{id: a, type: idle}]", ["2:8: state: must be a mapping, not a list"]),
        ("name: x\nconfig: 5\nsteps: [{id: a, type: idle}]", ["2:9: config: must be a mapping, not 5"]),
        ("name: x\nsteps: {a: 1}", ["2:8: steps: must be a list, not a mapping"]),
        (
            "name: x\nsteps: [5, null]",
            ["2:9: steps.0: a step is a mapping, not 5", "2:12: steps.1: a step is a mapping, not empty"],
        ),
    ],
)
def test_the_outside_of_a_document(problems: Problems, text: str, expected: list[str]) -> None:
    assert problems(text) == expected


def test_a_version_that_looks_like_a_number_is_text(problems: Problems) -> None:
    assert problems("name: x\nversion: 1.0\nsteps: [{id: a, type: idle}]") == []
    assert problems("name: x\nversion: true\nsteps: [{id: a, type: idle}]") == [
        "2:10: version: must be text, not true; put it in quotes"
    ]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("max_retrys: 3", ["2:10: config.max_retrys: unknown field; did you mean 'max_retries'?"]),
        ("max_retries: -1", ["2:23: config.max_retries: must be at least 0, not -1"]),
        ("max_retries: 1.5", ["2:23: config.max_retries: must be a whole number, not 1.5"]),
        ("max_retries: many", ["2:23: config.max_retries: must be a whole number, not 'many'"]),
        ("max_concurrent_steps: 0", ["2:32: config.max_concurrent_steps: must be at least 1, not 0"]),
        ("max_concurrent_steps: 1025", ["2:32: config.max_concurrent_steps: must be at most 1024, not 1025"]),
        ("timeout: 0", ["2:19: config.timeout: must be more than 0, not 0"]),
        ("timeout: 5s", ["2:19: config.timeout: must be a number, not '5s'"]),
        ("stream: maybe", ["2:18: config.stream: must be true or false, not 'maybe'"]),
        ("stream: yes", []),  # a truth value is wanted, and nobody means anything else by it
        (
            "on_step_failure: stop",
            ["2:27: config.on_step_failure: must be 'skip_downstream' or 'continue', not 'stop'"],
        ),
    ],
)
def test_the_config_block(problems: Problems, config: str, expected: list[str]) -> None:
    assert problems(f"name: x\nconfig: {{{config}}}\nsteps: [{{id: a, type: idle}}]") == expected


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        # Names.
        (
            "id: a\n    type: say\n    promt: x\n    prompt: x",
            ["5:5: steps.a.promt: unknown field; did you mean 'prompt'?"],
        ),
        (
            "id: a\n    type: say\n    prompt: x\n    shape: {kind: text, nam: y}",
            ["6:25: steps.a.shape.nam: unknown field; did you mean 'name'?"],
        ),
        (
            "id: a\n    type: say\n    prompt: x\n    retry:\n      max_retry: 1",
            ["7:7: steps.a.retry.max_retry: unknown field; did you mean 'max_retries'?"],
        ),
        (
            "id: a\n    type: route\n    conditions:\n      - {expresion: state.a, expression: state.a, target: a}",
            ["6:10: steps.a.conditions.0.expresion: unknown field; did you mean 'expression'?"],
        ),
        # Missing.
        ("id: a\n    type: say", ["3:5: steps.a: the field 'prompt' is missing"]),
        ("type: idle", ["3:5: steps.0: the field 'id' is missing"]),
        ("id: a", ["3:5: steps.a: the field 'type' is missing"]),
        ("prompt: x", ["3:5: steps.0: the field 'id' is missing", "3:5: steps.0: the field 'type' is missing"]),
        ("id: a\n    type: say\n    prompt: x\n    shape: {}", ["6:12: steps.a.shape: the field 'kind' is missing"]),
        # Types.
        ("id: 5\n    type: idle", ["3:9: steps.0.id: must be text, not 5; put it in quotes"]),
        ("id: a\n    type: [say]", ["4:11: steps.a.type: must be text, not a list"]),
        ("id: a\n    type: say\n    prompt: 5", ["5:13: steps.a.prompt: must be text, not 5; put it in quotes"]),
        ("id: a\n    type: say\n    prompt:", ["5:12: steps.a.prompt: must be text, not empty"]),
        (
            "id: a\n    type: say\n    prompt: x\n    temperature: hot",
            ["6:18: steps.a.temperature: must be a number, not 'hot'"],
        ),
        (
            "id: a\n    type: say\n    prompt: x\n    temperature: 3",
            ["6:18: steps.a.temperature: must be at most 2, not 3"],
        ),
        (
            "id: a\n    type: say\n    prompt: x\n    shape: object",
            ["6:12: steps.a.shape: must be a mapping, not 'object'; it takes kind, name"],
        ),
        (
            "id: a\n    type: say\n    prompt: x\n    shape: {kind: list}",
            ["6:19: steps.a.shape.kind: must be 'object' or 'text', not 'list'"],
        ),
        (
            "id: a\n    type: say\n    prompt: x\n    tags: red",
            ["6:11: steps.a.tags: must be a list, not 'red'; write [red]"],
        ),
        ("id: a\n    type: idle\n    depends_on: b", ["5:17: steps.a.depends_on: must be a list, not 'b'; write [b]"]),
        ("id: a\n    type: idle\n    timeout: -1", ["5:14: steps.a.timeout: must be more than 0, not -1"]),
        ("id: a b\n    type: idle", ["3:9: steps.a b.id: 'a b' is not allowed here; " + ID_HINT]),
        # What is written in the small languages.
        (
            "id: a\n    type: idle\n    output: a[x]",
            ["5:13: steps.a.output: state path 'a[x]' has '[x]' where an index like [0] or [-1] belongs; " + PATH_HINT],
        ),
        ("id: a\n    type: route\n    conditions: [{expression: 'x ===', target: a}]", None),
        ("id: a\n    type: say\n    prompt: 'hi {state.x'", None),
        ("id: a\n    type: use\n    tool: echo\n    arguments: {x: 'hi {state.x'}", None),
        (
            "id: a\n    type: use\n    tool: echo\n    arguments: [1]",
            ["6:16: steps.a.arguments: must be a mapping, not a list"],
        ),
        # YAML's braces.
        (
            "id: a\n    type: say\n    prompt: {state.x}",
            ["5:13: steps.a.prompt: must be text, not a mapping; " + BRACE_HINT],
        ),
        ("id: a\n    type: say\n    prompt: {state.x} and more", None),
    ],
)
def test_the_fields_of_a_step(problems: Problems, step: str, expected: list[str] | None) -> None:
    found = [each for each in problems(f"{HEAD}  - {step}\n") if ": warning: " not in each]
    if expected is None:
        assert len(found) == 1
    else:
        assert found == expected


def test_mistakes_in_the_small_languages_stand_at_their_value(problems: Problems) -> None:
    text = HEAD + (
        "  - id: a\n    type: say\n    prompt: |\n      hi {state.x\n"
        "  - id: b\n    type: route\n    conditions:\n      - expression: state.x >\n        target: a\n"
        "    depends_on: [a]\n"
    )
    template, expression = [each for each in problems(text) if ": warning: " not in each]
    assert template.startswith("6:10: steps.a.prompt: ")
    assert "{state.x" in template
    assert expression.startswith("10:21: steps.b.conditions.0.expression: ")


def test_a_bare_brace_in_text_is_a_syntax_error_with_a_place(problems: Problems) -> None:
    (message,) = problems(HEAD + "  - id: a\n    type: say\n    prompt: {state.x} and more\n")
    assert message.startswith("5:23: not valid YAML: ")
    assert message.endswith('; a value that begins with { or [ needs quotes: "{state.name}"')


def test_an_unknown_step_type_names_the_close_one(problems: Problems) -> None:
    assert problems(HEAD + "  - {id: a, type: idel}") == [
        "3:19: steps.a.type: no step type 'idel'; did you mean 'idle'?"
    ]


def test_an_unknown_step_type_names_the_package_that_brings_it(problems: Problems) -> None:
    assert problems(HEAD + "  - {id: a, type: approval_gate, anything: 1}") == [
        "3:19: steps.a.type: step type 'approval_gate' is not installed; pip install treadle-approval"
    ]
    assert problems(HEAD + "  - {id: a, type: aproval_gate}") == [
        "3:19: steps.a.type: no step type 'aproval_gate'; did you mean 'approval_gate' (treadle-approval)?"
    ]


def test_the_common_fields_of_a_step_of_unknown_type_are_checked(problems: Problems) -> None:
    assert problems(HEAD + "  - {id: a, type: idel, timeout: -1, depends_on: [b]}") == [
        "3:19: steps.a.type: no step type 'idel'; did you mean 'idle'?",
        "3:34: steps.a.timeout: must be more than 0, not -1",
        "3:51: steps.a.depends_on.0: no step 'b'",
    ]


def test_every_mistake_of_a_file_comes_in_one_pass_in_the_order_of_the_file(problems: Problems) -> None:
    text = (
        "name: demo\n"
        "nam: twice\n"
        "config:\n"
        "  provider: anthropic\n"
        "  max_retries: -1\n"
        "state: {a: 1, a: 2}\n"
        "steps:\n"
        "  - id: one\n"
        "    type: say\n"
        "    promt: x\n"
        "    depends_on: [two, nine]\n"
        "  - id: two\n"
        "    type: aproval_gate\n"
        "    depends_on: [one]\n"
        "  - id: two\n"
        "    type: say\n"
        "    prompt: 'hi {state.'\n"
    )
    found = problems(text)
    assert [line.split(": ")[0] for line in found] == [
        "2:1", "4:13", "5:16", "6:15", "8:5", "10:5", "11:17", "11:23", "13:11", "15:9", "17:17"
    ]  # fmt: skip
    assert "warning" not in " ".join(found)


def test_one_mistake_in_a_block_does_not_hide_another(problems: Problems) -> None:
    text = HEAD + (
        "  - id: a\n    type: use\n    tool: ecko\n    tol: x\n"
        "  - id: b\n    type: route\n    depends_on: [a]\n    conditions:\n"
        "      - expression: state.x >\n        target: nowhere\n"
    )
    assert [each.split("; ")[0] for each in problems(text)] == [
        "5:11: warning: steps.a.tool: no tool 'ecko'",
        "6:5: steps.a.tol: unknown field",
        "11:21: steps.b.conditions.0.expression: column 1: cannot be read: invalid syntax in expression 'state.x >'",
        "12:17: steps.b.conditions.0.target: no step 'nowhere'",
    ]


def test_each_step_is_named_by_its_id(problems: Problems) -> None:
    found = problems(HEAD + "  - {id: first, type: say}\n  - {type: say, prompt: x}\n")
    assert found == ["3:5: steps.first: the field 'prompt' is missing", "4:5: steps.1: the field 'id' is missing"]


def test_a_mistake_in_shared_text_is_reported_once(problems: Problems) -> None:
    text = "name: x\nstate: {base: &b {type: say, promt: hi}}\nsteps:\n" + "".join(
        f"  - {{<<: *b, id: s{n}, prompt: x}}\n" for n in range(3)
    )
    assert problems(text) == ["2:30: steps.s0.promt: unknown field; did you mean 'prompt'?"]


def test_a_key_written_twice_is_one_problem_even_where_its_value_is_wrong(problems: Problems) -> None:
    text = HEAD + "  - id: a\n    type: say\n    prompt: x\n    promt: y\n    promt: z\n"
    assert problems(text) == ["7:5: the key 'promt' already stands on line 6; remove one of them"]


def test_a_value_that_cannot_be_read_is_one_problem(problems: Problems) -> None:
    assert problems(HEAD + "  - {id: a, type: say, prompt: !!binary aGk=}") == [
        "3:32: unknown tag tag:yaml.org,2002:binary; write plain YAML; values are not built by tags"
    ]


def test_an_error_of_ours_out_of_a_steps_own_check_is_a_problem_of_the_step(problems: Problems) -> None:
    assert problems(HEAD + "  - {id: a, type: picky, limit: 3}") == [
        "3:5: steps.a: a limit of 3 is not enough; raise it"
    ]


def test_long_values_are_shortened(problems: Problems) -> None:
    (message,) = problems(HEAD + f"  - {{id: a, type: say, prompt: x, temperature: {'x' * 500}}}")
    assert len(message) < 150
    assert message.endswith("...")


def test_after_a_hundred_problems_close_matches_are_no_longer_looked_for(problems: Problems) -> None:
    steps = "".join(f"  - {{id: step_{n}, type: idle, depends_on: [stp_{n}]}}\n" for n in range(150))
    found = problems(HEAD + steps)
    assert len(found) == 150
    assert found[0].endswith("; did you mean 'step_10'?") or "did you mean" in found[0]
    assert "did you mean" not in found[-1]


def test_warnings_alone_do_not_refuse_a_document(host: Host, problems: Problems) -> None:
    assert problems(HEAD + "  - {id: a, type: use, tool: ecko}") == [
        "3:30: warning: steps.a.tool: no tool 'ecko'; did you mean 'echo'?"
    ]


def test_a_tool_that_is_not_installed_is_a_warning_with_its_package(problems: Problems) -> None:
    assert problems(HEAD + "  - {id: a, type: use, tool: shell_command}") == [
        "3:30: warning: steps.a.tool: tool 'shell_command' is not installed; pip install treadle-tools"
    ]
