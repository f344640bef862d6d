-- name: find
-- Who holds what goes by this name, and until when.
SELECT holder, lease_until FROM lease WHERE name = ?;

-- name: add
-- What nobody has held before.
INSERT IGNORE INTO lease (name, holder, epoch, lease_until) VALUES ?;

-- name: acquire
-- It is free, and has another holder now.
UPDATE lease SET holder = ?, epoch = epoch + 1, lease_until = ? WHERE name = ? AND lease_until <= ?;

-- name: extend
-- Its holder keeps it until then, or gives it back.
UPDATE lease SET lease_until = ? WHERE name = ? AND holder = ?;

-- name: set
-- What has no end has another holder.
UPDATE lease SET holder = ? WHERE name = ?;

-- name: of
-- Who holds what goes by this name, which in the row of its holders, and until when.
SELECT holder, epoch, lease_until AS until FROM lease WHERE name = ?;
