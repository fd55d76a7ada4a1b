-- What each frame of a stream is: ringfence.lua hands the frames of a connection to `learn` in their order, once.
--
-- A flag names its operation; a frame of data does not. But a rank sends the data of its operations in their order,
-- and each algorithm says what that is (ringfence_plan.lua). So flags put into a queue what their operation sends, and
-- frames of data take it out again. There is a queue for each sender, receiver, communicator and channel.

local M = {}

M.FLAG, M.DATA, M.CREDIT, M.GOODBYE, M.FAILED, M.WAITS = 2, 3, 4, 5, 6, 7
M.WORD_BYTES, M.DESCRIPTOR_BYTES = 8, 64
M.FLAG_BYTES = M.WORD_BYTES + M.DESCRIPTOR_BYTES -- then the payload
M.CHANNELS, M.MESSAGE_CHANNEL = 3, 2
M.MESSAGE_HEAD_BYTES = 64
M.COUNTS_PAIRWISE = 2
M.COMM_CREATE, M.DEVICE = 101, 200

local RANKS_MAX = 64 -- of a job (BASE_COLL_RANKS_MAX)
local MESSAGE_MAGIC, MESSAGE_FIRST_BYTES = 0x31744f50, 256 -- POt1
local INLINE_BYTES_MAX = 16384
local ALL_GATHER, BARRIER, GATHER, ALL_TO_ALL, KIND_LAST = 3, 4, 7, 9, 13
local SUM, PRODUCT, AVERAGE, FLOAT16, BFLOAT16, DIRECT = 1, 4, 5, 6, 7, 3

-- Names as libcoll's messages have them (common/names.c).
M.kinds = {
    [1] = "all_reduce", [2] = "broadcast", [3] = "all_gather", [4] = "barrier", [5] = "reduce",
    [6] = "reduce_scatter", [7] = "gather", [8] = "scatter", [9] = "alltoall", [10] = "send", [11] = "receive",
    [12] = "scan", [13] = "exscan", [100] = "arena_create", [101] = "comm_create", [102] = "comm_split",
    [103] = "device_open", [104] = "device_made", [105] = "device_captured",
}
for kind = 1, KIND_LAST do
    M.kinds[M.DEVICE + kind] = M.kinds[kind] .. " on a stream"
end
M.types = {
    [0] = "none",
    [1] = "float", [2] = "double", [3] = "int32", [4] = "int64", [5] = "uint8", [6] = "half", [7] = "bfloat16",
    [8] = "int8", [9] = "uint64", [10] = "uint32",
}
M.reductions = {
    [0] = "none",
    [1] = "sum", [2] = "min", [3] = "max", [4] = "prod", [5] = "avg", [6] = "and", [7] = "or", [8] = "xor",
}
M.algorithms = {
    [0] = "auto", [1] = "ring", [2] = "tree", [3] = "direct", [4] = "recursive_doubling", [5] = "halving_doubling",
    [6] = "two_level", [64] = "native",
}
M.auths = {[0] = "mac", [1] = "encrypt", [2] = "off"}
M.statuses = {
    [0] = "ok", [-1] = "invalid", [-2] = "input/output error", [-3] = "out of memory", [-4] = "timeout",
    [-5] = "aborted", [-6] = "mismatch", [-7] = "peer failed", [-8] = "limit exceeded", [-9] = "unsupported",
    [-10] = "wrong state", [-11] = "not authenticated", [-12] = "busy", [-13] = "not found",
}

M.type_bytes = {4, 8, 4, 8, 1, 2, 2, 1, 8, 4}
local type_bytes = M.type_bytes

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
local plan = dofile(here .. "ringfence_plan.lua")

local function number_of(range) -- below 2^53
    return range:le_uint64():tonumber()
end
M.number_of = number_of

