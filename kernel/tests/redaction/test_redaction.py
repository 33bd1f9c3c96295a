"""What a run may not tell is told nowhere, and the run itself sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import treadle
from treadle import (
    AssistantMessage,
    Host,
    JournalEntry,
    ModelRequest,
    Redactor,
    RunResult,
    SecretRef,
    Settings,
    Step,
    StepContext,
    StepOutcome,
    UserMessage,
    hide_secrets,
    redaction,
)
from treadle._engine.journal import MemoryJournal
from treadle.contracts import secrets as secret_values
from treadle.contracts.events import ModelCallStarted, TextEmitted
from treadle.contracts.settings import RedactionSettings
from treadle.contracts.step import StepDetails
from treadle.errors import DocumentError
from treadle.testing import RecordingObserver, offering, reply, scripted

KEY = "sk-live-0123456789"


@pytest.fixture(autouse=True)
def nothing_revealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins as a process does."""
    monkeypatch.setattr(secret_values, "_REVEALED", {})
    redaction._secrets_now.cache_clear()


def reveal(monkeypatch: pytest.MonkeyPatch, value: str, variable: str = "A_KEY") -> None:
    monkeypatch.setenv(variable, value)
    assert SecretRef(f"env:{variable}").reveal() == value.strip()


def is_placeholder(text: object) -> bool:
    return isinstance(text, str) and text.startswith("<REDACTED:sha256=") and len(text) == 34


class Person(BaseModel):
    name: str
    email: str
    age: int = 7


class Say(Step):
    """Gives what its class was told to give."""

    value: Any = None
    fails: bool = False
    reasons: str | None = None

    async def run(self, ctx: StepContext) -> StepOutcome:
        if self.fails:
            raise ValueError(f"the server says: {self.value}")
        if self.value == "whole state":
            return StepOutcome(value=dict(ctx.state))
        if self.value == "ask":
            text = ctx.state.get("token", "")
            response = await ctx.complete(ModelRequest(model="m", messages=(UserMessage.of(f"use {text}"),)))
            return StepOutcome(value=response.text)
        if self.value == "person":
            return StepOutcome(value=Person(name="Ann", email="ann@example.com"))
        if self.value == "warn":
            ctx.warn(f"look: {KEY}")
            ctx.emit_text(f"text: {KEY[:6]}")
            ctx.emit_text(f"{KEY[6:]} and s")
            return StepOutcome()
        return StepOutcome(value=self.value, details=StepDetails(reasoning_content=self.reasons))


def host(settings: Settings | None = None, *replies: Any) -> Host:
    offers: Any = {"step_type": {"say": Say}, "provider": {"p": scripted(*(replies or ("hello",)))}}
    return Host.of({"t": offering(offers)}, settings=settings)


async def run(
    steps: list[dict[str, Any]], *, keys: tuple[str, ...] = (), replies: tuple[Any, ...] = (), **document: Any
) -> tuple[RunResult, RecordingObserver, list[JournalEntry]]:
    made = host(Settings(redaction=RedactionSettings(keys=keys)), *replies)
    data = {
        "name": "t",
        "config": {"provider": "p", "max_retries": 0},
        "steps": [{"type": "say", **step} for step in steps],
        **document,
    }
    observer, journal = RecordingObserver(), MemoryJournal()
    async with treadle.open(host=made, journal=journal) as session:
        result = await session.run(treadle.build_workflow(data, host=made), observers=[observer])
        return result, observer, list(journal.entries(result.run_id))


def told(result: RunResult, observer: RecordingObserver, entries: list[JournalEntry]) -> str:
    """Everything that left the run, as text."""
    return "\n".join([json.dumps(result.to_json()), repr(result), *map(repr, observer.events), *map(repr, entries)])


# --- secrets ----------------------------------------------------------------------------------------------


