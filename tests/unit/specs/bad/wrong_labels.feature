Feature: Sales
  Scenario: labels that are none, inside of a window, given twice
    Given the table raw.orders at yesterday is empty
    And the table raw.customers at 2020-01-01T06:00 is empty
    When marts.sales runs at 2020-01-05..2020-01-02
    Then marts.sales is empty
  Scenario: one label is given twice
    Given the table raw.customers at 2020-01-01 is empty
    And the table raw.customers at 2020-01-01 is empty
    And the table raw.orders is empty
    When marts.sales runs at 2020-01-01
    Then marts.sales is empty
  Scenario: a row of a label inside of a window is expected
    Given the table raw.clicks is empty
    When marts.pages runs
    Then raw.clicks is
      | timelabel        | page |
      | 2020-01-01T05:30 | a    |
#> E512 cannot read 'yesterday' as labels
#>   wrong_labels.feature:3:5
#> why  a label is 20130105000000, 2013-01-05, 20130105, 2013-01, 2013 or 2013-01-05T06:00, a range 2013-01-01..2013-01-07
#> fix  write one of these forms
#> E513 no window of raw.customers starts at 2020-01-01T06:00
#>   wrong_labels.feature:4:5
#> why  its windows are EVERY DAY
#> fix  use the nearest label: 20200101000000 or 20200102000000
#> E514 the labels '2020-01-05..2020-01-02' end before they start
#>   wrong_labels.feature:5:5
#> why  a range starts with the older label, and includes both
#> fix  write 2020-01-02..2020-01-05
#> E356 raw.customers@20200101000000 is given twice
#>   wrong_labels.feature:9:5
#> fix  to add rows, write: the table raw.customers also gets; to replace them: the table raw.customers is now
#> E513 no window of raw.clicks starts at 2020-01-01T05:30
#>   wrong_labels.feature:18:9
#> why  its windows are EVERY HOUR
#> fix  use the nearest label: 20200101050000 or 20200101060000
