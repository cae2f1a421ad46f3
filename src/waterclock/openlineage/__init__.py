"""Reports each batch to other tools by OpenLineage events with its inputs, its code and its output."""
