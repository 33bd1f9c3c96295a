"""What the plugin relies on in the SDK, and how light it stays without it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import anthropic
import pytest

from treadle.contracts.offers import ProviderOffer
from treadle.errors import PluginError, UnsupportedError
from treadle.messages import EmbedRequest, ModelRequest
from treadle_anthropic import plugin, provider, sdk
from treadle_anthropic.provider import AnthropicProvider
from treadle_anthropic.settings import AnthropicSettings


def public_exceptions() -> set[type[Exception]]:
    named = [getattr(anthropic, name) for name in anthropic.__all__]
    return {value for value in named if isinstance(value, type) and issubclass(value, Exception)}


def test_every_public_exception_of_the_sdk_is_mapped() -> None:
    """By its own line, or as one of the many classes for one status each."""
    found = public_exceptions()
    assert len(found) > 20
    unmapped = {kind for kind in found - set(sdk.HANDLING) if not issubclass(kind, anthropic.APIStatusError)}
    assert unmapped == set()
    assert set(sdk.HANDLING) - found == set()


def test_every_class_for_a_status_is_handled_by_its_status() -> None:
    statuses = {kind for kind in public_exceptions() if issubclass(kind, anthropic.APIStatusError)}
    assert {sdk.handling_of(kind) for kind in statuses} == {"status"}


def test_a_private_exception_of_the_sdk_is_mapped_by_its_base() -> None:
    class Unheard(anthropic.AnthropicError):
        pass

    assert sdk.handling_of(Unheard) == "fault"
    assert sdk.handling_of(OSError) == "transport"


def test_the_offer_is_that_of_the_package() -> None:
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    declared = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["treadle"]["offers"]["provider"]
    offers = plugin.treadle_providers()
    assert list(offers) == declared
    assert all(isinstance(offer, ProviderOffer) for offer in offers.values())
    assert offers["anthropic"].load() is provider.AnthropicProvider
    assert (offers["anthropic"].default_model, offers["anthropic"].is_default) == ("claude-sonnet-4-5", False)


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import treadle_anthropic.plugin", ("anthropic", "httpx2", "pydantic", "trio", "treadle_anthropic.provider")),
        ("import treadle_anthropic.provider", ("anthropic", "httpx2", "trio", "jsonschema")),
        (
            "from treadle_anthropic.provider import *; from treadle_anthropic.settings import *\n"  # noqa: ISC004
            "list(AnthropicProvider('anthropic', AnthropicSettings()).check(REQUEST))",
            ("anthropic", "httpx2", "trio", "jsonschema"),
        ),
    ],
    ids=["plugin", "provider", "checked"],
)
def test_nothing_heavy_is_imported_before_it_is_used(statement: str, absent: tuple[str, ...]) -> None:
    code = (
        "from treadle.messages import ModelRequest; REQUEST = ModelRequest(model='claude-x', messages=())\n"
        if "REQUEST" in statement
        else ""
    ) + f"{statement}\nimport sys\nprint(*(name for name in {absent!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


async def test_an_sdk_that_cannot_be_imported_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
    monkeypatch.setitem(sys.modules, "treadle_anthropic.sdk", None)
    async with AnthropicProvider("anthropic", AnthropicSettings()) as opened:
        with pytest.raises(PluginError) as caught:
            async with opened.exchange(ModelRequest(model="claude-x", messages=())):
                raise AssertionError("it has no SDK")
    assert str(caught.value).startswith("provider 'anthropic' cannot load the Anthropic SDK: ")
    assert str(caught.value).endswith("; pip install --upgrade treadle-anthropic")


async def test_there_are_no_embeddings() -> None:
    async with AnthropicProvider("anthropic", AnthropicSettings()) as opened:
        with pytest.raises(UnsupportedError, match="provider 'anthropic' has no embeddings"):
            await opened.embed(EmbedRequest(model="claude-x", inputs=("x",)))
    assert not AnthropicProvider.features.embeddings
