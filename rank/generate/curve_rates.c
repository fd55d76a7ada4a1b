/* How fast one rank, and all at once, read as many bytes as weights have. Called by curve_run.c. */
#include "generate/curve_rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/free_memory.h"
#include "base/percentile.h"
#include "generate/alone.h"
#include "generate/reading.h"
#include "ringfence/coll_error.h"

enum {
    READ_BYTES_MIN = 64 << 20, /* of weights that are longer */
    CACHES_READ = 4,
    READ_BYTES_LONG = 4 << 20, /* so many are read once, less in rounds */
    READ_ROUNDS = 5,
    READ_PIECE_BYTES = 16 << 20,
    READ_PIECES = 128,
};

typedef struct memory_reader {
    const char *at;
    rank_alone *alone;  /* NULL: nobody waits for this rank alone */
    base_status status; /* of telling the others that they have to wait on */
    base_error *reterr;
} memory_reader;

static double read_once(memory_reader *reader, size_t offset, size_t size_bytes, int reading)
{
    if (reader->status == BASE_OK) {
        reader->status = rank_alone_tick(reader->alone, reader->reterr);
    }
    return rank_read_speed(reader->at + offset, size_bytes, reading);
}

/* The fastest way of reading so many bytes: of each, the median round. A long one needs no rounds:
 * it takes as long as many short ones. */
static int best_reading(memory_reader *reader, size_t size_bytes, double *rate)
{
    const size_t rounds = size_bytes < READ_BYTES_LONG ? READ_ROUNDS : 1;
    int best = 0;
    *rate = 0;
    for (int reading = 0; reading < RANK_READINGS; reading++) {
        double rates[READ_ROUNDS];
        for (size_t round = 0; round < rounds; round++) {
            rates[round] = read_once(reader, 0, size_bytes, reading);
        }
        base_sort(rates, rounds);
        const double median = base_percentile(rates, rounds, 0.5);
        best = median > *rate ? reading : best;
        *rate = fmax(*rate, median);
    }
    return best;
}

/* What is longer than READ_BYTES_MIN is read in the way that is best for so many bytes, in pieces
 * from its beginning to its end, again and again. The median piece counts: a whole reading would
 * take in whatever else the machine does meanwhile. */
static double best_rate(memory_reader *reader, size_t size_bytes)
{
    double rates[READ_PIECES];
    const int reading =
        best_reading(reader, size_bytes < READ_BYTES_MIN ? size_bytes : READ_BYTES_MIN, &rates[0]);
    if (size_bytes <= READ_BYTES_MIN) {
        return rates[0];
    }
    for (size_t i = 0, at = 0; i < READ_PIECES; i++) {
        rates[i] = read_once(reader, at, READ_PIECE_BYTES, reading);
        at = at + 2 * READ_PIECE_BYTES <= size_bytes ? at + READ_PIECE_BYTES : 0;
    }
    base_sort(rates, READ_PIECES);
    return base_percentile(rates, READ_PIECES, 0.5);
}

/* So much is read that a cache holds little of it, as long as all ranks together take no more than
 * a quarter of the memory that is free. */
static size_t read_bytes_max(int ranks)
{
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    const size_t wanted = cache > 0 ? CACHES_READ * (size_t)cache : 0;
    const size_t room = (size_t)(base_free_memory_bytes("") / 4 / (uint64_t)ranks);
    const size_t most = wanted < room ? wanted : room;
    return most > READ_BYTES_MIN ? most : READ_BYTES_MIN;
}

/* What is read of so many bytes of weights. */
static size_t read_bytes(const rank_curve_memory *memory, double weight_bytes)
{
    enum { UNIT = 4096 };
    const double most = (double)memory->size_bytes;
    const double bytes = weight_bytes < most ? weight_bytes : most;
    return ((size_t)bytes + UNIT - 1) / UNIT * UNIT;
}

/* Uses all of the memory once, so that the system has it. Rank 0 has most of it, and the others sleep. */
static base_status touch(const rank_generate_options *options, const rank_curve_memory *memory,
                         base_error *reterr)
{
    rank_alone alone = {.comm = options->comm, .timeout_ns = options->timeout_ns};
    rank_alone_state state = RANK_ALONE_WAIT;
    const bool first = coll_comm_rank(options->comm) == 0;
    base_status status = BASE_OK;
    for (size_t at = 0; status == BASE_OK && at < memory->size_bytes; at += READ_PIECE_BYTES) {
        const size_t left = memory->size_bytes - at;
        memset((char *)memory->at + at, 1, left < READ_PIECE_BYTES ? left : READ_PIECE_BYTES);
        status = first ? rank_alone_tick(&alone, reterr) : BASE_OK;
    }
    if (status != BASE_OK) {
        return status;
    }
    return first ? rank_alone_end(&alone, RANK_ALONE_DONE, reterr)
                 : rank_alone_sleep(options->comm, &state, reterr);
}

base_status rank_curve_memory_make(const rank_generate_options *options, const rank_curve *curve,
                                   rank_curve_memory *memory, base_error *reterr)
{
    const int rank = coll_comm_rank(options->comm);
    double longest = 0;
    for (int i = 0; i < curve->count; i++) {
        longest = fmax(longest, curve->points[i].weight_bytes);
    }
    longest = rank == 0 ? longest : longest / curve->ranks;
    memory->size_bytes = read_bytes_max(curve->ranks);
    memory->size_bytes = read_bytes(memory, longest);
    memory->at = malloc(memory->size_bytes);
    if (memory->at == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to read, for --curve");
    }
    return touch(options, memory, reterr);
}

base_status rank_curve_rates(const rank_generate_options *options, const rank_curve_memory *memory,
                             rank_curve_point *point, base_error *reterr)
{
    const int ranks = coll_comm_size(options->comm);
    const double weight_bytes = point->weight_bytes;
    rank_alone alone = {.comm = options->comm, .timeout_ns = options->timeout_ns};
    rank_alone_state state = RANK_ALONE_WAIT;
    base_status status = BASE_OK;
    if (coll_comm_rank(options->comm) == 0) {
        memory_reader reader = {.at = memory->at, .alone = &alone, .reterr = reterr};
        point->single_rate = best_rate(&reader, read_bytes(memory, weight_bytes));
        status = reader.status == BASE_OK ? rank_alone_end(&alone, RANK_ALONE_DONE, reterr)
                                          : reader.status;
    } else {
        status = rank_alone_sleep(options->comm, &state, reterr);
    }
    if (status == BASE_OK) {
        status = (base_status)coll_barrier(options->comm, coll_error_of(reterr));
    }
    if (status == BASE_OK) {
        memory_reader reader = {.at = memory->at};
        double rate = best_rate(&reader, read_bytes(memory, weight_bytes / ranks));
        status = (base_status)coll_all_reduce(options->comm, &rate, &rate, 1, COLL_FLOAT64,
                                              COLL_MIN, coll_error_of(reterr));
        point->tp_rate = rate;
    }
    return status;
}
