"""``treadle run``: results, messages and exit codes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Invoke = Callable[..., Result]

HELLO = """\
name: hello
config: {provider: mock}
state: {who: world, user: {name: Ann, age: 3}}
steps:
- {id: greet, type: llm_call, prompt: "Hello {state.who}", output: greeting}
"""

FLAKY = """\
name: flaky
steps:
- {id: first, type: nap, value: [1, 2], output: data.first}
- {id: again, type: nap, failures: 1, depends_on: [first], value: "two\\nlines", output: text}
- {id: bad, type: nap, failures: 1, permanent: true, error: "no such bucket", output: never}
- {id: after, type: nap, depends_on: [bad]}
- {id: last, type: nap, depends_on: [after]}
"""


def write(folder: Path, text: str, name: str = "flow.yaml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def test_the_result_is_on_stdout_and_everything_else_on_stderr(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("run", write(tmp_path, HELLO))
    assert result.exit_code == 0
    assert result.stdout == "greeting: Mock response\n"
    assert re.fullmatch(
        r"greet: started\n"
        r"greet: success after [\d.]+ m?s\n"
        r"success after [\d.]+ m?s, 0 tokens, \$0, run [0-9a-f]{12}\n",
        result.stderr,
    )


def test_quiet_leaves_only_the_result(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("run", write(tmp_path, HELLO), "--quiet")
    assert (result.stdout, result.stderr) == ("greeting: Mock response\n", "")


def test_json_is_the_whole_result_and_nothing_else(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("run", write(tmp_path, HELLO), "--json", "--stream")
    data = json.loads(result.stdout)
    assert data["status"] == "success"
    assert data["workflow_name"] == "hello"
    assert data["step_results"]["greet"]["output"] == "Mock response"
    assert data["final_state"]["greeting"] == "Mock response"
    assert {"run_id", "total_tokens", "total_cost_usd", "total_duration_ms", "error"} <= data.keys()


def test_state_is_set_from_file_and_options_and_the_options_win(invoke: Invoke, tmp_path: Path) -> None:
    write(tmp_path, '{"who": "file", "from_file": true}', "state.json")
    result = invoke(
        "run", write(tmp_path, HELLO), "--json", "--state-file", "state.json",
        "-s", "who=you", "-s", "user.age=4", "--state", 'tags=["a", 1]', "-s", "url=http://x/?a=1",
    )  # fmt: skip
    assert json.loads(result.stdout)["final_state"] == {
        "who": "you",
        "user": {"name": "Ann", "age": 4},
        "from_file": True,
        "tags": ["a", 1],
        "url": "http://x/?a=1",
        "greeting": "Mock response",
    }


def test_state_is_read_from_stdin(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("run", write(tmp_path, HELLO), "--json", "--state-file", "-", input='{"who": "pipe"}')
    assert json.loads(result.stdout)["final_state"]["who"] == "pipe"


def test_a_value_that_is_almost_json_is_text_with_a_warning(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("run", write(tmp_path, HELLO), "--json", "-s", "who={'a': 1}")
    assert json.loads(result.stdout)["final_state"]["who"] == "{'a': 1}"
    assert "warning: -s who: looks like JSON but is not (" in result.stderr


def test_model_provider_and_stream_override_the_config(invoke: Invoke, tmp_path: Path) -> None:
    document = HELLO.replace("provider: mock", "provider: openai, model: gpt-9, stream: true")
    result = invoke("run", write(tmp_path, document), "-p", "mock", "-m", "tiny", "--no-stream", "--json")
    step = json.loads(result.stdout)["step_results"]["greet"]
    assert (step["provider"], step["model"], step["time_to_first_token_ms"]) == ("mock", "tiny", None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-s", "who"), "error: -s who: no value; write it as key=value\n"),
        (("-s", "who.x=1"), "error: -s who.x: 'who' holds a text, not a mapping; set it whole, as who={...}\n"),
        (("--state-file", "no.json"), "error: no.json: cannot be read: No such file or directory\n"),
        (("-p", "mok"), "error: no provider 'mok'; did you mean 'mock' (treadle-replay 0.1.0)?\n"),
        (
            ("-p", "openai", "--without", "openai"),
            (
                "error: provider 'openai' is not available: plugin 'openai' (treadle-openai 0.1.0) is disabled; "
                "leave out --without openai\n"
            ),
        ),
        (("--without", "opnai"), "error: no plugin 'opnai' is installed; did you mean 'openai'?\n"),
    ],
)
def test_a_mistake_is_reported_before_anything_runs(
    invoke: Invoke, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = invoke("run", write(tmp_path, HELLO), *options)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_every_problem_of_the_document_is_a_line_of_its_own_and_they_are_counted(
    invoke: Invoke, tmp_path: Path
) -> None:
    file = write(tmp_path, HELLO.replace("prompt:", "promt:").replace("name: hello", "nam: hello"))
    result = invoke("run", f"./{file}")
    *problems, count = result.stderr.splitlines()
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(problems) >= 3
    assert all(re.match(r"\./flow\.yaml:\d+:\d+: ", problem) for problem in problems)
    assert count == f"error: {len(problems)} errors"


def test_a_missing_file_is_a_mistake(invoke: Invoke, tmp_path: Path) -> None:
    write(tmp_path, HELLO)
    result = invoke("run", "flow.yml")
    assert (result.exit_code, result.stderr) == (
        2,
        "flow.yml: no such file; did you mean 'flow.yaml'?\nerror: 1 error\n",
    )


def test_warnings_of_the_document_come_before_the_run_unless_it_is_quiet(invoke: Invoke, tmp_path: Path) -> None:
    document = """\
