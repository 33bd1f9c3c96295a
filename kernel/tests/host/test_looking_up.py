"""Asking a host for something: what serves, and what is said where nothing does."""

from typing import Any

import pytest

from treadle._plugins import Catalogue, Host, Registry
from treadle._plugins.registry import ROLES, Registered
from treadle.contracts.offers import LayerOffer, Offer, ProviderOffer
from treadle.errors import NotInstalledError, PluginError
from treadle.hookspecs import hookimpl

CATALOGUE = {
    "step_type": {"approval_gate": "treadle-approval", "acme_step": "Acme.Treadle"},
    "sandbox": {"default": "treadle-sandbox"},
}
GOOD = """
    from treadle import Offer, hookimpl

    @hookimpl
    def treadle_step_types():
        return {"acme_step": Offer("acme_treadle_step:Step", "a step")}
"""


def test_what_is_not_installed_is_named_with_its_package(site: Any) -> None:
    site.catalogue(CATALOGUE)
    assert site.refusal("step_type", "approval_gate") == (
        "NotInstalledError: step type 'approval_gate' is not installed; pip install treadle-approval"
    )
    assert site.refusal("step_type", "aproval_gate") == (
        "NotInstalledError: no step type 'aproval_gate'; did you mean 'approval_gate' (treadle-approval)?"
    )
    assert site.refusal("step_type", "zzz") == "NotInstalledError: no step type 'zzz'"


def test_a_close_match_says_whose_it_is(site: Any) -> None:
    site.plugin("acme", GOOD)
    assert site.refusal("step_type", "acme_stp") == (
        "NotInstalledError: no step type 'acme_stp'; did you mean 'acme_step' (acme-treadle 0.9)?"
    )
    assert site.refusal("step_type", "zzz") == "NotInstalledError: no step type 'zzz'; there is acme_step"


def test_a_broken_plugin_behind_a_needed_thing_is_named(site: Any) -> None:
    site.catalogue(CATALOGUE)
    site.plugin("acme", "import no_such_module")
    assert site.refusal("step_type", "acme_step") == (
        "NotInstalledError: step type 'acme_step' is not available: plugin 'acme' (acme-treadle 0.9) could not be "
        "loaded from acme_treadle: ModuleNotFoundError: No module named 'no_such_module' (acme_treadle.py:1); "
        "disable it with --without acme, or upgrade it"
    )


def test_a_disabled_plugin_behind_a_needed_thing_is_named(site: Any) -> None:
    site.catalogue(CATALOGUE)
    site.plugin("acme", GOOD)
    assert site.refusal("step_type", "acme_step", without=["acme"]) == (
        "NotInstalledError: step type 'acme_step' is not available: plugin 'acme' (acme-treadle 0.9) is disabled; "
        "leave out --without acme"
    )
    assert site.refusal("step_type", "zzz", without=["acme"]) == (
        "NotInstalledError: no step type 'zzz'; it may be offered by plugin 'acme' (acme-treadle 0.9), which is "
        "disabled: leave out --without acme"
    )


@pytest.mark.parametrize(
    ("module", "cause"),
    [
        (None, "ModuleNotFoundError: No module named 'acme_treadle_step'"),
        ("x = 1", "AttributeError: module 'acme_treadle_step' has no attribute 'Step'"),
        ("raise SystemExit(2)", "SystemExit: 2 (acme_treadle_step.py:1)"),
        ("assert False", "AssertionError (acme_treadle_step.py:1)"),
    ],
)
def test_an_offer_that_does_not_load_names_everything(site: Any, module: str | None, cause: str) -> None:
    site.plugin("acme", GOOD)
    if module is not None:
        site.module("acme_treadle_step", module)
    assert site.refusal("step_type", "acme_step") == (
        "PluginError: step type 'acme_step' of plugin 'acme' (acme-treadle 0.9) could not be loaded from "
        f"acme_treadle_step:Step: {cause}; disable it with --without acme, or upgrade it"
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"step_type": []}', '{"step_type": {"x": {}}}', '{"step_type": {"x": 1}}']
)
def test_a_catalogue_that_cannot_be_read_counts_as_absent(site: Any, text: str) -> None:
    site.catalogue(text)
    assert site.refusal("step_type", "approval_gate") == "NotInstalledError: no step type 'approval_gate'"


def test_a_catalogue_of_a_package_that_is_gone_counts_as_absent(site: Any) -> None:
    site.distribution("treadle-shop", {"shop": "no_such_package"}, group="treadle.catalogues")
    assert site.refusal("step_type", "approval_gate") == "NotInstalledError: no step type 'approval_gate'"


# --- hosts made by hand ---------------------------------------------------------------------------


