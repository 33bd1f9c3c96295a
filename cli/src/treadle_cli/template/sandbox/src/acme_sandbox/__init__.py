"""The sandbox ``my_sandbox`` for Treadle."""
