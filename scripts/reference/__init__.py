"""What the pages of the reference are made of."""
