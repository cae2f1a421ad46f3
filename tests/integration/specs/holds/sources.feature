Feature: Sources

  Scenario: values of many types
    Given the table raw.customers
      | customer | country | since      | tags       |
      | 1        | ""      | 2020-01-01 | ["a", "b"] |
      | 2        | "NULL"  |            |            |
    When raw.customers runs
    Then raw.customers is
      | tags       | since      | country | customer |
      | NULL       | NULL       | "NULL"  | 2        |
      | ["a", "b"] | 2020-01-01 | ""      | 1        |

  Scenario: what a source brings beside what is declared
    Given the table raw.orders
      | id | seats: INT | amount | ordered_at       | note |
      | 1  | 007        | 1.5    | 2020-01-01 06:30 | x    |
    When raw.orders runs
    Then raw.orders is
      | seats | amount | ordered_at           | note | customer |
      | 7     | 1.50   | 2020-01-01T06:30:00Z | x    |          |

  Scenario: what a source brings is looked at
    Given the table raw.orders
      | id | amount |
      | 1  | -1     |
    When raw.orders runs
    Then raw.orders fails with not_negative

  Scenario: a key stands twice
    Given the table raw.orders
      | id | amount |
      | 1  | 1      |
      | 1  | 2      |
    When raw.orders runs
    Then raw.orders fails with KEY
