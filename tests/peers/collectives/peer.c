/* Measures one library's collectives on command, cell by cell. Linked into each peer program of
 * tests/peers. */
#include "peer.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer_shared.h"

enum {
    PATTERN_COUNT = 1021, /* prime, so that no block size is a multiple of it */
    BATCH_FIRST = 16,
    BATCH_MAX = 2000,
    ITERATIONS_MIN = 5,
    WARM_UP = 3,
    BATCH_US = 2000, /* one loop's length */
    PLACES_MAX = 4,
};

static const char *const kind_names[PEER_KINDS] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "scan", "exscan"};

typedef struct place {
    char name[16];
    float *send;
    float *recv;
    size_t size_bytes;
} place;

static struct {
    const peer_library *library;
    peer_options options;
    peer_shared *shared;
    double ticks_per_us;
    place places[PLACES_MAX];
    float own[PATTERN_COUNT];
    float one;
    peer_task task;
    size_t send_count;
    size_t recv_count;
    double loop_us[PEER_SAMPLES_MAX];
} peer;

void peer_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "%s, rank %d: ", peer.library != NULL ? peer.library->name : "peer",
                  peer.options.rank);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}

void peer_exchange(const void *mine, void *all, size_t size_bytes)
{
    if (size_bytes > PEER_EXCHANGE_BYTES_MAX) {
        peer_die("an exchange of %zu bytes", size_bytes);
    }
    memcpy(peer.shared->exchange[peer.options.rank], mine, size_bytes);
    (void)bench_gate_pass(&peer.shared->gate);
    for (int r = 0; r < peer.options.size; r++) {
        memcpy((uint8_t *)all + (size_t)r * size_bytes, peer.shared->exchange[r], size_bytes);
    }
    (void)bench_gate_pass(&peer.shared->gate);
}

/* Whole numbers, so that sums are exact in any order. */
static float pattern(int rank, size_t index)
{
    return (float)((int)(index % 89) + 7 * rank);
}

/* By stores, like those of a program that has computed something: what compilers make of a copy
 * here, `rep movs`, leaves lines where reading them back takes three times as long on some
 * processors. */
static void fill(float *restrict data, size_t count)
{
    const float one = peer.one;
    for (size_t at = 0; at < count; at += PATTERN_COUNT) {
        const size_t n = count - at < PATTERN_COUNT ? count - at : PATTERN_COUNT;
        for (size_t i = 0; i < n; i++) {
            data[at + i] = peer.own[i] * one;
        }
    }
}

static void dirty(void)
{
    if (peer.task.kind != PEER_ALL_REDUCE && peer.task.kind != PEER_BROADCAST) {
        fill((float *)peer.task.send, peer.send_count);
    }
    fill(peer.task.recv, peer.recv_count);
}

static float expected(size_t index, int root)
{
    const size_t count = peer.task.count;
    int ranks = peer.options.size;
    float sum = 0.0F;
    switch (peer.task.kind) {
    case PEER_ALL_GATHER:
        return pattern((int)(index / count), index % count % PATTERN_COUNT);
    case PEER_ALL_TO_ALL:
        return pattern((int)(index / count),
                       ((size_t)peer.options.rank * count + index % count) % PATTERN_COUNT);
    case PEER_BROADCAST:
        return pattern(root, index % PATTERN_COUNT);
    case PEER_REDUCE_SCATTER:
        index += (size_t)peer.options.rank * count;
        break;
    case PEER_SCAN:
    case PEER_EXSCAN:
        ranks = peer.options.rank + (peer.task.kind == PEER_SCAN ? 1 : 0);
        break;
    default:
        break;
    }
    for (int r = 0; r < ranks; r++) {
        sum += pattern(r, index % PATTERN_COUNT);
    }
    return sum;
}

static uint64_t count_wrong(int root)
{
    uint64_t wrong = 0;
    if (peer.task.kind == PEER_EXSCAN && peer.options.rank == 0) {
        return 0; /* MPI does not define it */
    }
    for (size_t i = 0; i < peer.recv_count; i++) {
        const float wanted = expected(i, root);
        wrong += memcmp(&peer.task.recv[i], &wanted, sizeof wanted) != 0;
    }
    return wrong;
}

/* The buffers of a place, made anew when they are too small. Collective. */
static const place *need_place(const char *name, size_t size_bytes)
{
    for (int i = 0; i < PLACES_MAX; i++) {
        place *at = &peer.places[i];
        if (at->name[0] == '\0') {
            (void)snprintf(at->name, sizeof at->name, "%s", name);
        }
        if (strcmp(at->name, name) == 0) {
            if (at->size_bytes < size_bytes) {
                /* The smaller pair stays until the end: sizes grow by factors. */
                at->send = peer.library->allocate(name, size_bytes);
                at->recv = peer.library->allocate(name, size_bytes);
                at->size_bytes = size_bytes;
            }
            if (at->send == NULL || at->recv == NULL) {
                peer_die("no memory for %zu bytes in %s", size_bytes, name);
            }
            return at;
        }
    }
    peer_die("too many places");
}

