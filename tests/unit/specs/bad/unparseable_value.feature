Feature: Sales
  Scenario: cells that are no values
    Given the table raw.customers
      | customer | since      | tags    |
      | one      | 2020-01-32 | a and b |
    And the table raw.orders
      | id | amount | ordered_at |
      | 1  | a lot  | at noon    |
    When marts.sales runs
    Then marts.sales is
      | country | orders |
      | FR      | some   |
#> E355 'one' is no INT
#>   unparseable_value.feature:5:9
#> why  the column customer is INT
#> fix  write it like 12; no value is an empty cell or NULL
#> E355 '2020-01-32' is no DATE
#>   unparseable_value.feature:5:20
#> why  the column since is DATE
#> fix  write it like 2013-01-05; no value is an empty cell or NULL
#> E355 'a and b' is no ARRAY<STRING>
#>   unparseable_value.feature:5:33
#> why  the column tags is ARRAY<STRING>
#> fix  write it like JSON, such as [1, 2] or {"a": 1}; no value is an empty cell or NULL
#> E355 'a lot' is no DECIMAL(10,2)
#>   unparseable_value.feature:8:14
#> why  the column amount is DECIMAL(10,2)
#> fix  no value is an empty cell or NULL
#> E355 'at noon' is no TIMESTAMP
#>   unparseable_value.feature:8:23
#> why  the column ordered_at is TIMESTAMP
#> fix  write it like 2013-01-05 06:30 or 2013-01-05T06:30:00-05:00; no value is an empty cell or NULL
#> E355 'some' is no BIGINT
#>   unparseable_value.feature:12:19
#> why  the column orders is BIGINT
#> fix  write it like 12; no value is an empty cell or NULL