async def test_a_secret_is_in_no_channel(monkeypatch: pytest.MonkeyPatch):
    reveal(monkeypatch, KEY)
    steps = [
        {"id": "a", "value": f"Bearer {KEY}", "output": "header", "reasons": f"I see {KEY}"},
        {"id": "b", "value": {"deep": [{"in": KEY}], KEY: 1}, "output": "deep"},
        {"id": "c", "value": KEY, "fails": True},
        {"id": "d", "value": "warn"},
        {"id": "e", "value": "ask"},
    ]
    result, observer, entries = await run(steps, state={"token": KEY}, replies=(f"it is {KEY}",))
    text = told(result, observer, entries)
    assert KEY not in text
    assert "sk-live" not in "".join(each.text for each in observer.events if isinstance(each, TextEmitted))
    assert is_placeholder(result.final_state["header"].removeprefix("Bearer "))
    assert is_placeholder(result.step_results["a"].reasoning_content.removeprefix("I see "))
    assert "the server says: <REDACTED" in (result.error or "")
    assert "look: <REDACTED" in result.warnings[-1].message


async def test_the_run_itself_and_its_model_get_real_values(monkeypatch: pytest.MonkeyPatch):
    reveal(monkeypatch, KEY)
    seen: list[str] = []

    class Noting(scripted("hello")):  # type: ignore[misc]
        def exchange(self, request: ModelRequest) -> Any:
            seen.append(request.messages[0].text)  # type: ignore[union-attr]
            return super().exchange(request)

    made = Host.of({"t": offering({"step_type": {"say": Say}, "provider": {"p": Noting}})})
    steps = [
        {"id": "a", "type": "say", "value": "whole state", "output": "copy"},
        {"id": "b", "type": "say", "value": "ask", "depends_on": ["a"]},
    ]
    data = {
        "name": "t",
        "config": {"provider": "p"},
        "state": {"token": KEY},
        "state_schema": {"token": {"redact": True}},
        "steps": steps,
    }
    observer = RecordingObserver()
    async with treadle.open(host=made) as session:
        result = await session.run(treadle.build_workflow(data, host=made), observers=[observer])
    assert seen == [f"use {KEY}"]
    assert is_placeholder(result.final_state["token"])
    assert result.final_state["copy"] == {"token": result.final_state["token"]}
    started = next(each for each in observer.events if isinstance(each, ModelCallStarted))
    assert started.request.messages[0].text == f"use {result.final_state['token']}"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "written",
    [
        'pass"word\\with\ttab',
        "Schlüssel-€-鍵",
        "a b&c=d/e",
    ],
)
def test_a_secret_is_found_as_json_and_addresses_write_it(written: str, monkeypatch: pytest.MonkeyPatch):
    reveal(monkeypatch, written)
    for text in (json.dumps({"k": written}), json.dumps({"k": written}, ensure_ascii=False)):
        assert is_placeholder(json.loads(hide_secrets(text))["k"])
    from urllib.parse import quote

    assert is_placeholder(hide_secrets(f"https://h/?k={quote(written, safe='')}").partition("=")[2])


def test_of_overlapping_secrets_the_longest_is_found(monkeypatch: pytest.MonkeyPatch):
    reveal(monkeypatch, "secret")
    reveal(monkeypatch, "secret-and-more", "B_KEY")
    reveal(monkeypatch, "and-more", "C_KEY")
    text = hide_secrets("x secret-and-more y secret z and-more")
    first, second, third = (text.split()[at] for at in (1, 3, 5))
    assert all(map(is_placeholder, (first, second, third)))
    assert len({first, second, third}) == 3


def test_secrets_of_fewer_than_four_characters_are_not_looked_for(monkeypatch: pytest.MonkeyPatch):
    reveal(monkeypatch, "abc")
    assert hide_secrets("abcdef") == "abcdef"
    reveal(monkeypatch, "abcd")
    assert hide_secrets("abcdef") != "abcdef"


def test_words_that_stand_in_for_a_key_are_words(monkeypatch: pytest.MonkeyPatch):
    reveal(monkeypatch, "EMPTY")
    reveal(monkeypatch, "test", "B_KEY")
    assert hide_secrets("an EMPTY test") == "an EMPTY test"


def test_what_has_no_secret_is_given_back_itself(monkeypatch: pytest.MonkeyPatch):
    value = {"a": [1, None, True, "text", ("x", b"y")], "p": Person(name="Ann", email="e")}
    assert hide_secrets(value) is value
    reveal(monkeypatch, KEY)
    assert hide_secrets(value) is value


