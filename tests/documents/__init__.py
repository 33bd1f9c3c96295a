"""What the tests of pages share."""
