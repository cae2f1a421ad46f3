"""The connection type `kafka`: topics of a cluster, collected by offsets and published in transactions.

The engine calls `connector`; `cluster` connects. Collecting: `ranges` computes the offset range of a label, `reading`
reads Arrow batches, `collection` builds a Spark frame, and `avro` decodes values. Publishing: `delivery` sends
`messages`.
"""
