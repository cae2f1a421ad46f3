Feature: Sales

  Background:
    Given the table raw.customers
      | customer | country |
      | 1        | FR      |
      | 2        | DE      |

  Scenario: only what is paid counts, and only on the web
    Given the table raw.orders
      | id | customer | amount | channel |
      | 1  | 1        | 10.50  |         |
      | 2  | 1        | 0      | web     |
      | 3  | 2        | 5      | web     |
      | 4  | 2        | 7      | shop    |
    When marts.sales runs
    Then marts.sales is
      | country | orders | revenue |
      | DE      | 1      | 5       |
      | FR      | 1      | 10.5    |
    And marts.sales contains
      | country |
      | FR      |

  Scenario: late rows and restated labels ripple
    Given the table raw.orders at 2020-01-01
      | id | customer | amount |
      | 1  | 1        | 10     |
    And the table raw.orders at 2020-01-02
      | id | customer | amount |
      | 2  | 1        | 20     |
    And the table raw.customers at 2020-01-01 is now
      | customer | country |
      | 1        | FR      |
      | 2        | DE      |
    When marts.total runs at 2020-01-01..2020-01-02
    Then marts.total at 2020-01-01 is
      | orders | revenue |
      | 1      | 10      |
    And marts.total is
      | orders | revenue |
      | 2      | 30      |
    When the table raw.orders at 2020-01-01 also gets
      | id | customer | amount |
      | 3  | 2        | 5      |
    And the table raw.orders at 2020-01-02 is now
      | id | customer | amount |
      | 2  | 1        | 100    |
    And marts.total runs at 2020-01-02
    Then marts.total at 2020-01-01 is
      | orders | revenue |
      | 2      | 15      |
    And marts.total is
      | orders | revenue |
      | 3      | 115     |
    And marts.sales at 2020-01-01 is
      | country | revenue |
      | FR      | 10      |
      | DE      | 5       |

  Scenario: nobody bought, then somebody did
    Given the table raw.orders is empty
    When marts.total runs
    Then marts.sales fails with somebody_bought
    And marts.sales fails with E740
    Given the table raw.orders is now
      | id | customer | amount |
      | 1  | 1        | 5000   |
    When marts.total runs again
    Then marts.sales is
      | orders |
      | 1      |
    And marts.sales warns of usual
