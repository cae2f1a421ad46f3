Feature: Sales
  Scenario: a key stands twice
    Given the table raw.orders is empty
    And the table raw.customers is empty
    When marts.sales runs
    Then marts.sales is
      | country | orders |
      | FR      | 1      |
      | DE      | 1      |
      | FR      | 2      |
#> E358 two rows of country FR are expected
#>   duplicate_keys.feature:10:9
#> why  marts.sales has KEY (country); the other row is at duplicate_keys.feature:8:9
#> fix  remove one of them: a key has one row
