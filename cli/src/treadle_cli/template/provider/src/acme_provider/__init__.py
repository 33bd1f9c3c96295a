"""The provider ``my_provider`` for Treadle."""
