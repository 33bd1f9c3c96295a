"""What is suggested for a name that does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle import close_match
from treadle._suggest import similar_file


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("flow.yml", "flow.yaml"),
        ("flwo.yaml", "flow.yaml"),
        ("tols.py", "tools.py"),
        ("sbu/flow.yaml", None),
        ("agent/desk.yaml", "agents/desk.yaml"),
        ("nope.yaml", None),
        ("nothere.yaml", None),
    ],
)
def test_files_are_alike_by_what_stands_before_their_ending(
    named: str, meant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    for name in ("flow.yaml", "e.yaml", "treadle.yaml", "tools.py", "agents/desk.yaml"):
        (tmp_path / name).touch()
    assert similar_file(named) == meant


def test_where_other_names_are_as_good_a_match_must_be_closer() -> None:
    assert close_match("rate", ["state"]) == "state"
    assert close_match("rate", ["state"], alike=0.8) is None
    assert close_match("stats", ["state"], alike=0.8) == "state"
