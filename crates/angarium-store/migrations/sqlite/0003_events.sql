-- Events, who wants to be told of them, and who was told.

-- What happened. Immutable, apart from how far its planning has come. Keys are made like those of notifications.
CREATE TABLE events (
    key           INTEGER PRIMARY KEY,
    id            BLOB    NOT NULL UNIQUE,
    source        TEXT    NOT NULL,
    external_id   TEXT    NOT NULL,
    hash          BLOB    NOT NULL,
    feed          TEXT    NOT NULL,
    type          TEXT    NOT NULL,
    subject       TEXT    NOT NULL,
    at            BIGINT  NOT NULL,
    locale        TEXT,
    fields        TEXT    NOT NULL,         -- a JSON object of texts
    data          TEXT,
    entity_type   TEXT,
    entity_id     TEXT,
    recipients    TEXT,                     -- a JSON array of ids
    expires_at    BIGINT,
    supersede_key TEXT,
    test          BIGINT  NOT NULL,
    accepted_by   TEXT    NOT NULL,
    created_at    BIGINT  NOT NULL,
    plan_version  BIGINT  NOT NULL,         -- the change of routes as of which it is planned
    planned_to    BIGINT,                   -- the last subscription that was looked at; null once all were
    matched       BIGINT  NOT NULL,         -- subscriptions that matched
    UNIQUE (source, external_id)
);
CREATE INDEX events_subject ON events (feed, subject, at, key);
CREATE INDEX events_superseding ON events (feed, supersede_key, at, key) WHERE supersede_key IS NOT NULL;
CREATE INDEX events_type ON events (feed, type, key);
CREATE INDEX events_planning ON events (key) WHERE planned_to IS NOT NULL;

-- The newest event about a subject: what a text is rendered from.
CREATE TABLE sources (
    feed    TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    event   BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    gone_at BIGINT,                         -- what it told of is gone
    PRIMARY KEY (feed, subject)
) WITHOUT ROWID;

-- The number of the last change to what decides who is told. Whoever changes something takes the next one first.
CREATE TABLE changes (
    one     BIGINT PRIMARY KEY,
    version BIGINT NOT NULL
) WITHOUT ROWID;
INSERT INTO changes (one, version) VALUES (1, 0);

