-- Writes what collectives/wireshark says of the plans and names that dump_plans has written:
--   tshark -G protocols -X lua_script:plans.lua -X lua_script1:FOLDER_OF_THE_DISSECTOR -X lua_script1:IN -X lua_script1:OUT
local folder, from, to = ...
local plan = dofile(folder .. "/ringfence_plan.lua")
local streams = dofile(folder .. "/ringfence_streams.lua")
local out = assert(io.open(to, "w"))

local function write_sends(p)
    local sends = plan.sends(p)
    for i, send in ipairs(sends) do
        send.order = i
    end
    table.sort(sends, function(a, b)
        if a.peer ~= b.peer then
            return a.peer < b.peer
        elseif a.channel ~= b.channel then
            return a.channel < b.channel
        end
        return a.order < b.order
    end)
    for _, send in ipairs(sends) do
        out:write(string.format("send %d %d %d %d\n", send.peer, send.channel, send.block, send.count))
    end
end

for line in io.lines(from) do
    local what, number = line:match("^name (%S+) (%S+)")
    local kind, algorithm, ranks, rank, root = line:match("^plan (%d+) (%d+) (%d+) (%d+) (%d+)")
    if what then
        out:write(string.format("name %s %s %s\n", what, number, tostring(streams[what][tonumber(number)])))
    elseif kind then
        local p = {
            kind = tonumber(kind), algorithm = tonumber(algorithm), ranks = tonumber(ranks), rank = tonumber(rank),
            root = tonumber(root),
        }
        out:write(string.format("plan %s %s %s %s %s %d %s\n", kind, algorithm, ranks, rank, root, plan.block_count(p),
            plan.is_canonical(p) and "canonical" or "own"))
        write_sends(p)
    end
end
out:close()
