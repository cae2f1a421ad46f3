"""Labels, windows, cadences and interval sets; pure, it never reads the current time (docs/explain/time.md)."""
