"""Measures of an erased slice keep their counts, and lose values of persons."""

from __future__ import annotations

from waterclock.engine.erasing.measures import without_persons
from waterclock.storage.folds.slices_without_rows import Persons


def test_a_count_that_is_equal_to_a_number_of_a_person_stays() -> None:
    persons = Persons(("customer_id", "email"), frozenset({"42", "ada@example.com"}))
    measures = {
        "rows": 42,
        "customer_ids": 42,
        "max(Customer_ID)": 42,
        "min(customer_id)": 7,
        "max(email)": "ada@example.com",
        "newest": "ada@example.com",
        "top": {"values": ["ada@example.com", "eva@example.com"], "count": 42},
        "first": {"KEY (customer_id)": 42},
        "measured": {
            "customer_id.nulls": {"value": "42", "type": "bigint"},
            "customer_id.max": {"value": "42", "type": "bigint"},
            "customer_id.min": {"value": "7", "type": "bigint"},
            "newest": {"value": "ada@example.com", "type": "string"},
        },
    }
    assert without_persons(measures, persons) == {
        "rows": 42,
        "customer_ids": 42,
        "min(customer_id)": 7,
        "top": {"values": ["eva@example.com"], "count": 42},
        "first": {"KEY (customer_id)": 42},
        "measured": {
            "customer_id.nulls": {"value": "42", "type": "bigint"},
            "customer_id.min": {"value": "7", "type": "bigint"},
        },
    }
