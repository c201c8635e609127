CREATE INDEX event_notable ON event (job, id) WHERE kind NOT IN ('batch_done', 'metric', 'sampled');
COMMENT ON INDEX event_notable IS 'Events less those that come by the thousand: the newest few, and the last plan.';