/* Makes the next input from the last result: zero times it, added to what it is to be. */
static void chain(void)
{
    float *input = (float *)peer.task.send;
    for (size_t i = 0; i < peer.send_count; i++) {
        input[i] = peer.own[i] + 0.0F * peer.task.recv[i % peer.recv_count];
    }
}

/* Microseconds per operation, of a loop that all begin together. */
static double loop(int batch)
{
    const bool rotates = peer.task.kind == PEER_BROADCAST;
    dirty();
    (void)bench_gate_pass(&peer.shared->gate);
    const uint64_t begin = bench_ticks();
    for (int i = 0; i < batch; i++) {
        peer.library->run(&peer.task, rotates ? i % peer.options.size : 0);
        if (!rotates && i + 1 < batch) {
            chain();
        }
    }
    return (double)(bench_ticks() - begin) / peer.ticks_per_us / batch;
}

static void single(int sample)
{
    peer_samples *samples = &peer.shared->samples[peer.options.rank];
    dirty();
    (void)bench_gate_pass(&peer.shared->gate);
    samples->begin[sample] = bench_ticks();
    peer.library->run(&peer.task, 0);
    samples->end[sample] = bench_ticks();
}

/* Microseconds of the quickest of a few tries: a loop of `batch`, or one operation. */
static double estimate(bool looped, int batch)
{
    double best_us = 1e12;
    for (int i = 0; i < WARM_UP; i++) {
        const uint64_t begin = bench_ticks();
        if (looped) {
            (void)loop(batch);
        } else {
            single(0);
        }
        const double us = (double)(bench_ticks() - begin) / peer.ticks_per_us;
        best_us = us < best_us ? us : best_us;
    }
    return best_us;
}

/* Rank 0 decides for all: how many operations a loop has, and how many samples are taken. */
static void choose(bool looped, double budget_us)
{
    double us = estimate(looped, BATCH_FIRST);
    if (looped) {
        const double batch = BATCH_US * BATCH_FIRST / (us + 0.01);
        peer.shared->batch = batch < BATCH_FIRST ? BATCH_FIRST
                             : batch > BATCH_MAX ? BATCH_MAX
                                                 : (int)batch;
        us *= (double)peer.shared->batch / BATCH_FIRST;
    }
    const double wanted = budget_us / (us + 0.01);
    peer.shared->iterations = wanted < ITERATIONS_MIN     ? ITERATIONS_MIN
                              : wanted > PEER_SAMPLES_MAX ? PEER_SAMPLES_MAX
                                                          : (int)wanted;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Rank 0: from all ranks' samples to the cell's times, in loop_us, sorted. */
static uint64_t gather(bool looped, int iterations)
{
    uint64_t wrong = 0;
    for (int r = 0; r < peer.options.size; r++) {
        wrong += peer.shared->samples[r].wrong;
    }
    for (int i = 0; i < iterations && !looped; i++) {
        uint64_t begin = 0;
        uint64_t end = 0;
        for (int r = 0; r < peer.options.size; r++) {
            const peer_samples *samples = &peer.shared->samples[r];
            begin = samples->begin[i] > begin ? samples->begin[i] : begin;
            end = samples->end[i] > end ? samples->end[i] : end;
        }
        begin += bench_ticks_cost();
        peer.loop_us[i] = end > begin ? (double)(end - begin) / peer.ticks_per_us : 0.0;
    }
    qsort(peer.loop_us, (size_t)iterations, sizeof peer.loop_us[0], compare);
    return wrong;
}

static void measure(size_t bytes, double budget_us, FILE *answers)
{
    const bool looped = bytes <= PEER_LOOP_BYTES_MAX;
    if (peer.library->prepare != NULL) {
        peer.library->prepare(&peer.task);
    }
    if (peer.options.rank == 0) {
        choose(looped, budget_us);
    } else {
        (void)estimate(looped, BATCH_FIRST);
    }
    (void)bench_gate_pass(&peer.shared->gate);
    const int iterations = peer.shared->iterations;
    for (int i = 0; i < iterations; i++) {
        if (looped) {
            peer.loop_us[i] = loop(peer.shared->batch);
        } else {
            single(i);
        }
    }
    const bool rotated = looped && peer.task.kind == PEER_BROADCAST;
    peer.shared->samples[peer.options.rank].wrong = count_wrong(0);
    (void)bench_gate_pass(&peer.shared->gate);
    if (rotated) { /* every rank holds what the first root had */
        peer.shared->samples[peer.options.rank].wrong = count_wrong(0);
    }
    if (peer.options.rank == 0) {
        const uint64_t wrong = gather(looped, iterations);
        (void)fprintf(answers,
                      "{\"us\": %.4f, \"us_p10\": %.4f, \"us_p90\": %.4f, \"iterations\": %d, "
                      "\"wrong\": %llu}\n",
                      peer.loop_us[iterations / 2], peer.loop_us[iterations / 10],
                      peer.loop_us[(size_t)iterations * 9 / 10], iterations,
                      (unsigned long long)wrong);
        (void)fflush(answers);
    }
    if (peer.library->release != NULL) {
        peer.library->release();
    }
}

/* "all_reduce 4096 0 heap 50": kind, bytes, variant, place, milliseconds to spend. */
static bool obey(const char *command, FILE *answers)
{
    char kind[32] = "";
    char place_name[16] = "";
    char *rest = NULL;
    if (sscanf(command, "%31s", kind) != 1 || strcmp(kind, "quit") == 0) {
        return false;
    }
    const size_t bytes = strtoull(command + strlen(kind), &rest, 10);
    peer.task = (peer_task){.kind = PEER_KINDS, .variant = (int)strtol(rest, &rest, 10)};
    (void)sscanf(rest, "%15s", place_name);
    const char *budget = strrchr(command, ' ');
    for (int k = 0; k < PEER_KINDS; k++) {
        peer.task.kind = strcmp(kind, kind_names[k]) == 0 ? (peer_kind)k : peer.task.kind;
    }
    if (peer.task.kind == PEER_KINDS || place_name[0] == '\0' || budget == NULL) {
        peer_die("cannot read this command: %s", command);
    }
    const place *at = need_place(place_name, bytes);
    const bool shared_buffer =
        peer.task.kind == PEER_ALL_REDUCE || peer.task.kind == PEER_BROADCAST;
    const bool whole_each = shared_buffer || peer.task.kind >= PEER_SCAN;
    const size_t whole = bytes / sizeof(float);
    const size_t block = whole / (size_t)peer.options.size;
    peer.task.count = whole_each ? whole : block;
    peer.task.recv = at->recv;
    peer.task.send = shared_buffer ? at->recv : at->send;
    const size_t blocks = block * (size_t)peer.options.size;
    peer.send_count = whole_each ? whole : peer.task.kind == PEER_ALL_GATHER ? block : blocks;
    peer.recv_count = whole_each ? whole : peer.task.kind == PEER_REDUCE_SCATTER ? block : blocks;
    measure(bytes, strtod(budget, NULL) * 1e3, answers);
    return true;
}

static void read_options(int argc, char **argv)
{
    peer.options =
        (peer_options){.rank = -1, .transport = "auto", .algorithm = "auto", .tcp_auth = "mac"};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--rank") == 0) {
            peer.options.rank = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--size") == 0) {
            peer.options.size = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--directory") == 0) {
            peer.options.directory = value;
        } else if (strcmp(argv[i], "--transport") == 0) {
            peer.options.transport = value;
        } else if (strcmp(argv[i], "--algorithm") == 0) {
            peer.options.algorithm = value;
        } else if (strcmp(argv[i], "--tcp-auth") == 0) {
            peer.options.tcp_auth = value;
        } else if (strcmp(argv[i], "--address") == 0) {
            peer.options.address = value;
        } else {
            peer_die("unknown option %s", argv[i]);
        }
    }
    if (peer.options.directory == NULL || peer.options.size > PEER_RANKS_MAX) {
        peer_die("--directory DIR, and --rank R --size N where the library does not know");
    }
}

