"""Shared HTTP code: the client and JSON posts; for servers, checks of tokens and of the Host header.

`client` does not retry. `connectors.rest.client` retries requests to an API, and `posting.retry_delay` is the pause
before a message is sent again.
"""
