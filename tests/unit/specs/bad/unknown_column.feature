Feature: Sales
  Background:
    Given the table raw.orders is empty
  Scenario: columns that are not there
    Given the table raw.customers
      | customer | contry | customer |
      | 1        | FR     | 1        |
    When marts.sales runs
    Then marts.sales is
      | country | order |
      | FR      | 1     |
  Scenario: a type that is declared, and one that is none
    Given the table raw.customers
      | customer: BIGINT | country |
      | 1                | FR      |
    And the table raw.orders also gets
      | id | channel:TXT |
      | 1  | web         |
    When marts.sales runs
    Then marts.sales is empty
#> E354 raw.customers has no column contry
#>   unknown_column.feature:6:20
#> why  it has customer, country, since, tags
#> fix  did you mean country?
#> E354 customer occurs twice
#>   unknown_column.feature:6:29
#> fix  name each column once
#> E354 marts.sales has no column order
#>   unknown_column.feature:10:19
#> why  it has country, orders, revenue
#> fix  did you mean orders?
#> E359 the type of customer is declared
#>   unknown_column.feature:14:9
#> why  raw.customers.customer is INT, at flows/flow.dpl:9:24
#> fix  write customer
#> E359 TXT is not a type
#>   unknown_column.feature:17:14
#> fix  write one of STRING, INT, BIGINT, SMALLINT, TINYINT, DOUBLE, FLOAT, DECIMAL, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, BINARY
