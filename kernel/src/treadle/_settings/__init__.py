"""Settings: which ``treadle.yaml`` counts, and in which order values win."""
