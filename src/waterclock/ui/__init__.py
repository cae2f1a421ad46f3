"""Serves the web pages of a project: the results of `operations`, as HTML and as JSON."""
