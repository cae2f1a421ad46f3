"""The inputs of a batch: pinned states as frames, and the joins of FLAT."""
