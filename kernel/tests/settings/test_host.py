"""What a host makes of settings: aliases, roles, names, and plugins that are never imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import treadle
from treadle import Host, NotInstalledError, Settings

MakeHost = Callable[..., Host]


@pytest.mark.parametrize(
    ("role", "field", "name", "other"),
    [
        ("trim_policy", "trim_policies", "drop_oldest", "acme_keep_last"),
        ("tool", "tools", "search", "acme_search"),
        ("tool", "tools", "not_installed", "acme_search"),
        ("step_type", "step_types", "llm_call", "ask"),
        ("provider", "providers", "openai", "fake"),
    ],
)
def test_an_alias_serves_for_every_role_that_workflows_name(
    make_host: MakeHost, role: Any, field: str, name: str, other: str
) -> None:
    host = make_host(aliases={field: {name: other}})
    assert host.get(role, name).name == other
    assert host.resolve(role, name) == other
    assert name in host.names(role)


def test_the_settings_have_an_alias_for_every_role_of_theirs() -> None:
    assert set(Settings().aliases.by_role()) == {"step_type", "provider", "tool", "trim_policy"}
    assert [f"{role}s" if role != "trim_policy" else "trim_policies" for role in Settings().aliases.by_role()] == list(
        type(Settings().aliases).model_fields
    )


def test_a_chain_of_aliases_ends_where_the_last_one_does(make_host: MakeHost) -> None:
    host = make_host(aliases={"tools": {"find": "search", "search": "acme_search"}})
    assert host.get("tool", "find").name == "acme_search"


def test_aliases_in_a_circle_are_refused(make_host: MakeHost) -> None:
    with pytest.raises(treadle.ConfigurationError) as caught:
        make_host(aliases={"tools": {"a": "b", "b": "c", "c": "b"}})
    assert str(caught.value) == "the aliases go round in a circle: a -> b -> c -> b"


def test_an_alias_may_stand_for_a_provider_of_the_settings_own(make_host: MakeHost) -> None:
    host = make_host(aliases={"providers": {"fake": "mine"}}, providers={"mine": {"kind": "fake"}})
    assert host.get("provider", "fake").name == "fake"
    assert host.resolve("provider", "fake") == "mine"


def test_a_role_is_served_by_the_chosen_one(make_host: MakeHost) -> None:
    assert make_host(roles={"sandbox": "cage"}).sole("sandbox", "x").name == "cage"
    with pytest.raises(NotInstalledError, match=r"^no sandbox 'boxx'; did you mean 'box'\?$"):
        make_host(roles={"sandbox": "boxx"}).sole("sandbox", "x")


def test_close_matches_know_the_settings_own_names(make_host: MakeHost) -> None:
    host = make_host(providers={"azure": {"kind": "fake"}}, aliases={"tools": {"lookup": "search"}})
    with pytest.raises(NotInstalledError, match=r"^no provider 'azur'; did you mean 'azure'\?$"):
        host.get("provider", "azur")
    with pytest.raises(NotInstalledError, match=r"^no tool 'lokup'; did you mean 'lookup'\?$"):
        host.get("tool", "lokup")


def test_settings_are_frozen_and_say_where_they_come_from(make_host: MakeHost) -> None:
    settings = make_host(provider="fake").settings
    assert settings.source is None
    assert settings.place_of("provider") is None
    with pytest.raises(ValueError, match="frozen"):
        settings.provider = "x"  # type: ignore[misc]
