"""Topics of a Kafka cluster: collected by positions, published in transactions."""
