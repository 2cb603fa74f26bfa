-- What the queries read, of the table that the collector's clickhouse exporter writes.
CREATE VIEW preview AS
SELECT
    Timestamp AS time,
    LogAttributes['understudy.experiment.name'] AS experiment,
    LogAttributes['understudy.preview.difference'] AS difference,
    LogAttributes['understudy.policy.result'] AS policy_result,
    LogAttributes['http.request.method'] AS method,
    if(LogAttributes['understudy.path_pattern'] != '', LogAttributes['understudy.path_pattern'], LogAttributes['url.path']) AS path,
    LogAttributes['understudy.preview.rule'] AS rule,
    LogAttributes['understudy.preview.reason'] AS reason,
    LogAttributes['understudy.preview.changed'] AS changed,
    LogAttributes['understudy.principal'] AS principal,
    LogAttributes['understudy.label.tenant'] AS tenant
FROM otel_logs
WHERE ServiceName = 'understudy' AND LogAttributes['understudy.preview.difference'] != '';
