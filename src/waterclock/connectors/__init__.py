"""The connectors: systems that data is collected from and delivered to, each behind the protocols of `interface`."""
