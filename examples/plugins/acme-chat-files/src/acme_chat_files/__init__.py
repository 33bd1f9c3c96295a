"""A memory of conversations for Treadle: one JSON file for each."""
