"""Labels, windows, cadences and interval sets. Nothing here reads the current time (docs/explain/time.md)."""
