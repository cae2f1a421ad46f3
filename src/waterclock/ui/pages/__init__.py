"""One module per page: each collects the page's content as data, which is rendered as HTML or returned as JSON."""
