-- Groups that an operator has paused: nobody is given anything of them until they are resumed. (There is an index, since every
-- server looks for them once a second.)
-- beside: 6

ALTER TABLE consumer_group ADD COLUMN paused TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '1: its claims are answered empty';

ALTER TABLE consumer_group ADD KEY idx_consumer_group_paused (paused);
