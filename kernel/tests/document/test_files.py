"""Workflow files: what they are called in messages, how they are read, and what stands in the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from treadle._document import load_workflow, parse_workflow
from treadle._plugins import Host
from treadle.errors import DocumentError

TEXT = "name: Prüfung 😀\nsteps:\n  - {id: ä, type: say, prompt: 'Grüße, {state.x}'}\n"


def refusal(path: "str | os.PathLike[str]", host: Host) -> str:
    with pytest.raises(DocumentError) as caught:
        load_workflow(path, host=host)
    return str(caught.value)


@pytest.mark.parametrize("raw", [TEXT.encode(), b"\xef\xbb\xbf" + TEXT.encode(), TEXT.replace("\n", "\r\n").encode()])
def test_utf_8_with_or_without_mark_and_either_line_end_is_the_same(tmp_path: Path, host: Host, raw: bytes) -> None:
    file = tmp_path / "flow.yaml"
    file.write_bytes(raw)
    workflow = load_workflow(file, host=host)
    assert workflow.name == "Prüfung 😀"
    assert workflow.steps[0].id == "ä"
    assert workflow.source == str(file)


def test_problems_name_the_file_as_it_was_named(tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flow.yaml").write_bytes(b"\xef\xbb\xbfnmae: x\nsteps: [{id: a, type: idle}]")
    monkeypatch.chdir(tmp_path)
    assert refusal("flow.yaml", host) == (
        "flow.yaml:1:1: the field 'name' is missing\nflow.yaml:1:1: nmae: unknown field; did you mean 'name'?"
    )
    assert refusal(Path("./flow.yaml"), host).startswith("flow.yaml:1:1: ")


def test_the_locale_does_not_matter(tmp_path: Path) -> None:
    """A machine of an 8-bit locale reads the same text, and prints problems without failing."""
    file = tmp_path / "flow.yaml"
    file.write_text("name: Prüfung\nsteps:\n  - {id: ä, type: grüße}\n", encoding="utf-8")
    program = (
        "import locale, sys\n"
        "from treadle._document import load_workflow\n"
        "from treadle._plugins import Host\n"
        "from treadle.errors import DocumentError\n"
        "try: load_workflow(sys.argv[1], host=Host.of({}))\n"
        "except DocumentError as error: sys.stdout.buffer.write(str(error).encode('utf-8'))\n"
        "sys.stdout.buffer.write(f'\\n{locale.getencoding()}'.encode())\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        # Any file that is opened without an encoding is an error here (PEP 597).
        [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", program, str(file)],
        env=environment,
        capture_output=True,
        check=True,
        timeout=60,
    )
    problem, encoding = done.stdout.decode("utf-8").splitlines()
    assert problem == f"{file}:3:19: steps.ä.type: no step type 'grüße'"
    assert encoding.upper().replace("-", "") != "UTF8"


def test_a_file_that_is_not_there_names_its_neighbour(tmp_path: Path, host: Host) -> None:
    (tmp_path / "summary.yaml").write_text("x", encoding="utf-8")
    missing = tmp_path / "sumary.yaml"
    assert refusal(missing, host) == f"{missing}: no such file; did you mean '{tmp_path / 'summary.yaml'}'?"
    assert refusal(tmp_path / "zzzz.txt", host) == f"{tmp_path / 'zzzz.txt'}: no such file"
    nowhere = tmp_path / "nowhere" / "flow.yaml"
    assert refusal(nowhere, host) == f"{nowhere}: no such file"


def test_a_directory_is_not_a_file(tmp_path: Path, host: Host) -> None:
    assert refusal(tmp_path, host) == f"{tmp_path}: is a directory; name a file in it"


def test_a_path_through_a_file_is_said_so(tmp_path: Path, host: Host) -> None:
    (tmp_path / "a").write_text("x", encoding="utf-8")
    assert refusal(tmp_path / "a" / "b.yaml", host) == f"{tmp_path / 'a' / 'b.yaml'}: not a directory"


def test_a_name_that_no_file_can_have_is_said_so(host: Host) -> None:
    assert refusal("a\0b", host) == "a\0b: embedded null byte"


def test_a_file_that_may_not_be_read_is_said_so(tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "flow.yaml"

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)  # as root reads everything
    assert refusal(file, host) == f"{file}: permission denied"


def test_a_workflow_text_is_not_taken_for_a_path(host: Host) -> None:
    for text in ("name: x\nsteps: []", "x\n" * 5000):
        assert refusal(text, host) == "this is a text, not the name of a file; parse_workflow reads it"
    with pytest.raises(DocumentError) as caught:
        parse_workflow("flow.yaml", host=host)
    assert str(caught.value) == (
        "<text>:1:1: a workflow is a mapping with name and steps, not 'flow.yaml'; load_workflow reads a file"
    )
