"""Topics of a Kafka cluster: collected by positions, published in transactions.

`connector` is asked by the engine, `cluster` connects. Collecting: `ranges` says which offsets are a label's (pure),
`reading` makes Arrow of them, `collection` a Spark frame; `avro` has schemas. Publishing: `delivery`, of `messages`.
"""
