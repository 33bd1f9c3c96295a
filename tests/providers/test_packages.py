"""What a deployment may set of every provider, what its package offers, and how light it stays before it is used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, get_type_hints

import pytest
from pydantic import ValidationError

from providers.vendors import EVERY, VENDORS, Vendor, ask
from treadle.contracts.offers import ProviderOffer
from treadle.contracts.provider import FromEnv
from treadle.contracts.secrets import SecretRef
from treadle.errors import PluginError, UnsupportedError
from treadle.messages import EmbedRequest

OFFERED = [each for each in VENDORS.values() if each.name == each.provider]
ONCE = pytest.mark.parametrize("vendor", OFFERED, ids=str)
DEFAULT_MODELS = {
    "openai": "gpt-4o-mini",
    "generic_openai": None,
    "anthropic": "claude-sonnet-4-5",
    "google": "gemini-2.5-flash",
    "ollama": None,
}
SDKS = {"openai": "openai", "generic_openai": "openai", "anthropic": "anthropic", "google": "google.genai"}
FURTHER_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "openai": {"organization": "OPENAI_ORG_ID", "project": "OPENAI_PROJECT_ID", "api": "OPENAI_API"}
}


def package(vendor: Vendor) -> str:
    return vendor.settings.__module__.partition(".")[0]


@ONCE
def test_what_is_offered(vendor: Vendor) -> None:
    offer = import_module(f"{package(vendor)}.plugin").treadle_providers()[vendor.provider]
    assert isinstance(offer, ProviderOffer)
    assert offer.load() is vendor.kind
    assert (offer.default_model, offer.is_default) == (DEFAULT_MODELS[vendor.name], vendor.name == "openai")


@pytest.mark.parametrize("what", ["plugin", "provider", "checked"])
@ONCE
def test_nothing_heavy_is_imported_before_it_is_used(vendor: Vendor, what: str) -> None:
    name, kind, settings = package(vendor), vendor.kind.__name__, vendor.settings.__name__
    absent = [SDKS.get(vendor.name), "httpx2", "trio", *(["jsonschema"] if vendor.name == "anthropic" else ())]
    statement = {
        "plugin": f"import {name}.plugin",
        "provider": f"import {name}.provider",
        "checked": f"""
from treadle.messages import ModelRequest
from {name}.provider import {kind}
from {name}.settings import {settings}
list({kind}({vendor.provider!r}, {settings}(base_url="http://x")).check(ModelRequest(model="m", messages=())))""",
    }[what]
    if what == "plugin":
        absent += ["pydantic", f"{name}.provider"]
    code = f"{statement}\nimport sys\nprint(*(name for name in {absent!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("vendor", [each for each in VENDORS.values() if each.name in SDKS], ids=str)
async def test_an_sdk_that_cannot_be_imported_is_told_with_its_remedy(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = package(vendor)
    monkeypatch.setitem(sys.modules, f"{plugin}.sdk", None)
    sdk = {"treadle_openai": "OpenAI"}.get(plugin, vendor.provider.title())
    async with vendor.build("http://127.0.0.1:9") as opened:
        with pytest.raises(PluginError) as caught:
            async with opened.exchange(ask(vendor)):
                raise AssertionError("it has no SDK")
    assert str(caught.value).startswith(f"provider '{vendor.provider}' cannot load the {sdk} SDK: ")
    assert str(caught.value).endswith(f"; pip install --upgrade {plugin.replace('_', '-')}")


@EVERY
async def test_there_are_embeddings_or_it_says_so(vendor: Vendor) -> None:
    async with vendor.build("http://127.0.0.1:9") as opened:
        assert opened.features.embeddings is (vendor.vectors is not None)
        if vendor.vectors is None:
            with pytest.raises(UnsupportedError, match=f"provider '{vendor.provider}' has no embeddings"):
                await opened.embed(EmbedRequest(model="m", inputs=("x",)))


# --- settings ---------------------------------------------------------------------------------------

NO_ADDRESS = "a base URL begins with http:// or https:// and a host"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        *(({"base_url": url}, NO_ADDRESS) for url in ("localhost:8000", "ftp://example.com", "https://", "", "a.b/v1")),
        ({"headers": {"X-A": "one\ntwo"}}, "the value of header 'X-A' holds characters that a header cannot carry"),
        ({"headers": {"X-A": "é"}}, "the value of header 'X-A' holds characters that a header cannot carry"),
        ({"headers": {"X A": "x"}}, "'X A' is not the name of an HTTP header"),
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": "soon"}, "a valid number"),
        ({"unheard": 1}, "Extra inputs are not permitted"),
        ({"api_key": "key-as-itself"}, "a secret is given by reference"),
    ],
)
@ONCE
def test_mistakes_are_refused_and_a_key_given_as_itself_is_not_repeated(
    vendor: Vendor, wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        vendor.settings(**wrong)
    assert says in str(caught.value)
    assert "key-as-itself" not in str(caught.value)


@ONCE
def test_the_environment_that_the_kernel_reads_for_it_is_declared(vendor: Vendor) -> None:
    hints = get_type_hints(vendor.settings, include_extras=True)
    marks = {
        name: mark.variable
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, FromEnv)
    }
    assert marks == {"base_url": f"{vendor.provider.upper()}_BASE_URL", **FURTHER_VARIABLES.get(vendor.name, {})}
    assert vendor.settings().api_key == SecretRef(f"env:{vendor.key}")  # type: ignore[attr-defined]
