"""The weather of an almanac, for Treadle."""