class Acme:
    @hookimpl
    def treadle_sandboxes(self) -> dict[str, Offer]:
        return {"box": Offer(dict, "a sandbox")}

    @hookimpl
    def treadle_provider_layers(self) -> dict[str, LayerOffer]:
        return {"outer": LayerOffer(dict, "a layer", scope="call", order=-5)}

    @hookimpl
    def treadle_providers(self) -> dict[str, ProviderOffer]:
        return {"b": ProviderOffer(dict, "a provider"), "a": ProviderOffer(dict, "a provider", is_default=True)}


class Other:
    @hookimpl
    def treadle_sandboxes(self) -> dict[str, Offer]:
        return {"cage": Offer(list, "another")}


def test_offers_are_kept_as_they_are_in_the_order_of_their_names() -> None:
    host = Host.of({"acme": Acme()})
    assert list(host.registry.all("provider")) == host.registry.names("provider") == ["a", "b"]
    assert host.get("provider", "a").offer == ProviderOffer(dict, "a provider", is_default=True)
    assert host.get("provider_layer", "outer").offer == LayerOffer(dict, "a layer", scope="call", order=-5)
    assert host.load("provider", "b") is dict
    assert list(host.problems()) == []


def test_the_sole_one_of_a_role() -> None:
    assert Host.of({"acme": Acme()}).sole("sandbox", "tool 'x'").name == "box"
    both = Host.of({"acme": Acme(), "other": Other()})
    with pytest.raises(NotInstalledError) as several:
        both.sole("sandbox", "tool 'x'")
    assert str(several.value) == (
        "tool 'x' needs a sandbox, and several are installed: box, cage; "
        "choose one under roles.sandbox in treadle.yaml, or leave the others out with --without"
    )
    none = Host.of({})
    with pytest.raises(NotInstalledError) as missing:
        none.sole("token_counter", "tool 'x'")
    assert str(missing.value) == "tool 'x' needs a token counter, and none is installed"
    none.catalogue = Catalogue({"token_counter": {"tiktoken": "treadle-tiktoken"}})
    with pytest.raises(NotInstalledError, match=r"none is installed; pip install treadle-tiktoken$"):
        none.sole("token_counter", "tool 'x'")


def test_a_host_by_hand_raises_what_is_wrong_at_once() -> None:
    class Wrong:
        @hookimpl
        def treadle_tools(self) -> int:
            return 3

    with pytest.raises(PluginError) as caught:
        Host.of({"wrong": Wrong()})
    assert str(caught.value) == (
        "plugin 'wrong' could not be loaded from Wrong: treadle_tools must return a mapping of offers, not int"
    )


def test_messages_about_a_host_by_hand_name_no_distribution() -> None:
    host = Host.of({"acme": Acme()})
    with pytest.raises(NotInstalledError) as caught:
        host.get("sandbox", "bx")
    assert str(caught.value) == "no sandbox 'bx'; did you mean 'box'?"


def test_every_role_is_empty_at_first() -> None:
    registry = Registry()
    assert all(registry.names(role) == [] and registry.get(role, "x") is None for role in ROLES)
    registry.add(Registered("tool", "x", Offer(dict, ""), "acme"))
    assert registry.names("tool") == ["x"]
    assert registry.names("sandbox") == []


@pytest.mark.parametrize("target", ["", "a", "a.b", ":x", "a:", "a b:c", "a:b:c"])
def test_a_target_is_module_and_attribute(target: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form package\.module:attribute"):
        Offer(target, "x")


def test_a_target_may_be_nested_or_the_object_itself() -> None:
    assert Offer("os:path.join", "x").load().__name__ == "join"
    marker = object
    assert Offer(marker, "x").load() is marker


def test_a_plugin_that_nobody_knows_and_that_is_broken_may_offer_what_is_like_another_name(site: Any) -> None:
    site.plugin("acme", GOOD)
    site.plugin("vote", "import no_such_module")
    assert site.refusal("step_type", "acme_stop") == (
        "NotInstalledError: no step type 'acme_stop'; it may be offered by plugin 'vote' (vote-treadle 0.9), which is "
        "broken: ModuleNotFoundError: No module named 'no_such_module' (vote_treadle.py:1); or did you mean "
        "'acme_step'?"
    )


def test_a_broken_plugin_of_which_it_is_known_what_it_offers_is_no_reason_to_doubt_a_name(site: Any) -> None:
    site.catalogue({"step_type": {"vote": "vote-treadle"}})
    site.plugin("acme", GOOD)
    site.plugin("vote", "import no_such_module")
    assert site.refusal("step_type", "acme_stop") == (
        "NotInstalledError: no step type 'acme_stop'; did you mean 'acme_step' (acme-treadle 0.9)?"
    )
