"""What the plugin relies on in the SDK, and how light it stays without it."""

from __future__ import annotations

import openai

from treadle_openai import sdk


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
