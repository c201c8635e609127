CREATE TABLE metric_range (
    job text NOT NULL REFERENCES job ON DELETE CASCADE,
    name text NOT NULL,
    level smallint NOT NULL,
    bucket bigint NOT NULL,
    points bigint NOT NULL,
    low double precision[] NOT NULL,
    high double precision[] NOT NULL,
    PRIMARY KEY (job, name, level, bucket)
);
COMMENT ON TABLE metric_range IS 'Extremes of 2^level steps each, from bucket * 2^level on: a long curve is drawn from few rows.';
COMMENT ON COLUMN metric_range.low IS 'The least value, its step and its time.';
COMMENT ON COLUMN metric_range.high IS 'The greatest value, its step and its time.';

INSERT INTO metric_range (job, name, level, bucket, points, low, high)
SELECT job, name, level, step >> level, count(*), min(ARRAY[value, step, time]), max(ARRAY[value, step, time])
FROM metric, unnest(ARRAY[5, 10, 16, 22]) AS level
GROUP BY job, name, level, step >> level;