def test_fields_of_pydantic_instances_keys_and_message_parts_are_looked_into(monkeypatch: pytest.MonkeyPatch):
    reveal(monkeypatch, KEY)
    person = hide_secrets({"p": Person(name=KEY, email="e")})["p"]
    assert is_placeholder(person["name"])
    assert person["age"] == 7
    assert all(map(is_placeholder, hide_secrets({KEY: 1})))
    response = reply(f"say {KEY}")
    assert hide_secrets(response).text == f"say {next(iter(hide_secrets({KEY: 1})))}"
    assert hide_secrets(AssistantMessage.of("x")).text == "x"


@given(pieces=st.lists(st.text("sk-live0123456789 x", max_size=6), max_size=12), at=st.integers(0, 12))
def test_pieces_of_a_stream_are_the_whole_text_without_the_secret(pieces: list[str], at: int):
    known, secret_values._REVEALED = secret_values._REVEALED, {KEY: None}
    redaction._secrets_now.cache_clear()
    try:
        parts = [*pieces[:at], KEY[:5], KEY[5:9], KEY[9:], *pieces[at:]]
        redactor, shown = Redactor(), list[str]()
        for part in parts:
            event = TextEmitted(run_id="r", step_id="s", text=part)
            shown += [each.text for each in redactor.events(event) if isinstance(each, TextEmitted)]
        end = treadle.contracts.events.StepStarted(run_id="r", step_id="s", attempt=1)
        shown += [each.text for each in redactor.events(end) if isinstance(each, TextEmitted)]
        assert "".join(shown) == hide_secrets("".join(parts))
    finally:
        secret_values._REVEALED = known


@given(pieces=st.lists(st.text("ab", max_size=4), max_size=12))
def test_a_secret_that_repeats_itself_is_not_cut_in_two(pieces: list[str]):
    known, secret_values._REVEALED = secret_values._REVEALED, {"abab": None, "abababb": None, "bbbb": None}
    redaction._secrets_now.cache_clear()
    try:
        redactor, shown = Redactor(), ""
        for event in (*(TextEmitted(run_id="r", step_id="s", text=each) for each in pieces), None):
            told = redactor.events(event or treadle.contracts.events.StepStarted(run_id="r", step_id="s", attempt=1))
            shown += "".join(each.text for each in told if isinstance(each, TextEmitted))
        assert shown == hide_secrets("".join(pieces))
    finally:
        secret_values._REVEALED = known


# --- keys of the state ------------------------------------------------------------------------------------

STATE = {"user": {"name": "Ann", "token": "t-1", "tags": ["a", 2, None]}, "users": [{"mail": "x@y"}], "plain": "Ann"}


@pytest.mark.parametrize(
    ("pattern", "hidden"),
    [
        ("token", ["user.token"]),
        ("state.user.token", ["user.token"]),
        ("user", ["user.name", "user.token", "user.tags.0", "user.tags.1"]),
        ("user.t*", ["user.token", "user.tags.0", "user.tags.1"]),
        ("users.*.mail", ["users.0.mail"]),
        ("TOKEN", []),
        ("to?en", ["user.token"]),
        ("nothing", []),
    ],
)
async def test_which_values_a_pattern_names(pattern: str, hidden: list[str]):
    result, _, entries = await run([{"id": "a"}], keys=(pattern,), state=STATE)
    started = next(each for each in entries if each.kind == "run_started")
    for state in (result.final_state, started.data["state"], started.data["workflow"].data["state"]):
        assert sorted(_hidden(state)) == sorted(hidden)
    again, _, _ = await run([{"id": "a"}], state=STATE, state_schema={pattern: {"redact": True}})
    assert sorted(_hidden(again.final_state)) == sorted(hidden)


def _hidden(value: Any, place: str = "") -> list[str]:
    if isinstance(value, Mapping):
        return [found for key, inner in value.items() for found in _hidden(inner, f"{place}.{key}")]
    if isinstance(value, list | tuple):
        return [found for index, inner in enumerate(value) for found in _hidden(inner, f"{place}.{index}")]
    return [place[1:]] if is_placeholder(value) else []


