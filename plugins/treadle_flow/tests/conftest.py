"""Makes `flow_world.py`, beside this file, importable: test folders are no packages."""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("flow_world", Path(__file__).with_name("flow_world.py"))
assert _spec is not None
assert _spec.loader is not None
sys.modules["flow_world"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["flow_world"])
