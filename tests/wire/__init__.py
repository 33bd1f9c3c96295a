"""Servers on the loopback that speak vendors' wire protocols, for tests with the real SDKs."""
