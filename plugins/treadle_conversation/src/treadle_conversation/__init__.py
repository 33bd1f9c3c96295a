"""Conversations that several steps go on with, the policies that make room in them, and an estimate of tokens."""
