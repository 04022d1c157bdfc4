-- What a script finds around it, made of Lua's own libraries and two functions of the server's. The rest of what Redis has
-- is left out, what is random first of all.
local call, describe = ...

local around = {
  redis = { call = call }, string = string, table = table, error = error, ipairs = ipairs, next = next, pairs = pairs,
  select = select, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, KEYS = {}, ARGV = {},
}
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
