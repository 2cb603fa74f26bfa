-- What the queries read, of the linked dataset (here logs) of a log bucket with Log Analytics:
-- the collector's googlecloud exporter makes attributes the labels of a log entry.
CREATE VIEW understudy.preview AS
SELECT
  timestamp AS time,
  JSON_VALUE(labels['understudy.experiment.name']) AS experiment,
  JSON_VALUE(labels['understudy.preview.difference']) AS difference,
  JSON_VALUE(labels['understudy.policy.result']) AS policy_result,
  JSON_VALUE(labels['http.request.method']) AS method,
  COALESCE(JSON_VALUE(labels['understudy.path_pattern']), JSON_VALUE(labels['url.path'])) AS path,
  JSON_VALUE(labels['understudy.preview.rule']) AS rule,
  JSON_VALUE(labels['understudy.preview.reason']) AS reason,
  JSON_VALUE(labels['understudy.preview.changed']) AS changed,
  JSON_VALUE(labels['understudy.principal']) AS principal,
  JSON_VALUE(labels['understudy.label.tenant']) AS tenant
FROM logs._AllLogs
WHERE JSON_VALUE(labels['understudy.preview.difference']) IS NOT NULL;
