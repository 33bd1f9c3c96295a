"""Makes `doubles.py`, beside this file, importable as `engine_doubles`: test folders are no packages."""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("engine_doubles", Path(__file__).with_name("doubles.py"))
assert _spec is not None
assert _spec.loader is not None
sys.modules["engine_doubles"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["engine_doubles"])
