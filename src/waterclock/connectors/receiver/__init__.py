"""Events that come over HTTP: kept on a disk of this machine before they are answered, and collected by arrival.

`door` answers requests, `events` says what is let in, `writing` puts it into segments, each request a frame of bytes
(`frames`). `spool` names what lies in a stream's folder. When a run asks, `sealing` makes files of closed segments, and
`connector` collects these as the connector of files does. `cli/actions/receive` starts it all.
"""

from __future__ import annotations
