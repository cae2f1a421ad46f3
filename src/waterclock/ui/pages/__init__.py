"""One module a page: each finds out what its page tells, as data that is drawn as HTML or given as JSON."""
