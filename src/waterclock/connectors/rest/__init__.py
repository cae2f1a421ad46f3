"""The connection type `rest`: collects the records of an HTTP API page by page, and sends rows to it in requests.

`declared` defines the options. `asking` sends requests and retries them, with `tokens` (OAuth), `pace` (the rate) and
`answers` (status, Retry-After, links). Collecting: `collection` requests page after page, `paging` computes the next
one, `pages` stores them on disk, `records` extracts their records, `frames` builds a Spark frame. Sending: `delivery`,
with rows in `chunks`, and a `journal` of accepted requests.
"""

from __future__ import annotations
