"""What treadle-policies offers."""
