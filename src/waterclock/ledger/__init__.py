"""The durable record of every batch: claims, revisions, inputs, events. An index over commit records."""
