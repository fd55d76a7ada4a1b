-- A dissector for Wireshark and tshark 3.4 and later: the data plane of libcoll over TCP (--transport tcp), as
-- docs/WIRE.md describes it. The two other files of this folder have to be beside it.
--
--   wireshark -X lua_script:ringfence.lua FILE.pcap        or copy all three to the folder of personal Lua plugins
--
-- A connection is known by its first bytes, a hello, because ports are random. So a capture has to begin before the
-- job. In frames that are encrypted, heads can be read and bodies cannot.
--
-- ringfence_streams.lua finds out which operation a frame belongs to.

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or "./"
local S = dofile(here .. "ringfence_streams.lua")

local HELLO_MAGIC, FRAME_MAGIC = 0x31546652, 0x32436652 -- RfT1, RfC2
local HELLO_VERSION = 6
local HELLO_BYTES, PROOF_BYTES, HEAD_BYTES = 64, 32, 64
local BODY_BYTES_MAX = 512 * 1024
local FLAG, DATA, CREDIT, FAILED, WAITS = S.FLAG, S.DATA, S.CREDIT, S.FAILED, S.WAITS
local frame_kinds = {
    [1] = "hello", [FLAG] = "flag", [DATA] = "data", [CREDIT] = "credit", [S.GOODBYE] = "goodbye", [FAILED] = "failed",
    [WAITS] = "waits",
}
local kinds, types, reductions, algorithms = S.kinds, S.types, S.reductions, S.algorithms
local type_bytes = S.type_bytes
local auths = S.auths
local tag_bytes = {[0] = 24, [1] = 16, [2] = 0}
local ENCRYPT = 1
local BARRIER = 4
local has_root = {[2] = true, [5] = true, [7] = true, [8] = true}

local ringfence = Proto("ringfence", "Ringfence collectives")
ringfence.prefs.elements =
    Pref.uint("Elements shown", 16, "How many elements of a frame's payload are shown as numbers")

