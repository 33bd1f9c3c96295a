"""What the plugin relies on in the SDK, and how light it stays without it."""

from __future__ import annotations

import anthropic

from treadle_anthropic import sdk


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
