"""The connection type `rest`: collects the records of an HTTP API page by page, and sends rows to an API.

`option_definitions` defines the options. `client` sends requests and retries them, with `tokens` (OAuth),
`rate_limit` and `response_headers` (time, Retry-After, links).

Collecting: `collection` requests page after page, `paging` computes the next one, `page_store` stores them on disk,
`records` extracts their records, and `frames` builds a Spark frame. FOR EACH row of a table: `for_each`, and its
stored responses, `response_store`. `page_erasure` removes records of erased persons from stored pages.

Sending: `delivery`, with rows in `delivery_chunks`, and a `journal` of accepted requests.
"""
