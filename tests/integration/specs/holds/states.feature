Feature: States

  Scenario: a day is added to what there was
    Given the table marts.total at 2020-01-01
      | orders | revenue |
      | 7      | 70      |
    And the table marts.sales at 2020-01-02
      | country | orders | revenue |
      | FR      | 1      | 5       |
    When marts.total runs at 2020-01-02
    Then marts.total is
      | orders | revenue |
      | 8      | 75      |
    And marts.total at 2020-01-01 is
      | orders |
      | 7      |

  Scenario: the window before is empty where nothing is given
    Given the table marts.sales at 2020-01-05
      | country | orders |
      | FR      | 3      |
    When marts.growth runs at 2020-01-05
    Then marts.growth is
      | country | more |
      | FR      | 3    |

  Scenario: the window before is what it was
    Given the table marts.sales
      | timelabel  | country | orders |
      | 2020-01-04 | FR      | 1      |
      | 2020-01-05 | FR      | 3      |
    When marts.growth runs
    Then marts.growth is
      | country | more |
      | FR      | 2    |

  Scenario: a price that went
    Given the table raw.prices at 2020-01-01
      | item | price | changed_at       | gone  |
      | a    | 1.5   | 2020-01-01 12:00 | false |
      | b    | 2     | 2020-01-01 12:00 | false |
    And the table raw.prices at 2020-01-02
      | item | price | changed_at       | gone |
      | a    |       | 2020-01-02 12:00 | true |
    When raw.prices runs at 2020-01-02
    Then raw.prices is
      | item | price | changed_at                | gone  |
      | b    | 2     | 2020-01-01T13:00:00+01:00 | false |
    And raw.prices at 2020-01-01 contains
      | item |
      | a    |

  Scenario: hours of two days
    Given the table raw.clicks
      | timelabel        | page | n |
      | 2020-01-01T23:00 | a    | 1 |
      | 2020-01-02T00:00 | a    | 2 |
      | 2020-01-02T05:00 | a    | 3 |
    When marts.pages runs at 2020-01-02
    Then marts.pages is
      | page | n |
      | a    | 5 |
    And raw.clicks at 2020-01-02 is
      | timelabel        | n |
      | 2020-01-02T00:00 | 2 |
      | 20200102050000   | 3 |

  Scenario: a window that is run again after a later one
    Given the table raw.clicks at 2020-01-01T01:00
      | page | n |
      | a    | 1 |
    When marts.pages runs at 2020-01-01..2020-01-02
    And the table raw.clicks at 2020-01-01T01:00 also gets
      | page | n |
      | a    | 9 |
    And marts.pages runs again at 2020-01-01
    Then marts.pages at 2020-01-01 is
      | page | n  |
      | a    | 10 |
    And marts.pages at 2020-01-02 is empty
