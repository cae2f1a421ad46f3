"""Codes of errors of the systems that are reached: logs by position, and each connector's own."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

CONNECTORS_AT_WORK: Mapping[str, Code] = {
    "E850": Code(
        "a range of a log that another label owns",
        "Between the look at the end of a log and the claim, another runner gave what comes next to another label. The "
        "log is looked at once more, so that nothing is taken twice.",
    ),
    "E851": Code(
        "a gap between two labels of a log",
        "Each label owns a range of the log, which begins where that of the label before ends. What the connector "
        "gives next leaves something out or reads it twice. Nothing was read.",
    ),
    "E852": Code(
        "records of a topic that are gone",
        "The brokers dropped records, by retention or by hand, that no label has read yet, or that a label is made of. "
        "The offsets are named. Nothing is passed over unless the collect says exactly that.",
    ),
    "E853": Code(
        "another topic under the same name",
        "A topic was deleted and made anew, or lost partitions or records that were read already. The ids and offsets "
        "are named. Nothing was read.",
    ),
    "E854": Code(
        "a Kafka cluster that does not answer",
        "No broker was reached in time, or a partition has none that leads it. What was begun is tried again, of the "
        "same offsets or in the same transaction's place.",
    ),
    "E855": Code(
        "a Kafka cluster that refuses",
        "User, password, certificate or rights are not what the cluster asks for, or a record is larger than it takes.",
    ),
    "E856": Code(
        "a topic that is not there or does not fit",
        "There is no such topic, or it lacks partitions or the rows lack columns that the options ask for.",
    ),
    "E857": Code(
        "a record that cannot be read",
        "A value is no text, no JSON object or no Avro of its schema, or the schema is not to be had. Partition and "
        "offset are named. Format 'raw' takes every record as it is.",
    ),
    "E858": Code(
        "another runner delivers to the topic",
        "Kafka fences a producer when another one begins under its name. Nothing that the older one sent is shown.",
    ),
    "E859": Code(
        "a delivery to Kafka of unknown outcome",
        "The record of a publish is a group's offset, which Kafka forgets after some days without members. A claim "
        "that is older, and was never settled, is not sent again by itself.",
    ),
}
