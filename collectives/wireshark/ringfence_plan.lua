-- What a rank sends in an operation, by each algorithm: which blocks, to whom, in which order. The same
-- arithmetic as collectives/plan/*.c, whose head comments explain the algorithms; only sends are here, and not
-- what a rank does with what comes. ringfence_streams.lua loads this file, to say of a frame which bytes it has.
-- `ctest -R coll-wireshark-plan` compares every send with the C of collectives/plan.
--
-- A plan is {kind, algorithm, ranks, rank, root}, with the numbers of coll.h. sends(plan) is a list in the order of
-- each stream (a peer and a channel): {peer, channel, block, count, phase, round}. `count` blocks from `block` on;
-- `round`, as coll-simulate --trace counts them, only where an algorithm has rounds. nil: not known here.
--
-- Lua 5.1 to 5.4: no integer division, no operators on bits.

local M = {}

local ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE, REDUCE_SCATTER = 1, 2, 3, 5, 6
local GATHER, SCATTER, ALL_TO_ALL, SCAN, EXSCAN = 7, 8, 9, 12, 13

local names = {
    [ALL_REDUCE] = "all-reduce", [BROADCAST] = "broadcast", [ALL_GATHER] = "all-gather", [REDUCE] = "reduce",
    [REDUCE_SCATTER] = "reduce-scatter", [GATHER] = "gather", [SCATTER] = "scatter", [ALL_TO_ALL] = "all-to-all",
    [SCAN] = "scan", [EXSCAN] = "exscan",
}

local function div(a, b)
    return math.floor(a / b)
end

local function bit_set(number, bit)
    return div(number, bit) % 2 == 1
end

-- number XOR bit
local function swap_bit(number, bit)
    return bit_set(number, bit) and number - bit or number + bit
end

local function lowest_bit(number)
    local bit = 1
    while number > 0 and not bit_set(number, bit) do
        bit = 2 * bit
    end
    return number > 0 and bit or 0
end

local function top_power(ranks)
    local power = 1
    while 2 * power <= ranks do
        power = 2 * power
    end
    return power
end

local function is_scan(kind)
    return kind == SCAN or kind == EXSCAN
end

-- Whether block b is rank b's part.
function M.is_by_rank(kind)
    return kind == ALL_GATHER or kind == REDUCE_SCATTER or kind == GATHER or kind == SCATTER or kind == ALL_TO_ALL
end

function M.reduces(kind)
    return kind == ALL_REDUCE or kind == REDUCE or kind == REDUCE_SCATTER or is_scan(kind)
end

-- Each algorithm below calls send(peer, block, phase, options): one block in channel 0, if options say nothing else.

local function ring(p, send)
    local n, rank = p.ranks, p.rank
    if is_scan(p.kind) then
        if rank < n - 1 then
            send(rank + 1, 0, names[p.kind])
        end
    elseif p.kind == BROADCAST or p.kind == REDUCE then
        local place = (rank - p.root - (p.kind == REDUCE and 1 or 0)) % n
        if place < n - 1 then
            send((rank + 1) % n, 0, names[p.kind])
        end
    else
        local combining = p.kind == ALL_GATHER and 0 or n - 1
        local copying = p.kind == REDUCE_SCATTER and 0 or n - 1
        local first = combining > 0 and rank - 1 or rank
        for round = 0, combining + copying - 1 do
            local phase = round < combining and "reduce-scatter" or "all-gather"
            send((rank + 1) % n, (first - round) % n, phase, {round = round})
        end
    end
end

local function direct(p, send)
    local n, rank, kind = p.ranks, p.rank, p.kind
    local is_root = rank == p.root
    local function to_each(block_of, phase, options)
        for place = 1, n - 1 do
            local peer = (rank + place) % n
            send(peer, block_of == "peer" and peer or block_of, phase, options)
        end
    end
    if kind == ALL_REDUCE or kind == REDUCE or kind == REDUCE_SCATTER then
        to_each("peer", "reduce-scatter", {round = 0})
        if kind == ALL_REDUCE then
            to_each(rank, "all-gather", {channel = 1, round = 1})
        elseif kind == REDUCE and not is_root then
            send(p.root, rank, "gather", {channel = 1, round = 1})
        end
    elseif is_scan(kind) then
        for peer = rank + 1, n - 1 do
            send(peer, 0, names[kind])
        end
    elseif kind == ALL_GATHER or kind == ALL_TO_ALL then
        to_each(kind == ALL_TO_ALL and "peer" or rank, names[kind])
    elseif kind == GATHER and not is_root then
        send(p.root, rank, names[kind])
    elseif kind ~= GATHER and is_root then
        to_each(kind == SCATTER and "peer" or 0, names[kind])
    end
end

-- Recursive doubling of an all-reduce. Where the other group is short, its value is spread beside the exchanges.
local function doubling(p, send)
    local n, rank = p.ranks, p.rank
    local bit, round = 1, 0
    while bit < n do
        local begin = rank - rank % bit
        local other = swap_bit(begin, bit)
        if other < n then
            local rest = n - other
            local offset = rank - begin
            if rest >= bit or offset < rest then
                send(swap_bit(rank, bit), 0, "exchange", {round = round})
            end
            if rest < bit then
                local reach = rest
                while reach <= offset do
                    reach = 2 * reach
                end
                while offset + reach < bit do
                    send(begin + offset + reach, 0, "spread", {channel = 1, round = round})
                    reach = 2 * reach
                end
            end
        end
        bit, round = 2 * bit, round + 1
    end
end

local function segment_of(p)
    local at = {begin = 0, left = 0, size = top_power(p.ranks)}
    local rest = p.ranks - at.size
    while p.rank >= at.begin + at.size do
        at.begin = at.begin + at.size
        at.left = at.size
        at.size = top_power(rest)
        rest = rest - at.size
    end
    at.offset = p.rank - at.begin
    at.right = rest > 0 and top_power(rest) or 0
    at.log = 0
    while 2 ^ at.log < at.size do
        at.log = at.log + 1
    end
    return at
end

-- What the rank with an offset works on after so many rounds of halving: first piece, and how many.
local function pieces_of(p, offset, rounds)
    local begin, count = 0, top_power(p.ranks)
    for t = 0, rounds - 1 do
        count = div(count, 2)
        if bit_set(offset, 2 ^ t) then
            begin = begin + count
        end
    end
    return begin, count
end

local function halving(p, send)
    local at = segment_of(p)
    local top = top_power(p.ranks)
    local function first_block(piece)
        return p.kind == REDUCE_SCATTER and div(piece * p.ranks, top) or piece
    end
    local function send_pieces(peer, offset, rounds, phase, options)
        local begin, count = pieces_of(p, offset, rounds)
        options = options or {}
        options.count = first_block(begin + count) - first_block(begin)
        send(peer, first_block(begin), phase, options)
    end
    for round = 0, at.log - 1 do
        local partner = swap_bit(at.offset, 2 ^ round)
        send_pieces(at.begin + partner, partner, round + 1, "reduce-scatter", {round = round})
    end
    for index = 0, (at.left > 0 and at.left / at.size or 0) - 1 do -- to the segment on the left
        local offset, log = at.offset + index * at.size, 0
        while 2 ^ log < at.left do
            log = log + 1
        end
        send_pieces(at.begin - at.left + offset, offset, log, "reduce-scatter to the left")
    end
    if p.kind == ALL_REDUCE then
        if at.right > 0 then
            send_pieces(at.begin + at.size + at.offset % at.right, at.offset, at.log, "all-gather to the right")
        end
        for round = at.log - 1, 0, -1 do
            local partner = swap_bit(at.offset, 2 ^ round)
            send_pieces(at.begin + partner, at.offset, round + 1, "all-gather", {round = 2 * at.log - 1 - round})
        end
    elseif p.kind == REDUCE then
        if p.rank ~= p.root and at.left == 0 then
            send_pieces(p.root, at.offset, at.log, "gather", {channel = 1})
        end
    elseif at.left == 0 then
        local mine = pieces_of(p, at.offset, at.log)
        for block = first_block(mine), first_block(mine + 1) - 1 do
            if block ~= p.rank then
                send(block, block, "scatter", {channel = 1})
            end
        end
    end
end

-- Two trees, each for one half of the vector.
local function tree(p, send)
    local has_root = p.kind ~= ALL_REDUCE
    local span = has_root and p.ranks - 1 or p.ranks
    local function rank_at(position, number)
        local index = position
        if number == 1 then
            index = span % 2 == 0 and span - 1 - position or (position + 1) % span
        end
        return has_root and (p.root + 1 + index) % p.ranks or index
    end
    for number = 0, 1 do
        local options = {channel = number}
        if has_root and p.rank == p.root then
            if p.kind == BROADCAST then
                send(rank_at(0, number), number, "broadcast down the tree", options)
            end
        else
            local index = has_root and (p.rank - p.root - 1) % p.ranks or p.rank
            local position = index
            if number == 1 then
                position = span % 2 == 0 and span - 1 - index or (index + span - 1) % span
            end
            local bit = lowest_bit(position)
            local parent = has_root and p.root or nil
            if position > 0 then
                local above = position - bit
                above = bit_set(above, 2 * bit) and above or above + 2 * bit
                parent = rank_at(above < span and above or position - bit, number)
            end
            local step = position == 0 and top_power(span) or div(bit, 2)
            while step > 0 and position + step >= span do
                step = div(step, 2)
            end
            if p.kind ~= BROADCAST and parent then
                send(parent, number, "reduce up the tree", options)
            end
            if p.kind ~= REDUCE and bit > 1 then
                send(rank_at(position - bit / 2, number), number, "broadcast down the tree", options)
            end
            if p.kind ~= REDUCE and step > 0 then
                send(rank_at(position + step, number), number, "broadcast down the tree", options)
            end
        end
    end
end

-- Merges of groups in which this rank takes part as a holder, from the leaves up.
local function merges_of(p)
    local found = {}
    local function holder(begin, size)
        return p.root - p.root % size == begin and p.root or begin
    end
    local size = 1
    while size < p.ranks do
        local begin = p.rank - p.rank % size
        if holder(begin, size) ~= p.rank then
            break
        end
        local other = swap_bit(begin, size)
        if other < p.ranks then
            local merge = {size = size, begin = begin, peer = holder(other, size), peer_begin = other}
            merge.gives_way = holder(p.rank - p.rank % (2 * size), 2 * size) ~= p.rank
            found[#found + 1] = merge
            if merge.gives_way then
                break
            end
        end
        size = 2 * size
    end
    return found
end

local function binomial(p, send)
    local merges = merges_of(p)
    local last = merges[#merges]
    local function count(begin, size)
        return math.min(begin + size, p.ranks) - begin
    end
    if p.kind == REDUCE or p.kind == GATHER then
        if last and last.gives_way then
            local gathers = p.kind == GATHER
            send(last.peer, gathers and last.begin or 0, names[p.kind],
                {count = gathers and count(last.begin, last.size) or 1})
        end
        return
    end
    for i = #merges, 1, -1 do
        local at = merges[i]
        if not at.gives_way then
            local scatters = p.kind == SCATTER
            send(at.peer, scatters and at.peer_begin or 0, names[p.kind],
                {count = scatters and count(at.peer_begin, at.size) or 1})
        end
    end
end

local function dissemination(p, send)
    local n, rank = p.ranks, p.rank
    local deals = p.kind == BROADCAST
    if deals and rank == p.root then
        for place = 1, n - 1 do
            local peer = (rank + place) % n
            send(peer, peer, "scatter")
        end
    end
    local reach, round = 1, 0
    while reach < n do
        local count = math.min(reach, n - reach)
        local peer = (rank - reach) % n
        local head = math.min(count, n - rank)
        local options = {channel = deals and 1 or 0, round = round, count = head}
        if not (deals and peer == p.root) then
            send(peer, rank, "all-gather", options)
            if head < count then
                options.count = count - head
                send(peer, 0, "all-gather", options)
            end
        end
        reach, round = 2 * reach, round + 1
    end
end

local function scan(p, send)
    local bit, round = 1, 0
    while bit < p.ranks do
        local upper = bit_set(p.rank, bit)
        local peer = swap_bit(p.rank, bit)
        local keeps = p.rank - p.rank % (2 * bit) + 2 * bit < p.ranks
        if (upper and keeps) or (not upper and peer < p.ranks) then
            send(peer, 0, names[p.kind], {round = round})
        end
        bit, round = 2 * bit, round + 1
    end
end

-- An algorithm that has no form of its own for a kind lends it from another (the table of plan.c). two_level needs
-- to know which ranks share a host, which no frame says; what it lends is here all the same.
local RING, TREE, DIRECT, RECURSIVE_DOUBLING, HALVING_DOUBLING, TWO_LEVEL = 1, 2, 3, 4, 5, 6

local function others(reduce, broadcast)
    return {
        [REDUCE] = reduce, [REDUCE_SCATTER] = halving, [ALL_GATHER] = dissemination, [BROADCAST] = broadcast,
        [GATHER] = binomial, [SCATTER] = binomial, [ALL_TO_ALL] = direct, [SCAN] = scan, [EXSCAN] = scan,
    }
end

local forms = {
    [RING] = {
        [ALL_REDUCE] = ring, [REDUCE] = ring, [REDUCE_SCATTER] = ring, [ALL_GATHER] = ring, [BROADCAST] = ring,
        [GATHER] = direct, [SCATTER] = direct, [ALL_TO_ALL] = direct, [SCAN] = ring, [EXSCAN] = ring,
    },
    [TREE] = {
        [ALL_REDUCE] = tree, [REDUCE] = tree, [REDUCE_SCATTER] = ring, [ALL_GATHER] = ring, [BROADCAST] = tree,
        [GATHER] = binomial, [SCATTER] = binomial, [ALL_TO_ALL] = direct, [SCAN] = ring, [EXSCAN] = ring,
    },
    [DIRECT] = setmetatable({}, {__index = function(_, kind) return names[kind] and direct end}),
    [RECURSIVE_DOUBLING] = others(binomial, binomial),
    [HALVING_DOUBLING] = others(halving, dissemination),
    [TWO_LEVEL] = others(nil, nil),
}
forms[RECURSIVE_DOUBLING][ALL_REDUCE] = doubling
forms[HALVING_DOUBLING][ALL_REDUCE] = halving

local function form_of(p)
    return forms[p.algorithm] and forms[p.algorithm][p.kind]
end

-- How many blocks the vector is cut into, where it is not one of each rank.
function M.block_count(p)
    local form = form_of(p)
    if M.is_by_rank(p.kind) or form == dissemination then
        return p.ranks
    elseif form == ring then
        return p.kind == ALL_REDUCE and p.ranks or 1
    elseif form == direct then
        return (p.kind == BROADCAST or is_scan(p.kind)) and 1 or p.ranks
    elseif form == halving then
        return top_power(p.ranks)
    end
    return form == tree and 2 or 1
end

-- Whether the plan combines in the canonical order, which is that of operands that go with flags.
function M.is_canonical(p)
    local form = form_of(p)
    return not M.reduces(p.kind) or (form ~= ring and form ~= tree)
end

function M.sends(p)
    local form = form_of(p)
    if not form then
        return nil
    end
    local list = {}
    form(p, function(peer, block, phase, options)
        options = options or {}
        list[#list + 1] = {
            peer = peer, block = block, phase = phase, channel = options.channel or 0, count = options.count or 1,
            round = options.round,
        }
    end)
    return list
end

return M