local function read_descriptor(tvb)
    return {
        sequence = number_of(tvb(0, 8)), count = number_of(tvb(8, 8)), kind = tvb(16, 4):le_int(),
        type = tvb(20, 4):le_int(), reduction = tvb(24, 4):le_int(), root = tvb(28, 4):le_int(),
        algorithm = tvb(32, 4):le_int(), counts = tvb(36, 4):le_uint(), element_bytes = tvb(44, 4):le_uint(),
        name = tvb(48, 16):stringz(),
    }
end

function M.element_bytes_of(d)
    return d.element_bytes > 0 and d.element_bytes or type_bytes[d.type] or 1
end

local function inline_bytes(ranks)
    return ranks <= 2 and INLINE_BYTES_MAX or math.floor(2 * INLINE_BYTES_MAX / ranks / 64) * 64
end

-- Whether the operand goes with the flags, or there is none (first_protocol in core/op.c).
local function is_inline(d, p, pair)
    local gathers = d.kind == ALL_GATHER or d.kind == GATHER
    if d.kind < 1 or d.kind > KIND_LAST or d.kind == BARRIER then
        return true
    elseif pair or (gathers and d.counts ~= 0) then -- of the second, the longest part is not known
        return false
    end
    local parts = (gathers or d.counts ~= 0 or not plan.is_by_rank(d.kind)) and 1 or p.ranks
    local shown = d.count * M.element_bytes_of(d) * parts
    local rounds = (d.type == FLOAT16 or d.type == BFLOAT16)
        and (d.reduction == SUM or d.reduction == PRODUCT or d.reduction == AVERAGE)
    local own_order = plan.reduces(d.kind) and (not plan.is_canonical(p) or (rounds and d.algorithm ~= DIRECT))
    return shown == 0 or (shown <= inline_bytes(p.ranks) and not own_order)
end

-- Bytes [begin, finish) of the whole vector that a send has.
local function range_of(d, p, send)
    local bytes = M.element_bytes_of(d)
    local function position(block)
        if plan.is_by_rank(d.kind) then
            return block * d.count * bytes
        end
        local blocks = plan.block_count(p)
        local share = math.floor(d.count / blocks)
        return (share * block + math.min(block, d.count % blocks)) * bytes
    end
    return position(send.block), position(send.block + send.count)
end