async def test_the_environment_names_keys_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTLOOM_REDACT_STATE_KEYS", "token, plain")
    result, _, _ = await run([{"id": "a"}], state=STATE)
    assert _hidden(result.final_state) == ["user.token", "plain"]


async def test_the_output_of_a_named_key_is_told_nowhere_not_even_as_the_reply_that_it_was():
    steps = [
        {"id": "a", "value": "ask", "output": "answer"},
        {"id": "b", "value": "the value", "reasons": "because of the value", "output": "report.answer"},
        {"id": "c", "value": "person", "output": "person"},
        {"id": "d", "value": "open", "output": "open"},
    ]
    result, observer, entries = await run(steps, keys=("answer", "email"), replies=("the value",))
    assert result.ok
    text = told(result, observer, entries)
    assert "ann@example.com" not in text
    assert is_placeholder(result.step_results["a"].output)
    assert is_placeholder(result.step_results["b"].reasoning_content)
    assert result.final_state["person"]["name"] == "Ann"
    assert result.step_results["d"].output == "open"
    finished = next(each for each in entries if each.kind == "model_call_finished")
    assert is_placeholder(finished.data["response"].text)


def test_equal_values_look_alike_in_a_process_and_in_none_without_its_salt(monkeypatch: pytest.MonkeyPatch):
    one, other = Redactor(["k"]), Redactor(["k"])
    assert one.state({"k": "v"}) == other.state({"k": "v"}) != one.state({"k": "w"})
    assert Redactor(["k"], "a salt").state({"k": "v"}) == Redactor(["k"], "a salt").state({"k": "v"})
    assert Redactor(["k"], "a salt").state({"k": "v"}) != one.state({"k": "v"})
    import hashlib

    assert hashlib.sha256(b"v").hexdigest()[:16] not in str(one.state({"k": "v"}))


def test_a_placeholder_stays_as_it_is():
    redactor = Redactor(["k"])
    once = redactor.state({"k": "v"})
    assert redactor.state(once) == once


def test_redact_must_be_true_or_false():
    data = {"name": "t", "steps": [{"id": "a", "type": "say"}], "state_schema": {"k": {"redact": "yes"}}}
    with pytest.raises(DocumentError, match="state_schema: redact of 'k' must be true or false"):
        treadle.build_workflow(data, host=host())


async def test_a_childs_own_patterns_hold_in_what_the_parent_tells():
    class Parent(Step):
        async def run(self, ctx: StepContext) -> StepOutcome:
            child = {
                "name": "child",
                "state": {"pin": "1234-5678"},
                "state_schema": {"pin": {"redact": True}},
                "steps": [{"id": "inner", "type": "say", "value": "whole state", "output": "copy"}],
            }
            result = await ctx.run_child(child)
            assert result.final_state["pin"] == "1234-5678"
            return StepOutcome(value=dict(result.final_state))

    made = Host.of({"t": offering({"step_type": {"say": Say, "parent": Parent}})})
    data = {"name": "t", "steps": [{"id": "a", "type": "parent", "output": "child"}]}
    observer, journal = RecordingObserver(), MemoryJournal()
    async with treadle.open(host=made, journal=journal) as session:
        result = await session.run(treadle.build_workflow(data, host=made), observers=[observer])
    assert result.ok, result.error
    assert is_placeholder(result.final_state["child"]["pin"])
    entries = [each for each in journal.entries(result.run_id) if each.kind != "run_started"]
    assert "1234-5678" not in told(result, observer, entries)


async def test_nothing_is_walked_where_nothing_is_to_be_hidden(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("treadle.redaction._mapped", None)
    result, _, _ = await run([{"id": "a", "value": {"x": [1]}, "output": "x"}])
    assert result.ok


async def test_the_salt_is_read_by_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("A_SALT", "pepper")
    settings = Settings(redaction=RedactionSettings(keys=("k",), salt=SecretRef("env:A_SALT")))
    made = host(settings)
    flow = {"name": "t", "state": {"k": "v"}, "steps": [{"id": "a", "type": "say"}]}
    async with treadle.open(host=made) as session:
        result = await session.run(treadle.build_workflow(flow, host=made))
    assert result.final_state == Redactor(["k"], "pepper").state({"k": "v"})