-- Feeds, templates and lists.
CREATE TABLE objects (
    kind       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    spec       TEXT   NOT NULL,             -- JSON
    managed_by TEXT   NOT NULL,             -- file or api
    active     BIGINT NOT NULL,
    deleted    BIGINT NOT NULL,
    version    BIGINT NOT NULL,             -- the change that made it what it is
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE INDEX objects_version ON objects (version);

CREATE TABLE subscriptions (
    key          INTEGER PRIMARY KEY,
    id           TEXT   NOT NULL UNIQUE,
    name         TEXT   NOT NULL,
    feed         TEXT   NOT NULL,
    filter       TEXT   NOT NULL,           -- JSON
    channel      TEXT,
    address      TEXT,
    receiver     TEXT,                      -- who is behind the address
    list         TEXT,
    options      TEXT,                      -- JSON
    active       BIGINT NOT NULL,
    deleted      BIGINT NOT NULL,
    cooldown     BIGINT NOT NULL,
    daily_cap    BIGINT,
    at_most_once BIGINT NOT NULL,
    scope        TEXT   NOT NULL,
    owner        TEXT,
    creator      BLOB,                      -- salted hash of the address that it was made from
    expires_at   BIGINT,
    test         BIGINT NOT NULL,
    managed_by   TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL
);
CREATE INDEX subscriptions_version ON subscriptions (version, key);
CREATE INDEX subscriptions_feed ON subscriptions (feed, key);
CREATE INDEX subscriptions_changed ON subscriptions (feed, version);
CREATE INDEX subscriptions_owner ON subscriptions (owner, key) WHERE owner IS NOT NULL;
CREATE INDEX subscriptions_list ON subscriptions (list) WHERE list IS NOT NULL;
CREATE INDEX subscriptions_declared ON subscriptions (key) WHERE managed_by = 'file';

-- What objects and subscriptions were before: between two changes, the first of which made it so.
CREATE TABLE history (
    kind   TEXT   NOT NULL,
    name   TEXT   NOT NULL,
    since  BIGINT NOT NULL,
    until  BIGINT NOT NULL,
    spec   TEXT   NOT NULL,
    active BIGINT NOT NULL,
    PRIMARY KEY (kind, name, since)
) WITHOUT ROWID;
CREATE INDEX history_until ON history (kind, until);

-- When a subscription last had something delivered.
CREATE TABLE subscription_deliveries (
    subscription BIGINT PRIMARY KEY,
    last_at      BIGINT NOT NULL
) WITHOUT ROWID;

-- Who is told of what, or was. One row for a subscription and a signal, however often that comes.
CREATE TABLE ledger (
    subscription BIGINT NOT NULL,
    feed         TEXT   NOT NULL,
    subject      TEXT   NOT NULL,
    type         TEXT   NOT NULL,
    holder       BIGINT NOT NULL,           -- the notification that tells it
    holder_id    BLOB   NOT NULL,
    recipients   BIGINT NOT NULL,           -- how many it tells
    reserved_at  BIGINT NOT NULL,
    told_at      BIGINT NOT NULL,           -- when it was delivered; beyond all times while it is only reserved
    PRIMARY KEY (subscription, feed, subject, type)
) WITHOUT ROWID;
CREATE INDEX ledger_holder ON ledger (holder);
CREATE INDEX ledger_told ON ledger (subscription, told_at);
CREATE INDEX ledger_age ON ledger (told_at);

-- Matches of which nobody was told, and why.
CREATE TABLE suppressed (
    event        BIGINT NOT NULL,
    subscription BIGINT NOT NULL,
    reason       TEXT   NOT NULL,
    holder       BIGINT,                    -- the notification that stands in the way
    holder_id    BLOB,
    at           BIGINT NOT NULL,
    told_by      BLOB,                      -- the notification that it was planned as after all
    PRIMARY KEY (event, subscription)
) WITHOUT ROWID;
CREATE INDEX suppressed_waiting ON suppressed (subscription, holder, event) WHERE told_by IS NULL;
CREATE INDEX suppressed_capped ON suppressed (subscription, event) WHERE told_by IS NULL AND reason = 'daily_cap';

-- Reservations that were given back, until what they stood in the way of has been looked at.
CREATE TABLE releases (
    subscription BIGINT NOT NULL,
    notification BIGINT NOT NULL,
    at           BIGINT NOT NULL,
    PRIMARY KEY (subscription, notification)
) WITHOUT ROWID;

-- What a notification tells of, for whom, and from which text on.
ALTER TABLE notifications ADD COLUMN event BIGINT;
ALTER TABLE notifications ADD COLUMN subscription BIGINT;
ALTER TABLE notifications ADD COLUMN at_most_once BIGINT NOT NULL DEFAULT 0;
ALTER TABLE notifications ADD COLUMN content BIGINT;   -- where the text stands that was rendered; its own key otherwise
CREATE INDEX notifications_event ON notifications (event, key) WHERE event IS NOT NULL;
CREATE INDEX notifications_told ON notifications (event, address) WHERE event IS NOT NULL;

-- Texts that were rendered are shared by all that say the same.
ALTER TABLE contents ADD COLUMN hash BLOB;
ALTER TABLE contents ADD COLUMN presentation TEXT;     -- how a provider shows it: HTML, tags, priority, as JSON
CREATE UNIQUE INDEX contents_hash ON contents (hash) WHERE hash IS NOT NULL;

-- The template, and its version, that an attempt's text came from.
ALTER TABLE attempts ADD COLUMN template TEXT;
