SELECT
  TIMESTAMP_TRUNC(time, MINUTE) AS minute,
  COUNT(*) AS total,
  COUNTIF(difference = 'NEWLY_DENIED') AS newly_denied,
  COUNTIF(difference = 'NEWLY_ALLOWED') AS newly_allowed,
  COUNTIF(difference = 'RESPONSE_CHANGED') AS response_changed,
  COUNTIF(difference IN ('FAILED', 'LIVE_FAILED')) AS failed
FROM understudy.preview
WHERE experiment = 'projects/default/locations/local/policies/shop/experiments/tighter'
  AND time > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)
GROUP BY minute
ORDER BY minute;
