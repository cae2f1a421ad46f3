Feature: Reads

  Background:
    Given the table raw.customers
      | customer | country |
      | 1        | FR      |

  Scenario: the newest there is, of what is given without a label
    Given the table raw.orders
      | id | customer |
      | 1  | 1        |
    When marts.now runs
    Then marts.now is
      | country | orders |
      | FR      | 1      |

  Scenario: three days back, and no more
    Given the table raw.orders
      | timelabel  | id | amount |
      | 2020-01-01 | 1  | 1      |
      | 2020-01-02 | 2  | 10     |
      | 2020-01-04 | 3  | 100    |
      | 2020-01-05 | 4  | 1000   |
    When marts.three runs at 2020-01-04
    Then marts.three is
      | amount |
      | 110    |

  Scenario: a week of days, and all there ever was
    Given the table raw.orders
      | timelabel  | id | customer | amount |
      | 2020-01-06 | 1  | 1        | 1      |
      | 2020-01-07 | 2  | 1        | 10     |
      | 2020-01-12 | 3  | 1        | 10     |
    And the table marts.sales
      | timelabel  | country | orders |
      | 2020-01-06 | FR      | 1      |
      | 2020-01-12 | FR      | 4      |
    When marts.weeks runs
    And marts.ever runs at 2020-01-12
    Then marts.weeks at 2020-01-06 is
      | country | orders |
      | FR      | 5      |
    And marts.ever is
      | orders |
      | 3      |
