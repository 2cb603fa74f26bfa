WITH records AS (
  SELECT *, COUNT(*) OVER (PARTITION BY method, path) AS total
  FROM understudy.preview
  WHERE experiment = 'projects/default/locations/local/policies/shop/experiments/tighter'
    AND time > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)
)
SELECT
  difference, method, path, rule, reason, changed,
  COUNT(*) AS n,
  APPROX_COUNT_DISTINCT(principal) AS callers,
  ANY_VALUE(total) AS total,
  ROUND(100 * COUNT(*) / ANY_VALUE(total), 1) AS percent
FROM records
WHERE difference != 'UNCHANGED'
GROUP BY difference, method, path, rule, reason, changed
ORDER BY n DESC;
