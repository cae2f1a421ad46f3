"""Shared parts of HTTP: the client and what it posts; for servers, checks of tokens and of the Host header."""
