/* A hostile peer on the same host: two of three ranks are played by the input, which writes what it
 * likes to their segments (flags, buffer references, slots, counters, claims, failure records)
 * while the first rank runs operations of all kinds: those that stand in the queue, started once or
 * again, and blocking ones, which peers may have come to before. It may make them fail; never read
 * or write out of bounds. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/failure.h"
#include "core/progress.h"
#include "transport/shm/layout.h"
#include "transport/shm/shm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum {
    RANKS = 3,
    ARENA_BYTES = 48 * 1024,
    BUFFER_BYTES = 24 * 1024,
    OPERATIONS = 6,
    HEADER_BYTES = sizeof(shm_segment) + COLL_SHM_SLOTS * COLL_SHM_SLOT_BYTES,
};

typedef struct input {
    const uint8_t *data;
    size_t left;
} input;

typedef struct stage {
    coll_context context;
    coll_comm comm;
    shm_context context_shm;
    shm_comm shm;
    coll_arena arena;
    coll_identity identities[RANKS];
    uint8_t *segments[RANKS];
    uint8_t *heap;
    coll_op *ops[OPERATIONS];
    unsigned started;
    coll_op_desc blocking; /* the last; of no kind: none yet */
} stage;

static uint64_t take(input *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | (in->left > 0 ? *in->data : 0);
        in->data += in->left > 0 ? 1 : 0;
        in->left -= in->left > 0 ? 1 : 0;
    }
    return value;
}

/* Large memory is made once; what lies behind the frames' counters is nobody's to trust anyway. */
static uint8_t *segments[RANKS];
static uint8_t *arenas[RANKS];
static uint8_t *heap;
static coll_flight *flight;

static void make_memory(void)
{
    const size_t bytes = coll_shm_segment_bytes(RANKS);
    if (heap != NULL) {
        return;
    }
    flight = aligned_alloc(_Alignof(coll_flight), sizeof *flight);
    BASE_ASSERT(flight != NULL);
    memset(flight, 0, sizeof *flight);
    coll_flight_init(flight);
    heap = calloc(2, BUFFER_BYTES);
    BASE_ASSERT(heap != NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        segments[rank] = aligned_alloc(128, bytes);
        arenas[rank] = calloc(1, ARENA_BYTES);
        BASE_ASSERT(segments[rank] != NULL);
        BASE_ASSERT(arenas[rank] != NULL);
        memset(segments[rank], 0, bytes);
    }
}

/* `spins`: ranks have processors of their own. */
static void set_up(stage *s, bool spins)
{
    make_memory();
    memset(s, 0, sizeof *s);
    s->context = (coll_context){.size = RANKS,
                                .transport = COLL_TRANSPORT_SHM,
                                .algorithm = COLL_ALGORITHM_DIRECT,
                                .timeout_ns = 1,
                                .yield_budget = 4,
                                .spins = spins ? 1 : 0,
                                .table = &coll_shm_transport,
                                .identities = s->identities,
                                .comms = &s->comm,
                                .shm = &s->context_shm};
    s->context.flight = flight;
    s->comm.context = &s->context;
    s->comm.table = &coll_shm_transport;
    s->comm.size = RANKS;
    s->comm.shares_memory = true;
    s->comm.inline_bytes = COLL_TINY_BYTES;
    s->comm.shm = &s->shm;
    s->comm.arenas = &s->arena;
    s->arena = (coll_arena){.comm = &s->comm, .number = 1, .size_bytes = ARENA_BYTES};
    s->heap = heap;
    for (int rank = 0; rank < RANKS; rank++) {
        s->context.socks[rank] = -1;
        s->comm.ranks[rank] = rank;
        s->segments[rank] = segments[rank];
        s->arena.peers[rank] = arenas[rank];
        memset(segments[rank], 0, sizeof(shm_segment));
        shm_segment *segment = (shm_segment *)(void *)s->segments[rank];
        s->shm.segments[rank] = segment;
        s->context_shm.doorbells[rank] = &segment->doorbell;
        s->comm.peers[rank].flags = segment->flags;
    }
    s->arena.data = s->arena.peers[0];
    s->comm.flags = s->shm.segments[0]->flags;
    s->comm.blocking = coll_op_alloc(&s->comm);
    BASE_ASSERT(s->comm.blocking != NULL);
}

static void tear_down(stage *s)
{
    (void)coll_comm_fail(&s->comm, COLL_ERR_STATE, "the end");
    for (int i = 0; i < OPERATIONS; i++) {
        coll_op_destroy(s->ops[i]);
    }
    coll_op_destroy(s->comm.blocking);
    for (int i = 0; i < COLL_RECENT_OPS; i++) {
        coll_op_destroy(s->comm.recent[i]);
    }
}

static coll_op_desc draw(stage *s, input *in)
{
    const uint64_t shape = take(in, 4);
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = (coll_kind)(COLL_ALL_REDUCE + shape % 9),
                         .type = (coll_type)(COLL_FLOAT32 + (shape >> 4) % 9),
                         .reduce = (coll_reduce_op)(COLL_SUM + (shape >> 8) % 5),
                         .count = (size_t)(shape >> 12) % 1024,
                         .root = (int)((shape >> 22) % RANKS)};
    desc.send = (shape >> 30 & 1) != 0 ? s->arena.data : s->heap;
    desc.recv = ((shape >> 31 & 1) != 0 ? s->arena.data : s->heap) + BUFFER_BYTES;
    return desc;
}

