Feature: Versions

  Scenario: each change begins a version, late ones too
    Given the table raw.crm at 2020-01-01
      | id | name | city  | at               |
      | c1 | ann  | paris | 2020-01-01 06:00 |
    And the table raw.crm at 2020-01-02
      | id | name | city | at               |
      | c1 | anna |      | 2020-01-02 06:00 |
    When dim.customer runs at 2020-01-02
    And the table raw.crm at 2020-01-01 also gets
      | id | name | city | at               |
      | c1 |      | lyon | 2020-01-01 12:00 |
    And dim.customer runs at 2020-01-02
    Then dim.customer is
      | id | rec_eff_time     | name | city  | rec_exp_time     | rec_is_current |
      | c1 | 2020-01-01 06:00 | ann  | paris | 2020-01-01 12:00 | false          |
      | c1 | 2020-01-01 12:00 | ann  | lyon  | 2020-01-02 06:00 | false          |
      | c1 | 2020-01-02 06:00 | anna | lyon  | 9999-12-31       | true           |

  Scenario: a fact sees its parent as it was then
    Given the table dim.customer
      | id | name | city  | at               |
      | c1 | ann  | paris | 2020-01-01 06:00 |
      | c1 | anna | lyon  | 2020-01-01 12:00 |
    And the table raw.bills
      | bill | buyer | sold_at          |
      | b1   | c1    | 2020-01-01 07:00 |
      | b2   | c1    | 2020-01-01 13:00 |
      | b3   | c9    | 2020-01-01 13:00 |
    When marts.bills runs at 2020-01-01
    Then marts.bills is
      | bill | name_buyer | city_buyer |
      | b1   | ann        | paris      |
      | b2   | anna       | lyon       |
      | b3   | NULL       | NULL       |
