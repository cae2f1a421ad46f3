"""Receives events over HTTP, writes them to a local disk before it responds, and collects them by arrival time.

`endpoint` is the HTTP endpoint, `events` validates the events of a request, `segment_writing` appends them to
segments, each request as one frame of bytes (`frames`). `segment_names` defines the file names in a stream's
folder. At each run, `segment_sealing` converts closed segments to files, and `connector` collects these as the
files connector does. `cli/actions/receive` starts the endpoint.
"""