static void start(stage *s, input *in)
{
    const coll_op_desc desc = draw(s, in);
    coll_op **op = &s->ops[s->started % OPERATIONS];
    if (*op != NULL && (*op)->queued) {
        return;
    }
    coll_op_destroy(*op);
    *op = NULL;
    if (coll_op_create(&s->comm, &desc, op, NULL) == COLL_OK &&
        coll_op_start(*op, NULL) == COLL_OK) {
        s->started++;
    }
}

static void start_again(stage *s, input *in)
{
    coll_op *op = s->ops[take(in, 1) % OPERATIONS];
    if (op != NULL && op->stage == COLL_STAGE_DONE) {
        (void)!coll_op_start(op, NULL);
    }
}

/* Shows the next operation as a peer that has come first, and has done its part, if it likes. */
static void show_next(stage *s, input *in, int peer, uint32_t digest)
{
    static const uint32_t numbers[] = {0, 1, 1, 2}; /* of arenas; the last is none */
    const uint64_t how = take(in, 1);
    const uint64_t sequence = s->comm.sequence + 1;
    shm_segment *segment = s->shm.segments[peer];
    coll_flag *flag = &segment->flags[sequence % COLL_FLAG_COUNT];
    const coll_buffer_ref ref = {.send_arena = numbers[how % 4],
                                 .recv_arena = numbers[how / 4 % 4],
                                 .send_offset_bytes = (how & 16) != 0 ? take(in, 2) : 0,
                                 .recv_offset_bytes = (how & 16) != 0 ? take(in, 2) : BUFFER_BYTES};
    memcpy(flag->payload, &ref, sizeof ref);
    if ((how & 32) != 0) {
        atomic_store(&segment->finished.value, sequence);
        atomic_store(&segment->staged.value, s->shm.windows + 1);
        atomic_store(&segment->consumed.value, s->shm.windows + 1);
        atomic_store(&segment->reduced.value, s->shm.rounds + 1);
    }
    atomic_store(&flag->word, coll_flag_word(sequence, digest) | (how >> 6 & 1));
}

/* A blocking operation: another one, or with `again` the same, so that it is recalled. */
static void run(stage *s, input *in, bool again)
{
    coll_op *op = NULL;
    s->blocking = again && s->blocking.kind != 0 ? s->blocking : draw(s, in);
    if (coll_op_create(&s->comm, &s->blocking, &op, NULL) != COLL_OK) {
        return;
    }
    for (int peer = 1; peer < RANKS; peer++) {
        show_next(s, in, peer, op->digest);
    }
    coll_op_destroy(op);
    (void)!coll_run(&s->comm, &s->blocking, NULL);
}

static void begin(stage *s, input *in, unsigned how)
{
    switch (how) {
    case 0:
        start(s, in);
        return;
    case 1:
        start_again(s, in);
        return;
    default:
        run(s, in, how == 3);
        return;
    }
}

/* What an honest peer would show for one of this rank's operations, but for the payload. */
static void show(stage *s, input *in, int peer)
{
    const uint64_t sequence = s->comm.sequence - take(in, 1) % 4;
    const size_t slot = sequence % COLL_FLAG_COUNT;
    coll_flag *flag = &s->shm.segments[peer]->flags[slot];
    const size_t bytes = take(in, 1) % (COLL_TINY_BYTES + 1);
    for (size_t i = 0; i < bytes; i++) {
        flag->payload[i] = (uint8_t)take(in, 1);
    }
    flag->descriptor = s->comm.flags[slot].descriptor;
    atomic_store(&flag->word, s->shm.words[slot] | take(in, 1) % 2);
}

static void overwrite(stage *s, input *in, int peer)
{
    const size_t at = take(in, 3) % (HEADER_BYTES / 4) * 4;
    const uint32_t value = (uint32_t)take(in, 4);
    memcpy(s->segments[peer] + at, &value, sizeof value);
}

static void count(stage *s, input *in, int peer)
{
    shm_segment *segment = s->shm.segments[peer];
    const uint64_t value = take(in, 1);
    const int channel = (int)(value >> 4) % COLL_CHANNELS;
    switch (value % 8) {
    case 0:
        atomic_store(&segment->finished.value, s->comm.sequence + (value >> 6));
        return;
    case 1:
        (void)atomic_fetch_add(&segment->sent[channel][0].value, value >> 6);
        return;
    case 2:
        (void)atomic_fetch_add(&segment->taken[channel][0].value, value >> 6);
        return;
    case 4:
        (void)atomic_fetch_add(&segment->staged.value, value >> 6);
        return;
    case 5:
        (void)atomic_fetch_add(&segment->consumed.value, value >> 6);
        return;
    case 6:
        (void)atomic_fetch_add(&segment->reduced.value, value >> 6);
        return;
    case 7:
        atomic_store(&segment->claimed.value, take(in, 1));
        return;
    default:
        atomic_store(&segment->failure_notice.set, 1);
        atomic_store(&segment->doorbell.failures, 1);
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static stage s;
    input in = {data, size_bytes};
    set_up(&s, size_bytes > 0 && data[size_bytes - 1] % 2 != 0);
    while (in.left > 0 && !s.comm.failed) {
        const uint64_t action = take(&in, 1);
        const int peer = 1 + (int)(action >> 7);
        switch (action % 8) {
        case 0:
        case 1:
            begin(&s, &in, (unsigned)(action >> 3) % 4);
            break;
        case 2:
        case 3:
            show(&s, &in, peer);
            break;
        case 4:
            overwrite(&s, &in, peer);
            break;
        case 5:
            count(&s, &in, peer);
            break;
        case 6:
            if (s.started > 0 && s.ops[0] != NULL) {
                coll_shm_watch(s.ops[0]);
            }
            break;
        default:
            (void)coll_progress(&s.context);
            break;
        }
    }
    tear_down(&s);
    return 0;
}
