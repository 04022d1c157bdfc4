-- What a script finds around it, made of Lua's own libraries and three functions of the server's.
local call, try, describe, plain, sha1hex = ...

local function single(field)
  return function(text)
    if type(text) ~= 'string' then
      return { err = 'ERR wrong number or type of arguments' }
    end
    if field == 'err' then
      text = string.gsub(text, '^%-', '')
      if not string.find(text, ' ', 1, true) then text = 'ERR ' .. text end
    end
    return { [field] = text }
  end
end

local redis = {
  call = call,
  pcall = try,
  error_reply = single('err'),
  status_reply = single('ok'),
  sha1hex = sha1hex,
  log = function() end,
  setresp = function() end,
  set_repl = function() end,
  replicate_commands = function() return true end,
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_SLAVE = 1, REPL_REPLICA = 1, REPL_AOF = 2, REPL_ALL = 3,
  REDIS_VERSION = '7.0.15', REDIS_VERSION_NUM = 0x0007000f,
}

-- Numbers that look random and are the same in every life of a server, as Redis has them: the generator of drand48.
local high, low = 0x1234ABCD, 0x330E
local function seed(number)
  low, high = 0x330E, number % 0x100000000
end
local function step()
  local product = low * 0xE66D + 0xB
  local carry = math.floor(product / 0x10000)
  local upper = high % 0x10000 * 0x5DEEC % 0x10000 * 0x10000
  high = (high * 0xE66D + low * 0x5DEEC + carry + upper) % 0x100000000
  low = product % 0x10000
  return math.floor(high / 2)
end
local numbers = {}
for name, value in pairs(math) do numbers[name] = value end
numbers.randomseed = function(number) seed(math.floor(number)) end
numbers.random = function(first, last)
  local share = step() % 0x7fffffff / 0x7fffffff
  if not first then return share end
  if not last then first, last = 1, first end
  if first > last then error('interval is empty', 2) end
  return math.floor(share * (last - first + 1)) + first
end

-- An error of a command is a table, also for a script that catches it.
local function caught(done, ...)
  if done then return done, ... end
  return false, plain((...))
end

local around = {
  redis = redis, server = nil, math = numbers, string = string, table = table, coroutine = coroutine,
  os = { clock = function() return 0 end },
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
  pcall = function(...) return caught(pcall(...)) end, rawequal = rawequal, rawget = rawget, rawset = rawset, select = select, setmetatable = setmetatable,
  tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, xpcall = xpcall, _VERSION = _VERSION,
  KEYS = {}, ARGV = {},
}
around._G = around
around.loadstring = function(text, name)
  local chunk, problem = loadstring(text, name)
  if chunk then setfenv(chunk, around) end
  return chunk, problem
end
setmetatable(around, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
})

-- Runs a script. Whether it came to its end; its value, or an error with the line that raised it.
local function run(script)
  return xpcall(script, describe)
end

return run, around
