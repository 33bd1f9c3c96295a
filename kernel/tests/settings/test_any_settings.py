"""Whatever stands in a settings file, what comes of it is settings or our own error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treadle
from treadle import Host, Settings
from treadle._document import deployment

KEYS = st.sampled_from(
    [*Settings.model_fields, "disabled", "enabled", "kind", "fake", "mine", "api_key", "base_url", "timeout", "tools",
     "trim_policies", "providers", "box", "network", "max_retries", "mode", "x"]
)  # fmt: skip
WORDS = st.sampled_from(["fake", "mine", "box", "search", "acme_search", "env:X", "kept", "x", "", "{", "lab"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_data_is_settings_or_problems(installed: None, tmp_path: Path, data: Any) -> None:
    file = tmp_path / "treadle.yaml"
    file.write_text(json.dumps(data), encoding="utf-8")
    problems: Sequence[treadle.Problem] = ()
    try:
        assert isinstance(deployment.deployed_host(file, check_providers=True), Host)
    except treadle.DocumentError as error:
        problems = error.problems or [treadle.Problem(message="an error without a problem", code="none")]
    assert [each for each in problems if not (each.file == str(file) and each.line and each.column)] == []
