"""Reports each batch to other tools as OpenLineage events: its inputs, its code and its output."""
