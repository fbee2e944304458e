-- Processes that use this database, each with a row from its start until it leaves or is long forgotten.
CREATE TABLE nodes (
    instance   INTEGER PRIMARY KEY AUTOINCREMENT,   -- one for each start
    slot       BIGINT NOT NULL UNIQUE,           -- the low bits of the keys it gives out
    name       TEXT   NOT NULL,
    version    TEXT   NOT NULL,
    address    TEXT   NOT NULL,                  -- where it listens
    started_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,                  -- its last sign of life
    skew       BIGINT NOT NULL                   -- how far its clock was from the database's then, either way
);

-- Work that one node does for all. Whoever holds it writes under its epoch, which rises whenever it changes hands.
CREATE TABLE jobs (
    name   TEXT   PRIMARY KEY,
    holder BIGINT NOT NULL,
    epoch  BIGINT NOT NULL,
    until  BIGINT NOT NULL
) WITHOUT ROWID;

-- The node that holds the row, by its instance: names may repeat.
ALTER TABLE notifications ADD COLUMN lease_by BIGINT;
