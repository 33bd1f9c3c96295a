"""What model calls cost: prices of one's own, and those that genai-prices collects."""
