"""The trim policy ``my_trim_policy`` for Treadle."""
