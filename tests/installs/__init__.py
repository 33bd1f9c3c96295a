"""What the tests of installed packages share: wheels of everything, and environments to install them into."""
