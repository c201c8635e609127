CREATE TABLE job (
    id text PRIMARY KEY,
    name text NOT NULL,
    workload text NOT NULL,
    command text NOT NULL,
    config jsonb NOT NULL,
    priority integer NOT NULL,
    budget text,
    cores integer,
    webhook_url text,
    webhook_secret text,
    state text NOT NULL CHECK (
        state IN ('queued', 'running', 'pausing', 'paused', 'cancelling', 'cancelled', 'failed', 'finished')
    ),
    message text NOT NULL DEFAULT '',
    attempt integer NOT NULL DEFAULT 0,
    demand jsonb,
    devices text[],
    lease_since double precision,
    progress jsonb NOT NULL DEFAULT '{}',
    summary jsonb,
    exit_code integer,
    created double precision NOT NULL,
    queued double precision NOT NULL,
    started double precision,
    ended double precision,
    events bigint NOT NULL DEFAULT 0,
    event_lines bigint NOT NULL DEFAULT 0,
    event_bytes bigint NOT NULL DEFAULT 0,
    metric_bytes bigint NOT NULL DEFAULT 0,
    CHECK ((devices IS NOT NULL) = (state IN ('running', 'pausing', 'cancelling')))
);
COMMENT ON TABLE job IS 'A job. It has a lease (devices, lease_since) while a process may work on it.';
COMMENT ON COLUMN job.events IS 'The id of its last event.';
COMMENT ON COLUMN job.event_bytes IS 'How much of its events.jsonl has been read; in whole lines.';

CREATE INDEX job_active ON job (state) WHERE state NOT IN ('cancelled', 'failed', 'finished');
CREATE INDEX job_created ON job (created, id);

CREATE TABLE event (
    job text NOT NULL REFERENCES job ON DELETE CASCADE,
    id bigint NOT NULL,
    line bigint,
    time double precision NOT NULL,
    kind text NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (job, id),
    UNIQUE (job, line)
);
COMMENT ON COLUMN event.line IS 'Its line in the events.jsonl of the job; null for what the server did.';

CREATE TABLE metric (
    job text NOT NULL REFERENCES job ON DELETE CASCADE,
    name text NOT NULL,
    step bigint NOT NULL,
    time double precision NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (job, name, step)
);

CREATE TABLE token (
    id text PRIMARY KEY,
    name text NOT NULL,
    scopes text[] NOT NULL,
    digest bytea NOT NULL,
    created double precision NOT NULL
);
COMMENT ON COLUMN token.digest IS 'SHA-256 of the token, which is stored nowhere.';

CREATE TABLE upload (
    id text PRIMARY KEY,
    name text NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    created double precision NOT NULL
);

CREATE TABLE setting (
    name text PRIMARY KEY,
    value jsonb NOT NULL
);
