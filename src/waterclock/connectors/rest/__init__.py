"""The connection type `rest`: an API over HTTP, its records collected page by page, rows sent to it in chunks.

`declared` has the options. `asking` sends requests and tries again, with `tokens` (OAuth), `pace` (the rate) and
`answers` (what one means, Retry-After). Collecting: `collection` turns pages, `paging` says which is next, `pages`
keeps them on disk, `records` finds what they hold, `frames` makes a Spark frame of it. Sending: `delivery`, with rows
in `chunks`, and a `journal` of what was accepted.
"""

from __future__ import annotations
