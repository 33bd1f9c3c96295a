"""The tool ``my_tool`` for Treadle."""