-- Adds what a flag announces to the queues of its communicator. True: nothing, as the operand goes with the flags.
local function announce(comm, d, pair)
    local p = {kind = d.kind, algorithm = d.algorithm, ranks = #comm.ranks, rank = comm.rank, root = d.root}
    if is_inline(d, p, pair) then
        return true
    end
    local sends = plan.sends(p)
    if not sends or (d.counts ~= 0 and not pair) then -- cannot be told which bytes go: see taken_by
        for channel = 0, M.CHANNELS - 2 do
            table.insert(comm.queues[channel], {d = d})
        end
        return false
    end
    for _, send in ipairs(sends) do
        if send.peer == comm.peer then
            local begin, finish = range_of(d, p, send)
            if pair then
                begin, finish = 0, pair.to_bytes
            end
            if finish > begin then
                table.insert(comm.queues[send.channel], {d = d, send = send, at = begin, finish = finish, chunk = 0})
            end
        end
    end
    return false
end

-- Whether so many bytes are what a frame of this send has now: a chunk, or what is left of it (chunk_bytes in net.c;
-- 32 KiB where the communicator uses shared memory as well).
local function fits(entry, comm, bytes)
    local left = entry.finish - entry.at
    local chunk = #comm.ranks <= 4 and 524288 or #comm.ranks <= 16 and 262144 or 131072
    local element = M.element_bytes_of(entry.d)
    return bytes == math.min(left, chunk - chunk % element) or bytes == math.min(left, 32768 - 32768 % element)
end

-- What a frame of data is: takes it from its stream's queue. An entry without a send is of an operation whose bytes are
-- not known; it ends where another begins. Which of several such has a frame, nothing tells: the newest is most likely.
local function taken_by(comm, channel, bytes)
    local queue = comm.queues[channel]
    while #queue > 1 and not queue[1].send and (not queue[2].send or fits(queue[2], comm, bytes)) do
        table.remove(queue, 1)
    end
    local first = queue[1]
    if not first then
        return {unplanned = comm.complete}
    elseif not first.send then
        return {d = first.d}
    end
    local found = {d = first.d, send = first.send, at = first.at, chunk = first.chunk}
    found.unplanned = not fits(first, comm, bytes)
    found.is_whole = first.chunk == 0 and first.at + bytes == first.finish -- a send in one frame
    first.at, first.chunk = first.at + bytes, first.chunk + 1
    if first.at >= first.finish then
        table.remove(queue, 1)
    end
    return found
end

local function index_of(list, value)
    for i, item in ipairs(list) do
        if item == value then
            return i - 1
        end
    end
end

local function open_comm(ranks, from, to)
    local comm = {ranks = ranks, rank = index_of(ranks, from), peer = index_of(ranks, to), complete = true}
    comm.queues = {[0] = {}, [1] = {}}
    return comm.rank and comm.peer and comm or nil
end

-- Of a communicator's first operation, the payload is its list of ranks.
local function learn_flag(way, id, d, body, from, to)
    local payload_bytes = body:len() - M.FLAG_BYTES
    if d.kind == M.COMM_CREATE and d.sequence == 1 and payload_bytes <= RANKS_MAX then
        local ranks = {}
        for i = 0, payload_bytes - 1 do
            ranks[#ranks + 1] = body(M.FLAG_BYTES + i, 1):uint()
        end
        way.comms[id] = open_comm(ranks, from, to)
    end
    local comm = way.comms[id]
    local pair = d.kind == ALL_TO_ALL and d.counts == M.COUNTS_PAIRWISE and payload_bytes == 16
        and {to_bytes = number_of(body(M.FLAG_BYTES, 8))} or nil
    return {d = d, comm = comm, pair = pair, inline = not comm or announce(comm, d, pair)}
end

-- A message is a frame with its head and the first bytes, then frames with the others.
local function learn_message(way, id, body)
    local at = way.messages and way.messages[id]
    if at and at.left > 0 then
        local found = {message = at, at = at.done}
        at.left, at.done = at.left - body:len(), at.done + body:len()
        return found
    end
    if body:len() ~= MESSAGE_FIRST_BYTES or body(0, 4):le_uint() ~= MESSAGE_MAGIC then
        return {unplanned = true}
    end
    local message = {type = body(4, 4):le_int(), sequence = number_of(body(8, 8)), count = number_of(body(16, 8))}
    local bytes = message.count * (type_bytes[message.type] or 1)
    local first = math.min(bytes, MESSAGE_FIRST_BYTES - M.MESSAGE_HEAD_BYTES)
    message.left, message.done = bytes - first, first
    way.messages = way.messages or {}
    way.messages[id] = message
    return {message = message, at = 0, first = first}
end

-- What a frame with this head and body is, of a sender with the rank `from`; `way` is kept between calls.
function M.learn(way, head, body, from, to)
    if head.kind == M.FLAG and body:len() >= M.FLAG_BYTES then
        return learn_flag(way, head.id, read_descriptor(body(M.WORD_BYTES, M.DESCRIPTOR_BYTES)), body, from, to)
    elseif head.kind == M.DATA and head.channel == M.MESSAGE_CHANNEL then
        return learn_message(way, head.id, body)
    elseif head.kind == M.DATA and way.comms[head.id] then
        local comm = way.comms[head.id]
        local found = taken_by(comm, head.channel, body:len())
        found.comm = comm
        return found
    end
    return {}
end

-- After frames that were not captured, what was announced is not known.
function M.forget(way)
    for _, comm in pairs(way.comms) do
        comm.complete, comm.queues = false, {[0] = {}, [1] = {}}
    end
    way.messages = nil
end

return M
