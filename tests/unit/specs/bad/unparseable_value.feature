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
#> E355 'one' is not a valid INT
#>   unparseable_value.feature:5:9
#> why  the column customer is INT
#> fix  write it like 12; a missing value is empty or NULL
#> E355 '2020-01-32' is not a valid DATE
#>   unparseable_value.feature:5:20
#> why  the column since is DATE
#> fix  write it like 2013-01-05; a missing value is empty or NULL
#> E355 'a and b' is not a valid ARRAY<STRING>
#>   unparseable_value.feature:5:33
#> why  the column tags is ARRAY<STRING>
#> fix  write it like JSON, such as [1, 2] or {"a": 1}; a missing value is empty or NULL
#> E355 'a lot' is not a valid DECIMAL(10,2)
#>   unparseable_value.feature:8:14
#> why  the column amount is DECIMAL(10,2)
#> fix  a missing value is empty or NULL
#> E355 'at noon' is not a valid TIMESTAMP
#>   unparseable_value.feature:8:23
#> why  the column ordered_at is TIMESTAMP
#> fix  write it like 2013-01-05 06:30 or 2013-01-05T06:30:00-05:00; a missing value is empty or NULL
#> E355 'some' is not a valid BIGINT
#>   unparseable_value.feature:12:19
#> why  the column orders is BIGINT
#> fix  write it like 12; a missing value is empty or NULL
