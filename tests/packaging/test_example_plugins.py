"""The packages in ``examples/plugins``: three that work, and a broken one that stops nobody."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from workspace import ROOT, distributions

from installs.wheelhouse import Environment, build

EXAMPLES = ROOT / "examples" / "plugins"
GOOD = ("acme-chat-files", "acme-keep-last", "acme-s3-like", "acme-weather")

NEEDY = "name: needy\nsteps:\n  - {id: a, type: acme_broken}\n"
OTHER = "name: other\nconfig: {provider: mock}\nsteps:\n  - {id: a, type: llm_call, prompt: Hello, output: said}\n"

SAID = ", ".join(f"{{role: {role}, content: {role} {n}}}" for n in range(5) for role in ("user", "assistant"))
TALK = f"""\
name: talk
config: {{provider: mock}}
state:
  chat:
    token_budget: 70
    messages: [{SAID}]
steps:
  - {{id: a, type: llm_call, conversation: state.chat, prompt: And now?}}
"""


@contextmanager
def installed(name: str, strangers: Environment, folder: Path) -> Iterator[Path]:
    """A copy of the package's folder, its wheel installed meanwhile."""
    copy = folder / name
    shutil.copytree(EXAMPLES / name, copy, ignore=shutil.ignore_patterns("__pycache__"))
    strangers.run("python", "-m", "pip", "install", "-q", f"{build(copy, folder)}[test]", cwd=folder)
    try:
        yield copy
    finally:
        strangers.run("python", "-m", "pip", "uninstall", "-q", "-y", name, cwd=folder)


def test_they_are_no_distributions_of_ours() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/pyproject.toml")}
    assert folders == {*GOOD, "acme-broken"}
    assert not folders & {dist.name for dist in distributions()}
    catalogue = (ROOT / "cli" / "src" / "treadle_cli" / "catalogue.json").read_text(encoding="utf-8")
    assert "acme" not in catalogue


@pytest.mark.parametrize("name", GOOD)
def test_a_good_one_passes_its_tests_and_the_check(name: str, strangers: Environment, tmp_path: Path) -> None:
    with installed(name, strangers, tmp_path) as folder:
        tested = strangers.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
        assert re.search(r"\d+ passed", tested), tested
        plugin = name.replace("-", "_")
        checked = json.loads(strangers.run("treadle", "plugins", "check", plugin, "--json", cwd=tmp_path))
        assert checked["ok"] is True, checked
        if (folder / "examples").is_dir():
            done = strangers.run("treadle", "run", "workflow.yaml", "--json", "-q", cwd=folder / "examples")
            result = json.loads(done)
            assert result["status"] == "success"
            if name == "acme-weather":
                assert list(result["final_state"]["warmest"]) == ["Lima", "Århus", "Oslo"]
            else:
                assert result["step_results"]["look"]["attachment_count"] == 1


def test_a_deployment_swaps_the_memory_and_a_policy_and_the_workflow_stays(
    strangers: Environment, tmp_path: Path
) -> None:
    (tmp_path / "talk.yaml").write_text(TALK)

    def run(settings: str) -> tuple[int, list[dict[str, str]]]:
        """How many messages the state has afterwards, and what is in the files of acme-chat-files."""
        (tmp_path / "treadle.yaml").write_text(settings)
        done = json.loads(strangers.run("treadle", "run", "talk.yaml", "--json", "-q", cwd=tmp_path))
        assert done["status"] == "success", done
        chat, file = done["final_state"]["chat"], tmp_path / "chats" / "chat.json"
        return len(chat["messages"]), json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []

    strangers.run("python", "-m", "pip", "install", "-q", "treadle-conversation", cwd=tmp_path)
    try:
        with installed("acme-keep-last", strangers, tmp_path):
            # Ten messages, a prompt and a reply: one exchange too many for the budget.
            assert run("{}\n") == (10, [])
            assert run("aliases: {trim_policies: {drop_oldest: acme_keep_last}}\n") == (6, [])
        with installed("acme-chat-files", strangers, tmp_path):
            (tmp_path / "treadle.yaml").write_text("{}\n")
            said = strangers.run("treadle", "run", "talk.yaml", cwd=tmp_path, exit_code=2)
            assert "roles.memory" in said, said
            assert [len(run("roles: {memory: acme_chat_files}\n")[1]) for _ in range(2)] == [2, 4]
            assert run("roles: {memory: conversation}\n")[0] == 10
    finally:
        strangers.run("python", "-m", "pip", "uninstall", "-q", "-y", "treadle-conversation", cwd=tmp_path)


def test_the_broken_one_stops_only_what_needs_it(strangers: Environment, tmp_path: Path) -> None:
    (tmp_path / "needy.yaml").write_text(NEEDY)
    (tmp_path / "other.yaml").write_text(OTHER)
    whose = "plugin 'acme_broken' (acme-broken 0.1.0)"
    cause = "cannot import name 'Offering' from 'treadle'"
    with installed("acme-broken", strangers, tmp_path) as folder:
        listed = strangers.run("treadle", "plugins", cwd=tmp_path)
        assert re.search(r"^acme_broken +acme-broken +0\.1\.0 +broken", listed, re.MULTILINE)
        assert whose in listed
        assert cause in listed
        assert "disable it with --without acme_broken" in listed

        done = strangers.run("treadle", "run", "other.yaml", "-q", cwd=tmp_path)
        assert done == "said: Mock response\n"

        said = strangers.run("treadle", "run", "needy.yaml", cwd=tmp_path, exit_code=2)
        assert whose in said
        assert "Traceback" not in said

        said = strangers.run("treadle", "plugins", "check", "acme_broken", cwd=tmp_path, exit_code=1)
        assert cause in said

        listed = strangers.run("treadle", "plugins", "--without", "acme_broken", cwd=tmp_path)
        assert re.search(r"^acme_broken .* disabled", listed, re.MULTILINE)
        assert cause not in listed

        tested = strangers.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
        assert "2 passed" in tested
