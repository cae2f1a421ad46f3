"""Reports batches to other tools as OpenLineage events with inputs, code and output."""
