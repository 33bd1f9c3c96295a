"""Which environment variables hold a deployment's keys: what a sandbox keeps from commands."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Host, Provider, ProviderOffer, ProviderSettings, SecretRef, Settings, hookimpl
from treadle._settings.providers import secret_variables


class Keyed(ProviderSettings):
    """Reads a key from a variable of its own, unless told otherwise."""

    key: SecretRef = SecretRef("env:ACME_KEY")
    other: SecretRef | None = None
    file: SecretRef = SecretRef("file:/acme/key")


class Acme(Provider):
    """Has settings with secrets."""

    settings_model = Keyed


class Plugin:
    @hookimpl
    def treadle_providers(self) -> Mapping[str, ProviderOffer]:
        return {"acme": ProviderOffer(Acme, "x"), "broken": ProviderOffer("no_such_module:It", "x")}


def test_they_are_those_of_installed_providers_and_of_the_settings() -> None:
    providers = {"mine": {"kind": "acme", "key": "env:MINE", "headers": {"a": ["env:DEEP"], "b": "text"}}}
    settings = Settings.model_validate({"providers": providers})
    host = Host.of({"acme": Plugin()}, settings=settings)
    assert secret_variables(host) == {"ACME_KEY", "MINE", "DEEP"}
