"""What a model takes, told by its name."""

from __future__ import annotations

import pytest

from treadle_anthropic.models import traits_of


@pytest.mark.parametrize(
    ("model", "budget", "sampling", "display", "formats", "force"),
    [
        ("claude-3-5-haiku-latest", True, True, False, False, True),
        ("claude-3-7-sonnet-20250219", True, True, False, False, True),
        ("claude-sonnet-4-20250514", True, True, False, False, True),
        ("claude-opus-4-1-20250805", True, True, False, False, True),
        ("claude-sonnet-4-5", True, True, False, True, True),
        ("claude-haiku-4-5-20251001", True, True, False, True, True),
        ("anthropic/claude-sonnet-4.6", True, True, True, True, True),
        ("claude-opus-4-7", False, False, True, True, True),
        ("claude-sonnet-5", False, False, True, True, True),
        ("claude-opus-5-5", False, False, True, True, False),
        ("claude-fable-5", False, False, True, False, True),
        ("claude-fable-5-1", False, False, True, False, False),
        ("claude-mythos-preview", False, False, True, False, False),
        ("claude-something-new", False, False, True, True, False),
    ],
)
def test_claude_models_by_family_and_version(
    model: str, budget: bool, sampling: bool, display: bool, formats: bool, force: bool
) -> None:
    found = traits_of(model)
    assert found.is_claude
    assert (found.takes_budget, found.takes_sampling, found.takes_display) == (budget, sampling, display)
    assert (found.takes_formats, found.takes_force) == (formats, force)


def test_another_vendors_model_behind_the_same_api_gets_what_the_oldest_takes() -> None:
    found = traits_of("MiniMax-M2")
    assert not found.is_claude
    assert (found.takes_budget, found.takes_sampling, found.takes_force) == (True, True, True)
    assert (found.takes_display, found.takes_formats) == (False, False)