local fields = {}
local function field(make, name, title, ...)
    local made = make("ringfence." .. name, title, ...)
    fields[#fields + 1] = made
    return made
end
local U, H, D = ProtoField, base.HEX, base.DEC
local f = {
    from = field(U.uint32, "from", "From rank", D),
    to = field(U.uint32, "to", "To rank", D),
    version = field(U.uint32, "hello.version", "Version", D),
    rank = field(U.uint32, "hello.rank", "Rank", D),
    peer = field(U.uint32, "hello.peer", "Peer", D),
    world_size = field(U.uint32, "hello.world_size", "Ranks in all", D),
    auth = field(U.uint32, "hello.auth", "Protection of frames (--tcp-auth)", D, auths),
    has_aes = field(U.uint32, "hello.has_aes", "Has AES instructions", D, {[0] = "no", [1] = "yes"}),
    attempt = field(U.uint32, "hello.attempt", "Attempt (0: the listener's answer)", D),
    nonce = field(U.bytes, "hello.nonce", "Nonce"),
    proof = field(U.bytes, "hello.proof", "Proof that the sender knows the key"),
    kind = field(U.uint32, "kind", "Kind of frame", D, frame_kinds),
    communicator = field(U.uint64, "communicator", "Communicator", H),
    number = field(U.uint64, "number", "Number on its connection", D),
    channel = field(U.uint32, "channel", "Channel", D),
    body_bytes = field(U.uint32, "body_bytes", "Bytes of the body", D),
    taken = field(U.uint32, "taken", "Credit: frames that the sender has taken", D),
    tag = field(U.bytes, "tag", "Tag"),
    encrypted = field(U.bytes, "encrypted", "Encrypted body"),
    digest = field(U.uint32, "digest", "Digest of the descriptor", H),
    operation = field(U.uint64, "operation", "Operation", D),
    collective = field(U.int32, "collective", "Kind", D, kinds),
    type = field(U.int32, "type", "Type", D, types),
    count = field(U.uint64, "count", "Count", D),
    reduction = field(U.int32, "reduction", "Reduction", D, reductions),
    root = field(U.int32, "root", "Root", D),
    algorithm = field(U.int32, "algorithm", "Algorithm", D, algorithms),
    counts = field(U.uint32, "counts", "Digest of counts (2: each pair has its own)", H),
    chosen = field(U.int32, "chosen", "Chosen by auto", D, {[0] = "no", [1] = "yes"}),
    element_bytes = field(U.uint32, "element_bytes", "Bytes of an element of the program's own reduction", D),
    reduction_name = field(U.string, "reduction_name", "Name of the program's own reduction"),
    ranks = field(U.bytes, "ranks", "Ranks of the communicator", base.SPACE),
    pair_to = field(U.uint64, "pair.to_bytes", "Bytes that the sender sends to this peer", D),
    pair_from = field(U.uint64, "pair.from_bytes", "Bytes that the sender expects from this peer", D),
    buffers = field(U.bytes, "buffers", "Where the buffers are (used in shared memory only)"),
    phase = field(U.string, "phase", "Phase"),
    round = field(U.uint32, "round", "Round", D),
    block = field(U.uint32, "block", "Block", D),
    blocks = field(U.uint32, "blocks", "Blocks in this send", D),
    chunk = field(U.uint32, "chunk", "Chunk", D),
    offset = field(U.uint64, "offset", "Offset in the vector, bytes", D),
    message = field(U.uint64, "message", "Message", D),
    payload = field(U.bytes, "payload", "Payload"),
    float = field(U.float, "element.float", "Element"),
    double = field(U.double, "element.double", "Element"),
    int = field(U.int64, "element.int", "Element", D),
    uint = field(U.uint64, "element.uint", "Element", D),
    failed_operation = field(U.uint64, "failed.operation", "Operation that failed (0: not about one)", D),
    status = field(U.int32, "failed.status", "Status", D, S.statuses),
    origin = field(U.uint32, "failed.origin", "1 + the rank that failed first (0: the sender)", D),
    gone = field(U.uint64, "failed.gone", "Ranks that the sender knows to have gone, a bit each", H),
    text = field(U.string, "failed.text", "Message"),
    waits = field(U.uint64, "waits", "Ranks that the sender waits for, a bit each", H),
}
ringfence.fields = fields

local e = {
    version = ProtoExpert.new("ringfence.other_version", "Another version of the protocol than this file describes",
        expert.group.UNDECODED, expert.severity.WARN),
    gap = ProtoExpert.new("ringfence.gap", "Frames before this one are not in the capture", expert.group.SEQUENCE,
        expert.severity.WARN),
    broken = ProtoExpert.new("ringfence.broken", "This cannot be a frame", expert.group.MALFORMED,
        expert.severity.ERROR),
    unplanned = ProtoExpert.new("ringfence.unplanned", "The flags before this frame announce no such bytes",
        expert.group.SEQUENCE, expert.severity.WARN),
}
ringfence.experts = {e.version, e.gap, e.broken, e.unplanned}

local tcp_stream = Field.new("tcp.stream")

-- By tcp.stream: {auth, world_size, port (the connector's), connector, listener (ranks), way (by the sender's port)}.
-- A way is one direction: {next (number of its next frame), frames (what is known of each, by number), comms}.
local streams = {}

function ringfence.init()
    streams = {}
end

local function way_of(stream, port)
    stream.way[port] = stream.way[port] or {next = 0, frames = {}, comms = {}}
    return stream.way[port]
end

local function ranks_of(stream, pinfo)
    if pinfo.src_port == stream.port then
        return stream.connector, stream.listener
    end
    return stream.listener, stream.connector
end

local function bytes_text(bytes)
    return bytes == 1 and "1 byte" or bytes .. " bytes"
end

---- What is shown

local function operation_name(d)
    return (kinds[d.kind] or "an unknown operation") .. " #" .. d.sequence
end

-- As libcoll writes it in messages: "all_reduce #17 float × 1024 sum ring".
local function operation_text(d)
    local kind = d.kind > S.DEVICE and d.kind - S.DEVICE or d.kind
    local text = operation_name(d)
    if kind < 1 or kind > 13 or kind == BARRIER then
        return text
    end
    local own = d.element_bytes > 0
    text = text .. " " .. (own and d.element_bytes .. "-byte" or types[d.type] or "?") .. " × " .. d.count
    if d.counts == S.COUNTS_PAIRWISE then
        text = text .. " with counts"
    elseif d.counts ~= 0 then
        text = text .. string.format(" in parts %08x", d.counts)
    end
    if own or d.reduction ~= 0 then
        text = text .. " " .. (own and d.name or reductions[d.reduction] or "?")
    end
    if has_root[kind] then
        text = text .. " root " .. d.root
    end
    return text .. " " .. (algorithms[d.algorithm] or "?")
end

local function half(word) -- IEEE binary16
    local sign = word >= 0x8000 and -1 or 1
    local exponent, fraction = math.floor(word / 1024) % 32, word % 1024
    if exponent == 31 then
        return fraction > 0 and 0 / 0 or sign / 0
    elseif exponent == 0 then
        return sign * fraction * 2 ^ -24
    end
    return sign * (1 + fraction / 1024) * 2 ^ (exponent - 15)
end

local function bfloat16(word)
    local bytes = ByteArray.new(string.format("%04x0000", word))
    return bytes:tvb("bfloat16"):range(0, 4):float()
end

local element_of = {
    [1] = function(tree, range) return tree:add_le(f.float, range) end,
    [2] = function(tree, range) return tree:add_le(f.double, range) end,
    [6] = function(tree, range) return tree:add(f.float, range, half(range:le_uint())) end,
    [7] = function(tree, range) return tree:add(f.float, range, bfloat16(range:le_uint())) end,
}
for _, kind in ipairs({3, 4, 8}) do
    element_of[kind] = function(tree, range) return tree:add_le(f.int, range) end
end
for _, kind in ipairs({5, 9, 10}) do
    element_of[kind] = function(tree, range) return tree:add_le(f.uint, range) end
end

-- A payload as numbers; `first` is the index of its first element in the vector.
local function show_payload(tree, range, type, first)
    local bytes, show = type_bytes[type], element_of[type]
    local item = tree:add(f.payload, range)
    if not show or range:len() % bytes ~= 0 then
        return
    end
    local count = range:len() / bytes
    item:append_text(string.format(", %d × %s", count, types[type]))
    for i = 0, math.min(count, ringfence.prefs.elements) - 1 do
        show(item, range(i * bytes, bytes)):prepend_text(string.format("[%.0f] ", first + i))
    end
    if count > ringfence.prefs.elements then
        item:add(string.format("and %d more (preference \"Elements shown\")", count - ringfence.prefs.elements))
    end
end

local function of_comm(stream, comm)
    return comm and #comm.ranks < stream.world_size and " of ranks " .. table.concat(comm.ranks, " ") or ""
end

local function show_descriptor(tree, tvb, d)
    local at = tree:add(ringfence, tvb(0, S.DESCRIPTOR_BYTES), "Descriptor: " .. operation_text(d))
    at:add_le(f.operation, tvb(0, 8))
    at:add_le(f.count, tvb(8, 8))
    at:add_le(f.collective, tvb(16, 4))
    at:add_le(f.type, tvb(20, 4))
    at:add_le(f.reduction, tvb(24, 4))
    at:add_le(f.root, tvb(28, 4))
    at:add_le(f.algorithm, tvb(32, 4))
    at:add_le(f.counts, tvb(36, 4))
    at:add_le(f.chosen, tvb(40, 4))
    at:add_le(f.element_bytes, tvb(44, 4))
    at:add(f.reduction_name, tvb(48, 16), d.name)
end

local function show_flag(stream, tree, body, known)
    local d = known.d
    tree:add_le(f.digest, body(0, 4))
    show_descriptor(tree, body(S.WORD_BYTES, S.DESCRIPTOR_BYTES), d)
    local text = "flag: " .. operation_text(d) .. of_comm(stream, known.comm)
    local bytes = body:len() - S.FLAG_BYTES
    if bytes == 0 then
        return text
    end
    local payload = body(S.FLAG_BYTES, bytes)
    if d.kind == S.COMM_CREATE and d.sequence == 1 then
        tree:add(f.ranks, payload)
    elseif known.pair then
        tree:add_le(f.pair_to, payload(0, 8))
        tree:add_le(f.pair_from, payload(8, 8))
        return text
    elseif not known.inline then
        tree:add(f.buffers, payload)
        return text
    else
        show_payload(tree, payload, d.element_bytes == 0 and d.type or 0, 0)
    end
    return text .. ", with " .. bytes_text(bytes)
end

local function show_message(tree, body, known)
    local m = known.message
    tree:add(f.message, body, UInt64(m.sequence)):set_generated()
    local data = body
    if known.first then
        tree:add_le(f.type, body(4, 4))
        tree:add_le(f.count, body(16, 8))
        data = known.first > 0 and body(S.MESSAGE_HEAD_BYTES, known.first) or nil
    end
    tree:add(f.offset, body, UInt64(known.at)):set_generated()
    if data then
        show_payload(tree, data, m.type, math.floor(known.at / (type_bytes[m.type] or 1)))
    end
    return string.format("message #%.0f %s × %.0f: offset %.0f, %s", m.sequence, types[m.type] or "?", m.count, known.at,
        bytes_text(data and data:len() or 0))
end

local function show_data(stream, tree, body, head, known)
    local size = bytes_text(body:len())
    if known.unplanned then
        tree:add_proto_expert_info(e.unplanned)
    end
    if known.message then
        return show_message(tree, body, known)
    elseif not known.d then
        tree:add(f.payload, body)
        return string.format("data: channel %d, %s", head.channel, size)
    end
    local d, send = known.d, known.send
    local function note(name, value)
        if value then
            tree:add(f[name], body, value):set_generated()
        end
    end
    note("operation", UInt64(d.sequence))
    note("collective", d.kind)
    note("algorithm", d.algorithm)
    local text = string.format("data: %s %s%s", operation_name(d), algorithms[d.algorithm] or "?",
        of_comm(stream, known.comm))
    if not send then
        show_payload(tree, body, d.element_bytes == 0 and d.type or 0, 0)
        return text .. ", " .. size
    end
    note("phase", send.phase)
    note("round", send.round)
    note("block", send.block)
    note("blocks", send.count)
    note("chunk", known.chunk)
    note("offset", UInt64(known.at))
    show_payload(tree, body, d.element_bytes == 0 and d.type or 0, math.floor(known.at / S.element_bytes_of(d)))
    local what = send.count > 1 and string.format("blocks %d to %d", send.block, send.block + send.count - 1)
        or "block " .. send.block
    return string.format("%s: %s%s, %s, %s%s", text, send.phase, send.round and " round " .. send.round or "", what,
        known.is_whole and "" or "chunk " .. known.chunk .. ", ", size)
end

local function show_failed(tree, body)
    tree:add_le(f.failed_operation, body(0, 8))
    tree:add_le(f.status, body(8, 4))
    tree:add_le(f.origin, body(12, 4))
    tree:add_le(f.gone, body(16, 8))
    local text = body:len() > 24 and body(24):string(ENC_UTF_8) or ""
    tree:add(f.text, body, text)
    return "failed: " .. text
end

local function show_waits(tree, body)
    local item = tree:add_le(f.waits, body)
    local ranks = {}
    for byte = 0, 7 do
        for bit = 0, 7 do
            if math.floor(body(byte, 1):uint() / 2 ^ bit) % 2 == 1 then
                ranks[#ranks + 1] = 8 * byte + bit
            end
        end
    end
    local text = #ranks == 0 and "no longer" or "for rank " .. table.concat(ranks, ", ")
    item:append_text(" (" .. text .. ")")
    return "waits " .. text
end

local function credit_text(head)
    local texts = {}
    for channel = 0, S.CHANNELS - 1 do
        if head.taken[channel + 1] > 0 then
            texts[#texts + 1] = head.taken[channel + 1] .. " of channel " .. channel
        end
    end
    return "credit: frames taken: " .. table.concat(texts, ", ")
end

local function show_body(stream, tree, body, head, known)
    if stream.auth == ENCRYPT and body then
        tree:add(f.encrypted, body)
        return string.format("%s: %s encrypted", frame_kinds[head.kind], bytes_text(body:len()))
    elseif head.kind == FLAG and known.d then
        return show_flag(stream, tree, body, known)
    elseif head.kind == DATA and body then
        return show_data(stream, tree, body, head, known)
    elseif head.kind == FAILED and body and body:len() >= 24 then
        return show_failed(tree, body)
    elseif head.kind == WAITS and body and body:len() == 8 then
        return show_waits(tree, body)
    elseif head.kind == CREDIT then
        return credit_text(head)
    end
    return frame_kinds[head.kind] or "?"
end

local function show_head(tree, tvb, head)
    local at = tree:add(ringfence, tvb(0, HEAD_BYTES), "Head: " .. (frame_kinds[head.kind] or "?"))
    at:add_le(f.kind, tvb(4, 4))
    at:add_le(f.communicator, tvb(8, 8))
    at:add_le(f.number, tvb(16, 8))
    at:add_le(f.channel, tvb(24, 4))
    at:add_le(f.body_bytes, tvb(28, 4))
    for channel = 0, S.CHANNELS - 1 do
        at:add_le(f.taken, tvb(32 + 4 * channel, 4)):append_text(" of channel " .. channel)
    end
end

local function dissect_frame(stream, tvb, pinfo, tree)
    local from, to = ranks_of(stream, pinfo)
    local way = way_of(stream, pinfo.src_port)
    local head = {
        kind = tvb(4, 4):le_uint(), id = tvb(8, 8):bytes():tohex(), number = S.number_of(tvb(16, 8)),
        channel = tvb(24, 4):le_uint(), bytes = tvb(28, 4):le_uint(), taken = {},
    }
    for channel = 0, S.CHANNELS - 1 do
        head.taken[channel + 1] = tvb(32 + 4 * channel, 4):le_uint()
    end
    local body = head.bytes > 0 and tvb(HEAD_BYTES, head.bytes) or nil
    local known = way.frames[head.number]
    if not known then
        local gap = head.number ~= way.next
        if gap then
            S.forget(way)
        end
        known = body and stream.auth ~= ENCRYPT and S.learn(way, head, body, from, to) or {}
        known.gap, known.kind, known.bytes = gap, head.kind, head.bytes
        way.frames[head.number], way.next = known, head.number + 1
    end
    if known.kind ~= head.kind or known.bytes ~= head.bytes then -- another frame with the number of one before
        known = {}
    end
    if from then
        tree:add(f.from, tvb(0, 0), from):set_generated()
        tree:add(f.to, tvb(0, 0), to):set_generated()
    end
    show_head(tree, tvb, head)
    if known.gap then
        tree:add_proto_expert_info(e.gap)
    end
    local text = show_body(stream, tree, body, head, known)
    local tag = tag_bytes[stream.auth] or 0
    if tag > 0 then
        tree:add(f.tag, tvb(HEAD_BYTES + head.bytes, tag))
    end
    return text
end

local function dissect_hello(stream, tvb, pinfo, tree)
    local version, rank, peer = tvb(4, 4):le_uint(), tvb(8, 4):le_uint(), tvb(12, 4):le_uint()
    local attempt = tvb(28, 4):le_uint()
    if attempt > 0 then
        stream.port, stream.connector, stream.listener = pinfo.src_port, rank, peer
    end
    stream.world_size, stream.auth = tvb(16, 4):le_uint(), tvb(20, 4):le_uint()
    tree:add_le(f.version, tvb(4, 4))
    tree:add_le(f.rank, tvb(8, 4))
    tree:add_le(f.peer, tvb(12, 4))
    tree:add_le(f.world_size, tvb(16, 4))
    tree:add_le(f.auth, tvb(20, 4))
    tree:add_le(f.has_aes, tvb(24, 4))
    tree:add_le(f.attempt, tvb(28, 4))
    tree:add(f.nonce, tvb(32, 32))
    tree:add(f.proof, tvb(HELLO_BYTES, PROOF_BYTES))
    if version ~= HELLO_VERSION then
        tree:add_proto_expert_info(e.version)
    end
    return string.format("hello of rank %d of %d, --tcp-auth %s", rank, stream.world_size, auths[stream.auth] or "?")
end

local function stream_now()
    local id = tcp_stream().value
    streams[id] = streams[id] or {auth = 2, world_size = 0, way = {}}
    return streams[id]
end

-- 0: no frame can be found here.
local function pdu_bytes(tvb, _, offset)
    local magic = tvb(offset, 4):le_uint()
    if magic == HELLO_MAGIC then
        return HELLO_BYTES + PROOF_BYTES
    elseif magic ~= FRAME_MAGIC then
        return PROOF_BYTES
    end
    local bytes = tvb(offset + 28, 4):le_uint()
    return HEAD_BYTES + (bytes <= BODY_BYTES_MAX and bytes or 0) + (tag_bytes[stream_now().auth] or 0)
end

local texts = {} -- of the packet's PDUs so far
local texts_of

local function dissect_pdu(tvb, pinfo, tree)
    local stream = stream_now()
    local magic = tvb(0, 4):le_uint()
    local at = tree:add(ringfence, tvb())
    local text
    if magic == HELLO_MAGIC then
        text = dissect_hello(stream, tvb, pinfo, at)
    elseif magic == FRAME_MAGIC and tvb(28, 4):le_uint() <= BODY_BYTES_MAX then
        text = dissect_frame(stream, tvb, pinfo, at)
    elseif tvb:len() == PROOF_BYTES and pinfo.src_port == stream.port then
        at:add(f.proof, tvb())
        text = "proof"
    else
        at:add_proto_expert_info(e.broken)
        text = "no frame"
    end
    at:append_text(", " .. text)
    local from, to = ranks_of(stream, pinfo)
    if #texts == 0 and from then
        text = string.format("%d → %d  %s", from, to, text)
    end
    texts[#texts + 1] = text
    pinfo.cols.info = table.concat(texts, "; ")
    return tvb:len()
end

function ringfence.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "Ringfence"
    if texts_of ~= pinfo.number then -- a packet's bytes may come in two calls
        texts, texts_of = {}, pinfo.number
    end
    dissect_tcp_pdus(tvb, tree, 32, pdu_bytes, dissect_pdu)
    return tvb:len()
end

ringfence:register_heuristic("tcp", function(tvb, pinfo, tree)
    if tvb:len() < 12 or tvb(0, 4):le_uint() ~= HELLO_MAGIC then
        return false
    end
    pinfo.conversation = ringfence
    ringfence.dissector(tvb, pinfo, tree)
    return true
end)
