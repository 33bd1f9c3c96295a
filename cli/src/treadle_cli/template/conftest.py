"""Lets the tests of the template run as they stand. It is not copied into new plugins."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(path) for path in sorted(Path(__file__).parent.glob("*/src"))]
