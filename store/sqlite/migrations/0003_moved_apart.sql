-- A message that was moved to another time lies in a shard apart (its own plus 16), where no scan by the time in its id
-- passes it: 200,000 moved ahead cost each sweep of what is due 200,000 rows read. Those that there are go there.

UPDATE delay SET shard = shard + 16
WHERE shard < 16 AND due <> id >> 21 AND EXISTS (
  SELECT 1 FROM moved m WHERE m.shard = delay.shard AND m.due = delay.due AND m.id = delay.id);
