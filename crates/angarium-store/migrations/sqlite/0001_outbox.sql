-- The outbox. Times are microseconds since 1970 UTC; a key is (microseconds << 10 | node slot), so that it
-- orders by arrival and new rows go to the right edge of every index.

-- Narrow and hot: what dispatching reads and writes. The one row that tells the fate of one message.
CREATE TABLE notifications (
    key                 INTEGER PRIMARY KEY,
    id                  BLOB    NOT NULL,
    status              TEXT    NOT NULL,
    route               TEXT    NOT NULL,
    kind                TEXT    NOT NULL,
    channel             TEXT,
    list                TEXT,
    address             TEXT,
    lane                BIGINT  NOT NULL,
    site                TEXT,
    instance            TEXT,
    script              TEXT,
    node                TEXT,
    due_at              BIGINT,             -- null exactly when the status is terminal
    lease_until         BIGINT,             -- not null exactly while a process holds the row
    lease_node          TEXT,
    claimed_at          BIGINT,             -- when that process took it
    wire_at             BIGINT,             -- the first byte may have left under this lease
    generation          BIGINT  NOT NULL,
    attempts            BIGINT  NOT NULL,
    budget_used         BIGINT  NOT NULL,
    retry_count         BIGINT  NOT NULL,
    interruptions       BIGINT  NOT NULL,
    resolved            BIGINT  NOT NULL,   -- 1 once the list's members stand in targets
    error_class         TEXT,
    error_detail        TEXT,
    skip_reason         TEXT,
    provider_message_id TEXT,
    facts               BIGINT  NOT NULL,   -- things that happened to this row and belong in the audit trail
    audited             BIGINT  NOT NULL,   -- how many of them stand there
    accepted_by         TEXT    NOT NULL,   -- who handed it in
    enqueued_at         BIGINT,
    created_at          BIGINT  NOT NULL,
    last_attempt_at     BIGINT,
    delivered_at        BIGINT,
    completed_at        BIGINT
);
CREATE INDEX notifications_due ON notifications (lane, due_at, key) WHERE due_at IS NOT NULL AND lease_until IS NULL;
CREATE INDEX notifications_leased ON notifications (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX notifications_live ON notifications (key) WHERE due_at IS NOT NULL;
CREATE INDEX notifications_parked ON notifications (key) WHERE status = 'parked';
CREATE INDEX notifications_completed ON notifications (completed_at, status) WHERE completed_at IS NOT NULL;
CREATE INDEX notifications_unaudited ON notifications (key) WHERE audited <> facts;

-- The producer's id, once and for all: what makes a resend a resend.
CREATE TABLE ids (
    id         BLOB   PRIMARY KEY,
    key        BIGINT NOT NULL,
    hash       BLOB   NOT NULL,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;

-- Immutable, and never rewritten by a claim.
CREATE TABLE contents (
    key     INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    body    TEXT NOT NULL,
    data    TEXT
);

-- The members of a list as they were at the first attempt, each with its own fate.
CREATE TABLE targets (
    notification        BIGINT NOT NULL,
    ordinal             BIGINT NOT NULL,
    address             TEXT   NOT NULL,
    receiver            TEXT   NOT NULL,    -- who is behind it, as in lanes
    state               TEXT   NOT NULL,
    due_at              BIGINT,
    attempts            BIGINT NOT NULL,    -- exchanges that carried it and whose outcome is known
    budget_used         BIGINT NOT NULL,
    retry_count         BIGINT NOT NULL,
    error_class         TEXT,
    error_detail        TEXT,
    provider_message_id TEXT,
    PRIMARY KEY (notification, ordinal)
) WITHOUT ROWID;

-- Every try, and what came of it. Only ever inserted.
CREATE TABLE attempts (
    notification     BIGINT NOT NULL,
    number           BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    started_at       BIGINT NOT NULL,
    ended_at         BIGINT NOT NULL,
    node             TEXT   NOT NULL,
    result           TEXT   NOT NULL,
    class            TEXT,
    detail           TEXT,
    status_code      BIGINT,
    duplicate_risk   BIGINT NOT NULL,
    retry_after_s    BIGINT,
    response_excerpt TEXT,
    targets          TEXT,
    led_to           TEXT   NOT NULL,       -- the status after it
    late             BIGINT NOT NULL,       -- came in after the claim had ended: evidence only
    PRIMARY KEY (notification, number)
) WITHOUT ROWID;

-- What mail servers reported about an address after they had taken a message for it. Only ever inserted.
CREATE TABLE bounces (
    notification BIGINT NOT NULL,
    address      TEXT   NOT NULL,           -- as it was sent to
    action       TEXT   NOT NULL,           -- what the mail server did
    hard         BIGINT NOT NULL,           -- 1 if the mailbox will never take messages
    at           BIGINT NOT NULL,
    actor        TEXT   NOT NULL,           -- who handed the report in
    status       TEXT   NOT NULL,           -- 5.1.1, or empty
    diagnostic   TEXT,
    PRIMARY KEY (notification, address, action, hard)
) WITHOUT ROWID;

-- Who is behind a channel, and until when that receiver is left alone.
CREATE TABLE lanes (
    key         INTEGER PRIMARY KEY,
    channel     TEXT   NOT NULL,
    receiver    TEXT   NOT NULL,
    waits_until BIGINT NOT NULL,
    UNIQUE (channel, receiver)
);

-- A channel as a whole: until when it waits, and whether it is suspended.
CREATE TABLE channel_states (
    channel     TEXT PRIMARY KEY,
    waits_until BIGINT NOT NULL,
    suspended   TEXT
) WITHOUT ROWID;

-- What operators, and the server itself, did to a notification. Only ever inserted.
CREATE TABLE actions (
    key          INTEGER PRIMARY KEY,
    notification BIGINT NOT NULL,
    action       TEXT   NOT NULL,
    actor        TEXT   NOT NULL,
    reason       TEXT,
    at           BIGINT NOT NULL,
    led_to       TEXT   NOT NULL
);
CREATE INDEX actions_notification ON actions (notification);

-- The trail, a projection of the tables above; it outlives them. Only ever inserted.
CREATE TABLE audit (
    notification_id BLOB   NOT NULL,
    event_id        BLOB   NOT NULL,
    kind            TEXT   NOT NULL,
    actor           TEXT   NOT NULL,
    at              BIGINT NOT NULL,
    detail          TEXT   NOT NULL,
    PRIMARY KEY (notification_id, event_id)
) WITHOUT ROWID;

-- Addresses that asked for no more messages.
CREATE TABLE suppressions (
    channel TEXT   NOT NULL,
    address TEXT   NOT NULL,
    reason  TEXT   NOT NULL,
    since   BIGINT NOT NULL,
    PRIMARY KEY (channel, address)
) WITHOUT ROWID;

-- API keys: the secret itself is never stored, only its SHA-256.
CREATE TABLE api_keys (
    id         TEXT   PRIMARY KEY,
    name       TEXT   NOT NULL UNIQUE,
    hash       BLOB   NOT NULL,
    scopes     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
) WITHOUT ROWID;

-- Single facts about this database.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
