-- The doubt of a fleet about one dependency; see the package comment.
--
-- KEYS[1]  the dependency's hash
-- ARGV     what a process saw since its last report: answers, failures, the
--          doubt they add in quarters of a failure, 1 if one timed out, and how many
--          milliseconds that report covers
-- returns  doubt and limit in quarters, and the milliseconds of the first second that
--          are left
--
-- The hash has the doubt d, the most it may come to m, 1 if the second is over l,
-- the millisecond in which doubt arose s, and of the requests in windows of ten
-- seconds the window w, its requests n and those of the one before b.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = redis.call('HMGET', KEYS[1], 'd', 'm', 'l', 's', 'w', 'n', 'b')
local d, m, l, s = tonumber(kept[1]) or 0, tonumber(kept[2]) or 0, tonumber(kept[3]) or 0, tonumber(kept[4]) or now
local window = math.floor(now / 10000)
local w, n, b = tonumber(kept[5]) or window, tonumber(kept[6]) or 0, tonumber(kept[7]) or 0
local answers, failures, adds = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local timeout, covers = tonumber(ARGV[4]), tonumber(ARGV[5])

if window ~= w then
  b, n = window == w + 1 and n or 0, 0
end
n = n + answers + failures

-- As a Gate's for five attempts and more, and 1 % of the requests in a window:
-- a busy fleet fails more often by chance.
local limit = 24 + 4 * math.floor(math.max(n, b) / 100)

-- Answers from before doubt arose say nothing against it: of a report that began
-- earlier, only the part since then counts.
d = math.max(0, d - math.floor(8 * answers * math.min(1, math.max(0, now - s) / covers)))
if adds > 0 then
  if d == 0 then
    m, l, s = 0, 0, now
  end
  if now - s >= 1000 or now < s or (timeout == 1 and d + adds >= limit) then
    l = 1
  end
  m = math.max(m, limit + 8)
  if l == 0 then
    m = math.max(m, d + adds)
  end
  d = math.min(d + adds, m)
end
if now - s >= 1000 then
  l = 1
end

redis.call('HSET', KEYS[1], 'd', d, 'm', m, 'l', l, 's', s, 'w', window, 'n', n, 'b', b)
redis.call('PEXPIRE', KEYS[1], 60000)
return {d, limit, l == 1 and 0 or math.max(0, 1000 - (now - s))}