name: loose
config: {provider: mock}
steps:
- {id: r, type: router, conditions: [], default: b}
- {id: b, type: llm_call, prompt: x}
"""
    file = write(tmp_path, document)
    loud, quiet = invoke("run", file), invoke("run", file, "-q")
    assert "flow.yaml:4:" in loud.stderr.splitlines()[0]
    assert ": warning: " in loud.stderr.splitlines()[0]
    assert loud.exit_code == quiet.exit_code == 0
    assert quiet.stderr == ""


def test_without_outputs_the_last_steps_speak_for_the_run(invoke: Invoke, tmp_path: Path) -> None:
    document = HELLO.replace(", output: greeting", "")
    assert invoke("run", write(tmp_path, document)).stdout == "greet: Mock response\n"


def test_streamed_text_is_not_repeated_as_a_result(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("run", write(tmp_path, HELLO), "--stream")
    assert result.stdout == "Mock response\n"


def test_a_failed_run_says_why_and_which_steps_were_skipped(program: Any) -> None:
    ended = program("run", program.write("flow.yaml", FLAKY))
    assert ended.code == 1
    assert ended.out == 'data: {"first": [1, 2]}\n\ntext:\ntwo\nlines\n'
    lines = ended.err.splitlines()
    assert "again: attempt 1 failed, again in 0.1 s: the server is busy" in lines
    assert "again: started, attempt 2" in lines
    assert "after: skipped: step 'bad' failed" in lines
    assert lines[-4:-2] == ["error: step 'bad': no such bucket", "skipped: after, last: step 'bad' failed"]
    last = re.fullmatch(r"failed after \d.*, 0 tokens, \$0, run ([0-9a-f]{12})", lines[-1])
    assert last is not None
    assert lines[-2] == f"treadle resume {last[1]} goes on with it"


def test_a_failed_run_prints_its_json_and_quiet_still_says_why(program: Any) -> None:
    ended = program("run", program.write("flow.yaml", FLAKY), "--json", "-q")
    data = json.loads(ended.out)
    assert ended.code == 1
    assert (data["status"], data["error"]) == ("failed", "step 'bad': no such bucket")
    assert data["step_results"]["again"]["attempts"] == 2
    assert ended.err == "error: step 'bad': no such bucket\nskipped: after, last: step 'bad' failed\n"


def test_each_distinct_warning_is_shown_once(program: Any) -> None:
    document = "name: w\nsteps:\n- {id: a, type: nap, warn: [odd, odd, even]}\n- {id: b, type: nap, warn: [odd]}\n"
    ended = program("run", program.write("flow.yaml", document))
    warnings = sorted(line for line in ended.err.splitlines() if line.startswith("warning"))
    assert warnings == ["warning: step 'a': even", "warning: step 'a': odd", "warning: step 'b': odd"]


def test_a_run_over_its_time_says_so(program: Any) -> None:
    document = "name: t\nconfig: {timeout: 0.2}\nsteps:\n- {id: a, type: nap, seconds: 60}\n"
    ended = program("run", program.write("flow.yaml", document), "-q")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "error: the run took longer than config.timeout (0.2 s)\n"


def test_unknown_tokens_and_costs_are_called_unknown(program: Any) -> None:
    document = "name: u\nsteps:\n- {id: a, type: nap, tokens: null, cost: null}\n- {id: b, type: nap, cost: 0.5}\n"
    ended = program("run", program.write("flow.yaml", document))
    assert ", tokens unknown, cost unknown, run " in ended.err.splitlines()[-1]


def test_an_encoding_without_the_characters_does_not_crash(program: Any) -> None:
    document = 'name: é\nsteps:\n- {id: a, type: nap, value: "é 日本 🎉", warn: ["日本"], output: text}\n'
    file = program.write("flow.yaml", document)
    ended = program("run", file, env={"PYTHONIOENCODING": "ascii"})
    assert ended.code == 0
    assert ended.out == "text: \\xe9 \\u65e5\\u672c \\U0001f389\n"
    assert "warning: step 'a': \\u65e5\\u672c" in ended.err
    data = json.loads(program("run", file, "--json", env={"PYTHONIOENCODING": "ascii"}).out)
    assert data["final_state"] == {"text": "é 日本 🎉"}


def test_what_is_piped_keeps_its_control_characters(program: Any) -> None:
    document = 'name: c\nsteps:\n- {id: a, type: nap, value: "\\e[31mred", output: text}\n'
    assert program("run", program.write("flow.yaml", document)).out == "text: \x1b[31mred\n"


def test_a_reader_that_leaves_a_stream_ends_the_run_quietly(program: Any) -> None:
    document = (
        f"name: s\nconfig: {{stream: true}}\nsteps:\n- {{id: a, type: say, seconds: 0.05, pieces: {['x'] * 2000}}}"
    )
    with program.start("run", program.write("flow.yaml", document), "-q") as process:
        assert process.stdout.read(1) == b"x"
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""


@pytest.mark.parametrize("args", [("run", "flow.yaml", "--json", "-q"), ("run", "flow.yaml", "-q"), ("run", "--help")])
def test_a_reader_that_never_was_ends_the_program_quietly(program: Any, args: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program.write("flow.yaml", "name: s\nsteps:\n- {id: a, type: nap, value: 1, output: x}\n")
    with program.start(*args, stdout=writer) as process:
        os.close(writer)
        assert (process.wait(30), process.stderr.read()) == (141, b"")


def test_a_value_that_a_state_cannot_hold_is_a_mistake(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_cli.state_args.initial_state", lambda *_: {"who": {1, 2}})
    result = invoke("run", write(tmp_path, HELLO))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the initial state: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full device")
def test_a_full_disk_is_told(program: Any) -> None:
    file = program.write("flow.yaml", "name: s\nsteps:\n- {id: a, type: nap, value: 1, output: x}\n")
    with Path("/dev/full").open("wb") as full, program.start("run", file, "-q", stdout=full) as process:
        assert process.wait(30) == 1
        assert process.stderr.read() == b"error: stdout cannot be written: No space left on device\n"


def test_debug_shows_the_traceback_of_a_failed_step(invoke: Invoke, tmp_path: Path) -> None:
    text = (
        "name: x\nconfig: {provider: mock, max_retries: 0}\nsteps:\n"
        "  - {id: a, type: tool, tool_name: file_read, tool_args: {path: nowhere.txt}}\n"
    )
    file = str(tmp_path / write(tmp_path, text))
    plain = invoke("run", file)
    debugging = invoke("run", file, "--debug")
    assert plain.exit_code == debugging.exit_code == 1
    assert "Traceback" not in plain.stderr
    assert "Traceback (most recent call last)" in debugging.stderr
    assert "ToolError" in debugging.stderr


def test_a_state_key_that_nothing_reads_is_warned_about(invoke: Invoke, tmp_path: Path) -> None:
    file = write(tmp_path, HELLO)
    result = invoke("run", file, "-s", "hwo=you", "-s", "unheard=1")
    assert result.exit_code == 0
    assert "warning: no step reads state key 'hwo'; did you mean 'who'?\n" in result.stderr
    assert "warning: no step reads state key 'unheard'\n" in result.stderr
    assert "no step reads" not in invoke("run", file, "-s", "state.who=you").stderr


def test_a_file_given_as_a_command_is_told_from_a_misspelt_command(invoke: Invoke) -> None:
    assert "no command 'flow.yaml'; did you mean treadle run flow.yaml?" in invoke("flow.yaml").stderr


PAUSED = """\
name: gates
steps:
- {id: first, type: nap, value: 1, output: x}
- {id: gate, type: ask, question: "Ship it?", choices: [approve, reject], depends_on: [first]}
- {id: sub, type: sub, steps: [{id: inner, type: ask, question: "And this?"}]}
- {id: after, type: nap, depends_on: [gate]}
"""


def test_a_paused_run_says_what_it_waits_for_and_is_no_failure(program: Any) -> None:
    ended = program("run", program.write("flow.yaml", PAUSED))
    assert (ended.code, ended.out) == (0, "x: 1\n")
    lines = ended.err.splitlines()
    assert any(re.fullmatch(r"gate: paused after [\d.]+ m?s: Ship it\? \(approve, reject\)", line) for line in lines)
    assert any(re.fullmatch(r"sub.inner: paused after [\d.]+ m?s: And this\?", line) for line in lines)
    assert any(re.fullmatch(r"sub: paused after [\d.]+ m?s: sub.inner waits", line) for line in lines)
    resume = f"    treadle resume {lines[-1].rpartition(' ')[2]} --answer"
    assert lines[-6:-1] == [
        "waiting: step 'gate': Ship it? (approve, reject)",
        f"{resume} gate=approve",
        f"{resume} gate=reject",
        "waiting: step 'sub.inner': And this?",
        f"{resume} sub.inner=...",
    ]
    assert lines[-1].startswith("paused after ")


def test_json_lists_what_a_paused_run_waits_for(program: Any) -> None:
    ended = program("run", program.write("flow.yaml", PAUSED), "--json", "-q")
    data = json.loads(ended.out)
    assert (ended.code, data["status"], data["error"]) == (0, "paused", None)
    assert [(each["step_id"], each["question"], each["choices"]) for each in data["pending"]] == [
        ("gate", "Ship it?", ["approve", "reject"]),
        ("sub.inner", "And this?", []),
    ]
    assert {step: result["status"] for step, result in data["step_results"].items()} == {
        "first": "success", "gate": "paused", "sub": "paused", "after": "pending"
    }  # fmt: skip
    assert [line for line in ended.err.splitlines() if not line.startswith(" ")] == [
        "waiting: step 'gate': Ship it? (approve, reject)",
        "waiting: step 'sub.inner': And this?",
    ]


def test_a_paused_run_in_which_a_step_failed_says_so_too(program: Any) -> None:
    document = (
        PAUSED + "- {id: bad, type: nap, failures: 1, permanent: true}\n- {id: b, type: nap, depends_on: [bad]}\n"
    )
    ended = program("run", program.write("flow.yaml", document), "-q")
    assert ended.code == 0
    assert ended.err.splitlines()[:2] == [
        "error: step 'bad': the server is busy",
        "skipped: b: step 'bad' failed",
    ]


def test_steps_of_child_runs_have_dotted_ids_in_plain_lines(program: Any) -> None:
    document = "name: x\nsteps:\n- {id: s, type: sub, times: 2, concurrent: false, steps: [{id: a, type: nap}]}\n"
    ended = program("run", program.write("flow.yaml", document))
    assert [re.sub(r" after .*", "", line) for line in ended.err.splitlines()[:-1]] == [
        "s: started", "s.0.a: started", "s.0.a: success", "s.1.a: started", "s.1.a: success", "s: success"
    ]  # fmt: skip