static FILE *open_pipe(const char *name, const char *mode)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", peer.options.directory, name);
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        peer_die("cannot open %s", path);
    }
    return file;
}

static void say_hello(FILE *answers)
{
    (void)fprintf(answers, "{\"library\": \"%s\", \"ranks\": %d", peer.library->name,
                  peer.options.size);
    for (int k = 0; k < PEER_KINDS; k++) {
        const char *variants = peer.library->variants((peer_kind)k);
        (void)fprintf(answers, ", \"%s\": \"%s\"", kind_names[k], variants != NULL ? variants : "");
    }
    (void)fputs("}\n", answers);
    (void)fflush(answers);
}

int peer_main(int argc, char **argv, const peer_library *library)
{
    FILE *answers = NULL;
    peer.library = library;
    read_options(argc, argv);
    if (peer.options.rank >= 0) { /* open may exchange */
        peer.shared = peer_shared_open(peer.options.directory);
        bench_gate_prepare(peer.options.size);
        library->open(&peer.options);
    } else {
        library->open(&peer.options);
        peer.shared = peer_shared_open(peer.options.directory);
    }
    /* After open: helper threads that the library has started may run anywhere. */
    bench_gate_prepare(peer.options.size);
    (void)bench_bind(peer.options.rank, peer.options.size);
    peer.ticks_per_us = bench_ticks_per_us();
    peer.one = 1.0F;
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        peer.own[i] = pattern(peer.options.rank, i);
    }
    if (peer.options.rank == 0) {
        answers = open_pipe("answers", "we");
        say_hello(answers);
        FILE *commands = open_pipe("commands", "re");
        char line[sizeof peer.shared->command];
        bool more = true;
        while (more) {
            if (fgets(line, sizeof line, commands) == NULL) {
                (void)snprintf(line, sizeof line, "quit");
            }
            peer_shared_post_command(peer.shared, line);
            more = obey(line, answers);
        }
        (void)fclose(commands);
        (void)fclose(answers);
    } else {
        uint32_t seen = 0;
        do {
            seen = peer_shared_wait_command(peer.shared, seen);
        } while (obey(peer.shared->command, NULL));
    }
    library->close();
    return 0;
}
