"""What the plugin offers, and that saying so is cheap."""

import subprocess
import sys
import tomllib
from pathlib import Path

from pydantic import TypeAdapter

from treadle_replay import plugin

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_hooks_offer_what_pyproject_says() -> None:
    offered = {
        "provider": [*plugin.treadle_providers()],
        "recorder": [*plugin.treadle_recorders()],
        "config_field": [*plugin.treadle_config_fields()],
    }
    assert offered == PYPROJECT["tool"]["treadle"]["offers"]


def test_every_offer_can_be_loaded() -> None:
    from treadle_replay.provider import MockProvider
    from treadle_replay.recorder import FileRecorder

    assert plugin.treadle_providers()["mock"].load() is MockProvider
    assert plugin.treadle_recorders()["file"].load() is FileRecorder
    for name, offer in plugin.treadle_config_fields().items():
        assert offer.provider == "mock"
        assert TypeAdapter(offer.load()).json_schema()["description"], name


def test_the_plugin_module_imports_nothing_heavy() -> None:
    code = "import sys, treadle_replay.plugin; print(sorted({'pydantic', 'trio', 'structlog'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
