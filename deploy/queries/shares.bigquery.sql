WITH counts AS (
  SELECT
    method, path,
    COUNTIF(policy_result = 'ALLOW') AS allowed,
    COUNTIF(difference = 'NEWLY_DENIED') AS newly_denied,
    COUNTIF(policy_result != 'ALLOW' AND difference != 'LIVE_FAILED') AS denied,
    COUNTIF(difference = 'NEWLY_ALLOWED') AS newly_allowed
  FROM understudy.preview
  WHERE experiment = 'projects/default/locations/local/policies/shop/experiments/tighter'
    AND time > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)
  GROUP BY method, path
)
SELECT
  method, path,
  allowed, newly_denied, ROUND(100 * SAFE_DIVIDE(newly_denied, allowed), 1) AS newly_denied_percent,
  denied, newly_allowed, ROUND(100 * SAFE_DIVIDE(newly_allowed, denied), 1) AS newly_allowed_percent
FROM counts
WHERE newly_denied + newly_allowed > 0
ORDER BY newly_allowed DESC, newly_denied DESC;
