CREATE TABLE webhook (
    id text PRIMARY KEY,
    job text NOT NULL,
    ended double precision NOT NULL,
    url text NOT NULL,
    secret text,
    body text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    due double precision,
    sent double precision,
    status integer,
    error text NOT NULL DEFAULT '',
    UNIQUE (job, ended)
);
COMMENT ON TABLE webhook IS 'One message for every end of a job that has a webhook; it stays when the job is deleted.';
COMMENT ON COLUMN webhook.due IS 'When it is sent next; null where it was accepted or given up.';
COMMENT ON COLUMN webhook.sent IS 'When it was accepted.';

CREATE INDEX webhook_due ON webhook (due) WHERE due IS NOT NULL;
CREATE INDEX job_webhook ON job (ended) WHERE webhook_url IS NOT NULL;
