"""Receives events over HTTP: written to a disk of this machine before the response, and collected by arrival time.

`endpoint` is the HTTP endpoint, `events` validates the events of a request, `writing` appends them to segments, each
request as one frame of bytes (`frames`). `spool` defines the file names in a stream's folder. At each run, `sealing`
converts closed segments to files, and `connector` collects these as the files connector does.
`cli/actions/receive` starts the endpoint.
"""
