"""The step ``my_step`` for Treadle."""
