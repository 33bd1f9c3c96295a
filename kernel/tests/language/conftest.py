"""Makes the tables beside this file importable, as `language_template_table` and so on: test folders are no packages.

The pages in docs/ are made of the same tables, by scripts/language_pages.py.
"""

import importlib.util
import sys
from pathlib import Path

for _name in ("template_table", "expression_table", "path_table"):
    _spec = importlib.util.spec_from_file_location(f"language_{_name}", Path(__file__).with_name(f"{_name}.py"))
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_spec.name])
