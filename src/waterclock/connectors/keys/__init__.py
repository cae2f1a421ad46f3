"""The connection type `keys`: secrets from which the keys of `hash_keyed` and its like are derived."""
