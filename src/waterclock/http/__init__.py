"""Shared HTTP code: the client and JSON posts; for servers, checks of tokens and of the Host header."""
