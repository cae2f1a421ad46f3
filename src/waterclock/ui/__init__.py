"""The project in a browser: pages with the results of `operations`, each also available as JSON."""
