"""Every mistake in ``treadle.yaml`` is told in one pass, where it stands, and no secret with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import treadle

Problems = Callable[..., list[str]]

EVERYTHING_WRONG = """\
plugins: {disabled: [labb], enabled: [lab, lap]}
provder: fake
provider: fakee
model: 5
model: x
providers:
  fake:
    api_key: sk-live-1
    timeout: sk-live-2
    bas_url: sk-live-3
  other: {kind: fak, base_url: http://x}
  mystery: {}
aliases:
  tools:
    search: acme_serch
    one: two
    two: one
  toolz: {}
roles: {sandbox: boxx, memory: notes}
sandbox: [network]
config:
  provider: fake
  max_concurrent_steps: 0
  strem: true
"""


def test_every_mistake_is_told_in_one_pass_in_the_order_of_the_file(problems: Problems) -> None:
    assert problems(EVERYTHING_WRONG) == [
        "1:22: warning: plugins.disabled.0: no plugin 'labb' is installed; did you mean 'lab'?",
        "1:44: warning: plugins.enabled.1: no plugin 'lap' is installed; did you mean 'lab'?",
        "2:1: provder: unknown field; did you mean 'provider'?",
        "3:11: provider: no provider 'fakee'; did you mean 'fake'?",
        "5:1: the key 'model' already stands on line 4; remove one of them",
        (
            "8:14: providers.fake.api_key: a secret is given by reference, as env:NAME or file:PATH, never as itself; "
            "more people and programs read this file than may know the secret"
        ),
        "9:14: providers.fake.timeout: must be a number, not what is there",
        "10:5: providers.fake.bas_url: unknown field; did you mean 'base_url'?",
        "11:17: providers.other.kind: no provider 'fak'; did you mean 'fake'?",
        "12:3: providers.mystery: no provider 'mystery'; add kind: with the provider that it is",
        "15:13: aliases.tools.search: no tool 'acme_serch'; did you mean 'acme_search'?",
        "16:10: aliases.tools.one: the aliases go round in a circle: one -> two -> one; take one of them out",
        "18:3: aliases.toolz: unknown field; did you mean 'tools'?",
        "19:18: roles.sandbox: no sandbox 'boxx'; did you mean 'box'?",
        "19:32: roles.memory: no memory 'notes'",
        "20:10: sandbox: must be a mapping, not a list",
        (
            "22:3: config.provider: a deployment sets it for itself, not as a default of workflows; "
            "write provider: at the top level"
        ),
        "23:25: config.max_concurrent_steps: must be at least 1, not 0",
        "24:3: config.strem: unknown field; did you mean 'stream'?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "roles: {sandbox: box}\nsandbox: {netwrk: false}",
            "2:11: sandbox.netwrk: unknown field; did you mean 'network'?",
        ),
        ("roles: {sandbox: box}\nsandbox: {network: 3}", "2:20: sandbox.network: must be true or false, not 3"),
        (
            "sandbox: {}",
            (
                "1:1: sandbox: sandbox: needs a sandbox, and several are installed: box, cage; choose one under "
                "roles.sandbox in treadle.yaml, or leave the others out with --without"
            ),
        ),
        (
            "config: {model: x}",
            (
                "1:10: config.model: a deployment sets it for itself, not as a default of workflows; "
                "write model: at the top level"
            ),
        ),
        (
            "config: {sandbox: {}}",
            (
                "1:10: config.sandbox: a deployment sets it for itself, not as a default of workflows; "
                "write sandbox: at the top level"
            ),
        ),
        ("config: {mode: [a]}", "1:16: config.mode: must be text, not a list"),
        (
            "roles: {tools: x}",
            "1:9: roles.tools: unknown field; there are budget, journal, memory, recorder, sandbox, token_counter",
        ),
        (
            "providers: {fake: {api_key: 123456}}",
            (
                "1:29: providers.fake.api_key: a secret is given by reference, as env:NAME or file:PATH, "
                "never as itself; more people and programs read this file than may know the secret"
            ),
        ),
        ("providers: {fake: {mode: {}}}", "1:26: providers.fake.mode: must be text, not what is there"),
        (
            "providers: {fake: fast}",
            (
                "1:19: providers.fake: must be a mapping, not 'fast'; it takes kind, models, priority, fallback, "
                "fallback_model, limits"
            ),
        ),
        (
            "providers: {mine: {kind: fake, timeout: 0}}",
            "1:41: providers.mine.timeout: must be more than 0, not what is there",
        ),
        ("plugins: [a]", "1:10: plugins: must be a mapping, not a list; it takes disabled, enabled"),
        ("plugins: {disabled: lab}", "1:21: plugins.disabled: must be a list, not 'lab'; write [lab]"),
        (
            "aliases: {tools: {search: search}}",
            ("1:27: aliases.tools.search: the aliases go round in a circle: search -> search; take one of them out"),
        ),
        ("aliases: {tools: search}", "1:18: aliases.tools: must be a mapping, not 'search'"),
        ("- provider: fake", "1:1: settings are a mapping, not a list"),
        ("just text", "1:1: settings are a mapping, not 'just text'"),
        (
            "limits: {}",
            (
                "1:1: limits: unknown field; there are aliases, config, journal, model, plugins, prices, provider, "
                "providers, redaction, roles, sandbox, tools"
            ),
        ),
        (
            "providers: {fake: {weight: 1}}",
            ("1:20: providers.fake.weight: unknown field; there are api_key, base_url, default_model, mode, timeout"),
        ),
        (
            "providers: {fake: {priority: soon}}",
            "1:30: providers.fake.priority: must be a whole number, not 'soon'",
        ),
        (
            "providers: {fake: {fallback: b}}",
            "1:30: providers.fake.fallback: must be true or false, not 'b'",
        ),
        (
            "providers: {fake: {models: m}}",
            "1:28: providers.fake.models: must be a list, not 'm'; write [m]",
        ),
        (
            "providers: {fake: {fallback_model: m}}",
            "1:19: providers.fake: fallback_model is used with fallback: true only",
        ),
    ],
)
def test_a_mistake_and_where_it_stands(problems: Problems, text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_no_part_of_a_key_in_the_wrong_place_is_repeated(problems: Problems) -> None:
    """Under the entry of a provider any value may be a key."""
    told = "\n".join(problems(EVERYTHING_WRONG))
    assert "sk-live" not in told


@pytest.mark.parametrize("text", ["", "# provider: fake\n", "---\n", "{}", "null"])
def test_a_file_without_settings_is_one(problems: Problems, text: str) -> None:
    assert problems(text) == []
    assert treadle.deployed_host("treadle.yaml").settings.model_dump() == treadle.Settings().model_dump()


def test_the_reader_is_that_of_workflows(problems: Problems) -> None:
    """A byte order mark, CRLF, words that are no booleans, and what is not YAML."""
    assert problems(b"\xef\xbb\xbfprovider: fake\r\nmodel: yes\r\nprovidr: no\r\n") == [
        "3:1: providr: unknown field; did you mean 'provider'?"
    ]
    (problem,) = problems("provider: [fake")
    assert problem.startswith("1:16: not valid YAML")
    assert problems(b"provider: \xff") == ["1:11: byte 0xff is not UTF-8; save it as UTF-8"]


def test_form_alone_is_checked_without_plugins(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("provider: nowhere\nproviders: {nowhere: {kind: [x]}}\n", encoding="utf-8")
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.load_settings(file)
    assert str(caught.value) == f"{file}:2:29: providers.nowhere.kind: must be text, not a list"
    file.write_text("provider: nowhere\n", encoding="utf-8")
    assert treadle.load_settings(file).provider == "nowhere"


def test_a_named_file_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: None) -> None:
    (tmp_path / "treadle.yaml").touch()
    for name in ("tredle.yaml", str(tmp_path / "tredle.yaml")):
        with pytest.raises(treadle.DocumentError) as caught:
            treadle.deployed_host(name)
        near = str(Path(name).with_name("treadle.yaml"))
        assert str(caught.value) == f"{name}: no such file; did you mean '{near}'?"
    monkeypatch.setenv("TREADLE_CONFIG", "tredle.yaml")
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.load_settings()
    assert str(caught.value) == "tredle.yaml: TREADLE_CONFIG: no such file; did you mean 'treadle.yaml'?"


KEY = "sk-live-51Habcdefghij0123456789"


@pytest.mark.parametrize(
    "text",
    [
        "provider: {key}",
        "providers: {{fake: {key}}}",
        "providers: {{fake: {{kind: {key}}}}}",
        "providers: {{fake: {{priority: {key}}}}}",
        "providers: {{fake: {{limits: {key}}}}}",
        "providers: {{fake: {{{key}: 1}}}}",
        "providers: {{{key}: {{}}}}",
        "providers: {{{key}: 1, {key}: 2}}",
        "providers: {key}",
        "plugins: {{disabled: [{key}]}}",
        "plugins: {key}",
        "aliases: {{tools: {{search: {key}}}}}",
        "roles: {{memory: {key}}}",
        "redaction: {{salt: {key}}}",
        "redaction: {key}",
        "prices: {key}",
        "tools: [{key}]",
        "tools: {key}",
        "sandbox: {key}",
        "config: {{max_retries: {key}}}",
        "config: {{{key}: 1}}",
        "{key}: 1",
        "- {key}",
    ],
)
@pytest.mark.parametrize("key", [KEY, "0123456789abcdef0123456789abcdef"])
def test_a_key_in_the_wrong_place_is_not_repeated(problems: Problems, text: str, key: str) -> None:
    found = problems(text.format(key=key))
    assert found
    assert not [each for each in found if key[:12] in each]
