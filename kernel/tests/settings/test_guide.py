"""``docs/settings.md`` says what there is: its table is the model's, and its examples are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import treadle
from treadle import Settings
from treadle._document.reading import read
from treadle.contracts.settings import ProviderEntry

GUIDE = Path(__file__).parents[3] / "docs" / "settings.md"
TEXT = GUIDE.read_text(encoding="utf-8")
EXAMPLE, CANDIDATES, *OTHERS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
OWN_TOOLS, PROGRAM = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key with its description; blocks by their own keys."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys_of(field.annotation, f"{prefix}{name}.")
        elif name == "providers" and not prefix:
            yield from keys_of(ProviderEntry, "providers.NAME.")
        else:
            yield f"{prefix}{name}", field.description or ""


def test_the_table_is_the_models() -> None:
    assert re.findall(r"^\| `(.+?)` \| (.+?) \|$", TEXT, re.MULTILINE) == list(keys_of(Settings))


def test_every_block_is_described_too() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_the_example_is_read(tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").write_text(EXAMPLE, encoding="utf-8")
    settings = treadle.load_settings()
    assert settings.model_dump(exclude_unset=True).keys() == Settings.model_fields.keys()
    assert settings.place_of("providers", "ours", "api_key") == "treadle.yaml:14:14"


def test_the_example_of_candidates_is_read(tmp_path: Path) -> None:
    (tmp_path / "treadle.yaml").write_text(CANDIDATES, encoding="utf-8")
    entries = treadle.load_settings().providers
    assert {
        name: (each.models, each.priority, each.fallback, each.fallback_model) for name, each in entries.items()
    } == {
        "openai": ((), None, False, None),
        "azure": (("gpt-4o", "gpt-4o-mini"), 1, False, None),
        "second": ((), 2, False, None),
        "spare": ((), None, True, "qwen3-8b"),
    }


@pytest.mark.parametrize("text", [each for each in OTHERS if "state_schema" not in each])
def test_the_other_examples_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "treadle.yaml").write_text(text, encoding="utf-8")
    assert treadle.load_settings() != Settings()


def test_the_example_of_tools_is_one(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(OWN_TOOLS, encoding="utf-8")
    assert treadle.Host.of({}, settings=Settings(tools=(str(tmp_path / "tools.py"),))).names("tool") == ["shout"]


def _keys(marks: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], tuple[int, int]]]:
    for key, place in getattr(marks, "keys", {}).items():
        yield (*path, key), (place[0], place[1])
        yield from _keys(marks.children[key], (*path, key))


# The keys of these are names that a deployment gives, or are the plugins' own to judge.
OPEN = {
    ("providers",),
    ("sandbox",),
    ("aliases", "trim_policies"),
    ("aliases", "tools"),
    ("config",),
    ("prices",),
    ("journal",),
}
KEYS = [
    (path, place)
    for path, place in _keys(read(EXAMPLE, "x")[1])
    if not any(path[:size] in OPEN for size in range(1, len(path))) or path[-1] == "kind"
]


@pytest.mark.parametrize(("path", "place"), [each for each in KEYS if each[0][0] != "providers"])
def test_a_misspelt_key_is_told_where_it_stands(tmp_path: Path, path: tuple[str, ...], place: tuple[int, int]) -> None:
    lines = EXAMPLE.splitlines()
    line, column = place
    key = path[-1]
    misspelt = key[0] + key[2] + key[1] + key[3:] if key[1] != key[2] else f"{key}x"
    lines[line - 1] = lines[line - 1][: column - 1] + lines[line - 1][column - 1 :].replace(key, misspelt, 1)
    (tmp_path / "treadle.yaml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(treadle.DocumentError) as caught:
        treadle.load_settings()
    dotted = ".".join((*path[:-1], misspelt))
    assert str(caught.value) == f"treadle.yaml:{line}:{column}: {dotted}: unknown field; did you mean '{key}'?"


def test_the_program_of_the_guide_runs(installed: None, tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "treadle.yaml").write_text("provider: fake\n", encoding="utf-8")
    (tmp_path / "flow.yaml").write_text("name: x\nsteps: [{id: a, type: limits}]\n", encoding="utf-8")
    names: dict[str, Any] = {}
    exec(PROGRAM, names)  # noqa: S102 - the guide's own program
    assert names["bare"].settings.provider is None
    assert names["named"].settings.provider == "fake"
    assert names["workflow"].config.max_retries == 0
