"""What treadle-prices offers."""
