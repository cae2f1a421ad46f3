"""Connectors read data from external systems and write data to them. Each implements protocols of `interface`."""
