"""What the plugin relies on in the SDK, and how light it stays without it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import openai
import pytest

from treadle.contracts.offers import ProviderOffer
from treadle.errors import PluginError
from treadle.messages import ModelRequest
from treadle_openai import plugin, provider, sdk
from treadle_openai.provider import OpenAIProvider
from treadle_openai.settings import OpenAISettings


def test_every_public_exception_of_the_sdk_is_mapped() -> None:
    named = [getattr(openai, name) for name in openai.__all__]
    public = {value for value in named if isinstance(value, type) and issubclass(value, Exception)}
    assert len(public) > 15
    assert public - set(sdk.HANDLING) == set()
    assert set(sdk.HANDLING) - public == set()


def test_a_private_exception_of_the_sdk_is_mapped_by_its_base() -> None:
    class Unheard(openai.OpenAIError):
        pass

    assert sdk.HANDLING[next(kind for kind in Unheard.__mro__ if kind in sdk.HANDLING)] == "fault"


def test_the_offers_are_those_of_the_package() -> None:
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    declared = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["treadle"]["offers"]["provider"]
    offers = plugin.treadle_providers()
    assert list(offers) == declared
    assert all(isinstance(offer, ProviderOffer) for offer in offers.values())
    assert offers["openai"].load() is provider.OpenAIProvider
    assert offers["generic_openai"].load() is provider.GenericOpenAIProvider
    assert (offers["openai"].default_model, offers["openai"].is_default) == ("gpt-4o-mini", True)
    assert (offers["generic_openai"].default_model, offers["generic_openai"].is_default) == (None, False)


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import treadle_openai.plugin", ("openai", "httpx2", "pydantic", "trio", "treadle_openai.provider")),
        ("import treadle_openai.provider", ("openai", "httpx2", "trio")),
        (
            "from treadle_openai.provider import *; from treadle_openai.settings import *\n"  # noqa: ISC004
            "list(OpenAIProvider('openai', OpenAISettings()).check(REQUEST))",
            ("openai", "httpx2", "trio"),
        ),
    ],
    ids=["plugin", "provider", "checked"],
)
def test_nothing_heavy_is_imported_before_it_is_used(statement: str, absent: tuple[str, ...]) -> None:
    code = (
        "from treadle.messages import ModelRequest; REQUEST = ModelRequest(model='m', messages=())\n"
        if "REQUEST" in statement
        else ""
    ) + f"{statement}\nimport sys\nprint(*(name for name in {absent!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


async def test_an_sdk_that_cannot_be_imported_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setitem(sys.modules, "treadle_openai.sdk", None)
    async with OpenAIProvider("openai", OpenAISettings()) as opened:
        with pytest.raises(PluginError) as caught:
            async with opened.exchange(ModelRequest(model="m", messages=())):
                raise AssertionError("it has no SDK")
    assert str(caught.value).startswith("provider 'openai' cannot load the OpenAI SDK: ")
    assert str(caught.value).endswith("; pip install --upgrade treadle-openai")
