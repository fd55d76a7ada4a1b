/* Measures what the cost model needs, with the library's own sends and receives, and keeps the
 * figures of a context. Called by connect.c when a context is made, and by programs
 * (coll/tune.h). */
#include "coll/tune.h"
#include "ringfence/coll_error.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "calibrate/calibrate.h"
#include "calibrate/tune_file.h"
#include "common/kinds.h"
#include "core/comm.h"
#include "core/failure.h"
#include "core/text.h"
#include "kernels/kernels.h"

#define TUNE_VARIABLE "RINGFENCE_COLL_TUNE_FILE"

enum {
    SMALL_BYTES = 8,
    LONG_BYTES = 256 * 1024,
    LATENCY_ROUNDS = 40,
    LONG_ROUNDS = 8,
    ROUNDS_MIN = 3,
    BURST_ROUNDS = 5,
    BURST_MESSAGES = 8,
    SAMPLES_MAX = 40,
    BARRIERS = 9,
};

#define ROUNDS_BUDGET_NS (20 * BASE_NS_PER_MS) /* for each figure, as far as ROUNDS_MIN allows */

static double median(double *samples, int count)
{
    for (int i = 1; i < count; i++) {
        const double value = samples[i];
        int at = i;
        for (; at > 0 && samples[at - 1] > value; at--) {
            samples[at] = samples[at - 1];
        }
        samples[at] = value;
    }
    return count == 0 ? 0 : samples[count / 2];
}

/* One class of links, measured between this rank and a peer. */
typedef struct meter {
    coll_comm *comm;
    int peer;
    bool leads; /* keeps the time, and says when it is enough */
    uint8_t *buffer;
    coll_error *reterr;
} meter;

static coll_status send_bytes(const meter *m, size_t size_bytes)
{
    return coll_send(m->comm, m->buffer, size_bytes, COLL_UINT8, m->peer, m->reterr);
}

static coll_status receive_bytes(const meter *m, size_t size_bytes)
{
    return coll_receive(m->comm, m->buffer, size_bytes, COLL_UINT8, m->peer, m->reterr);
}

/* There and back, one after the other. */
static coll_status ping(const meter *m, int messages)
{
    coll_status status = COLL_OK;
    for (int k = 0; status == COLL_OK && k < messages; k++) {
        status = m->leads ? send_bytes(m, SMALL_BYTES) : receive_bytes(m, SMALL_BYTES);
    }
    if (status == COLL_OK) {
        status = m->leads ? receive_bytes(m, SMALL_BYTES) : send_bytes(m, SMALL_BYTES);
    }
    return status;
}

/* Both ways at once, as algorithms do; the second half of the buffer receives, but for the first
 * byte, which the one that does not lead takes over. */
static coll_status swap(const meter *m)
{
    coll_request *requests[2] = {NULL};
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = COLL_RECEIVE,
                         .recv = m->buffer + LONG_BYTES,
                         .count = LONG_BYTES,
                         .type = COLL_UINT8,
                         .root = m->peer};
    coll_status status = coll_start(m->comm, &desc, &requests[0], m->reterr);
    if (status == COLL_OK) {
        desc.kind = COLL_SEND;
        desc.send = m->buffer;
        status = coll_start(m->comm, &desc, &requests[1], m->reterr);
    }
    const coll_status ended =
        coll_request_wait_all(requests, 2, status == COLL_OK ? m->reterr : NULL);
    m->buffer[0] = m->leads ? m->buffer[0] : m->buffer[LONG_BYTES];
    return status == COLL_OK ? ended : status;
}

/* Rounds of so many messages there and one back (0: long ones both ways), until there are enough;
 * *round_us is the median. The first byte of the last message says whether another
 * round follows. */
static coll_status rounds(const meter *m, int messages, int rounds_max, double *round_us)
{
    double samples[SAMPLES_MAX];
    const int64_t begin_ns = base_now_ns();
    coll_status status = COLL_OK;
    bool more = true;
    int count = 0;
    for (; status == COLL_OK && more; count++) {
        const int64_t from_ns = base_now_ns();
        if (m->leads) {
            more = count + 1 < rounds_max &&
                   (count + 1 < ROUNDS_MIN || from_ns - begin_ns < ROUNDS_BUDGET_NS);
            m->buffer[0] = more ? 1 : 0;
        }
        status = messages > 0 ? ping(m, messages) : swap(m);
        more = m->leads ? more : m->buffer[0] != 0;
        samples[count < SAMPLES_MAX ? count : SAMPLES_MAX - 1] =
            (double)(base_now_ns() - from_ns) / (double)BASE_NS_PER_US;
    }
    *round_us = m->leads ? median(samples, count < SAMPLES_MAX ? count : SAMPLES_MAX) : 0;
    return status;
}

static coll_status measure_link(const meter *m, coll_link_cost *cost)
{
    double small_us = 0;
    double burst_us = 0;
    double long_us = 0;
    coll_status status = rounds(m, 1, LATENCY_ROUNDS, &small_us);
    if (status == COLL_OK) {
        status = rounds(m, BURST_MESSAGES, BURST_ROUNDS, &burst_us);
    }
    if (status == COLL_OK) {
        status = rounds(m, 0, LONG_ROUNDS, &long_us);
    }
    if (status == COLL_OK && m->leads) {
        const double further = (burst_us - small_us) / (BURST_MESSAGES - 1);
        cost->latency_us = small_us / 2;
        cost->message_us = further < small_us / 40 ? small_us / 40 : further;
        cost->byte_ns = (long_us - small_us / 2) * 1000 / LONG_BYTES;
        cost->byte_ns = cost->byte_ns > 0 ? cost->byte_ns : 0.001;
    }
    return status;
}

/* The rank this one measures a class with: its neighbour in the host, or the one with the same
 * local rank of the neighbouring host; -1: nobody. */
static int partner_in_host(const coll_comm *comm)
{
    const coll_hosts *hosts = &comm->hosts;
    const int host = hosts->host[comm->rank];
    const int local_rank = hosts->local_rank[comm->rank] ^ 1;
    const int begin = hosts->begin[host];
    return begin + local_rank < hosts->begin[host + 1] ? hosts->members[begin + local_rank] : -1;
}

static int partner_between(const coll_comm *comm)
{
    const coll_hosts *hosts = &comm->hosts;
    const int host = hosts->host[comm->rank] ^ 1;
    const int local_rank = hosts->local_rank[comm->rank];
    if (host >= hosts->count || hosts->begin[host] + local_rank >= hosts->begin[host + 1]) {
        return -1;
    }
    return hosts->members[hosts->begin[host] + local_rank];
}

static double measure_reduce(uint8_t *buffer)
{
    enum { PASSES = 5 };
    const coll_kernel *kernel = coll_kernel_find(COLL_FLOAT32, COLL_SUM);
    const size_t bytes = LONG_BYTES;
    double samples[PASSES];
    for (int i = 0; i < PASSES; i++) {
        const int64_t from_ns = base_now_ns();
        kernel->combine(buffer, buffer, buffer + bytes, bytes / sizeof(float));
        samples[i] = (double)(base_now_ns() - from_ns);
    }
    return median(samples, PASSES) / (double)bytes;
}

/* What every operation costs before the first message: all have to arrive. */
static coll_status measure_start(coll_comm *comm, double *start_us, coll_error *reterr)
{
    double samples[BARRIERS];
    coll_status status = COLL_OK;
    for (int i = 0; status == COLL_OK && i < BARRIERS; i++) {
        const int64_t from_ns = base_now_ns();
        status = coll_barrier(comm, reterr);
        samples[i] = (double)(base_now_ns() - from_ns) / (double)BASE_NS_PER_US;
    }
    *start_us = status == COLL_OK ? median(samples, BARRIERS) : 0;
    return status;
}

/* Everybody's figures, of which the first rank's that has measured count. */
static coll_status share(coll_comm *comm, coll_costs *costs, coll_error *reterr)
{
    coll_costs all[COLL_RANKS_MAX];
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_GATHER,
                               .send = costs,
                               .recv = all,
                               .count = COLL_TUNE_FIGURES,
                               .type = COLL_FLOAT64,
                               .algorithm = COLL_ALGORITHM_DIRECT};
    const coll_status status = coll_run(comm, &desc, reterr);
    if (status != COLL_OK) {
        return status;
    }
    *costs = all[0];
    for (int rank = comm->size - 1; rank >= 0; rank--) {
        costs->inside = all[rank].inside.latency_us > 0 ? all[rank].inside : costs->inside;
        costs->between = all[rank].between.latency_us > 0 ? all[rank].between : costs->between;
    }
    costs->inside = costs->inside.latency_us > 0 ? costs->inside : costs->between;
    costs->between = costs->between.latency_us > 0 ? costs->between : costs->inside;
    return COLL_OK;
}

coll_status coll_tune_measure(coll_comm *comm, coll_costs *costs, coll_error *reterr)
{
    const int partners[] = {partner_in_host(comm), partner_between(comm)};
    coll_link_cost *classes[] = {&costs->inside, &costs->between};
    uint8_t *buffer = calloc(2, LONG_BYTES);
    if (buffer == NULL) {
        return coll_comm_lacks(comm, (size_t)2 * LONG_BYTES, "measuring links", reterr);
    }
    *costs = (coll_costs){.reduce_byte_ns = measure_reduce(buffer)};
    coll_status status = measure_start(comm, &costs->start_us, reterr);
    for (int i = 0; status == COLL_OK && i < 2; i++) {
        const meter m = {.comm = comm,
                         .peer = partners[i],
                         .leads = comm->rank < partners[i],
                         .buffer = buffer,
                         .reterr = reterr};
        status = m.peer < 0 ? COLL_OK : measure_link(&m, classes[i]);
    }
    free(buffer);
    return status == COLL_OK ? share(comm, costs, reterr) : status;
}

/* What rank 0 sends to the others: 0, or a status and why. */
typedef struct verdict {
    coll_costs costs;
    int32_t status;
    int32_t found;
    char message[240];
} verdict;

static coll_status share_verdict(coll_comm *comm, verdict *news, coll_error *reterr)
{
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_BROADCAST,
                               .send = news,
                               .recv = news,
                               .count = sizeof *news,
                               .type = COLL_UINT8,
                               .algorithm = COLL_ALGORITHM_DIRECT};
    const coll_status status = coll_run(comm, &desc, reterr);
    if (status != COLL_OK || news->status == COLL_OK) {
        return status;
    }
    news->message[sizeof news->message - 1] = '\0';
    coll_text_clean(news->message);
    return coll_fail(reterr, COLL_ERR_IO, "%s", news->message);
}

static void note(verdict *news, coll_status status, const coll_error *error)
{
    news->status = status;
    if (status != COLL_OK) {
        (void)snprintf(news->message, sizeof news->message, "%s", error->message);
    }
}

/* The file that keeps the figures; NULL: none. */
static const char *path_of(const coll_context_options *options)
{
    const char *named =
        options->tune_path != NULL ? options->tune_path : secure_getenv(TUNE_VARIABLE);
    return named != NULL && named[0] != '\0' ? named : NULL;
}

/* From rank 0's file, or measured and written there. */
static coll_status find_costs(coll_comm *comm, const coll_context_options *options,
                              coll_error *reterr)
{
    coll_context *context = comm->context;
    const char *path = comm->rank == 0 ? path_of(options) : NULL;
    const bool is_asked = options->tune_path != NULL; /* else it is the environment's */
    verdict news = {.found = 0};
    coll_error error = {.status = COLL_OK};
    char key[COLL_TUNE_KEY_BYTES];
    coll_tune_key(comm, options, key);
    if (path != NULL) {
        bool found = false;
        const coll_status read = coll_tune_file_read(path, key, &context->costs, &found, &error);
        note(&news, is_asked ? read : COLL_OK, &error);
        news.found = found ? 1 : 0;
        news.costs = context->costs;
        path = read == COLL_OK ? path : NULL;
    }
    coll_status status = share_verdict(comm, &news, reterr);
    if (status != COLL_OK || news.found != 0) {
        context->costs = news.costs;
        return status;
    }
    status = coll_tune_measure(comm, &context->costs, reterr);
    if (status != COLL_OK) {
        return status;
    }
    if (path != NULL) {
        const coll_status written = coll_tune_file_write(path, key, &context->costs, &error);
        note(&news, is_asked ? written : COLL_OK, &error);
    }
    return share_verdict(comm, &news, reterr);
}

coll_status coll_tune_context(coll_context *context, const coll_context_options *options,
                              int64_t deadline_ns, coll_error *reterr)
{
    if (context->algorithm != COLL_ALGORITHM_AUTO) {
        return COLL_OK;
    }
    if (context->size == 1 || context->world->shares_memory) {
        context->algorithm = COLL_ALGORITHM_DIRECT;
        return COLL_OK;
    }
    const uint64_t sent = context->bytes_sent;
    coll_comm *comm = NULL; /* of its own, so that the caller's first operation is the first */
    coll_status status =
        coll_comm_open(context, context->world->ranks, context->size, deadline_ns, &comm, reterr);
    if (status == COLL_OK) {
        status = find_costs(comm, options, reterr);
    }
    coll_comm_destroy(comm);
    context->has_costs = status == COLL_OK;
    context->bytes_sent = sent;
    return status == COLL_OK ? COLL_OK : coll_error_prepend(reterr, status, "measuring links");
}

/* The slowest rank's time of each repetition. */
static coll_status slowest(coll_comm *comm, double *samples, int count, coll_error *reterr)
{
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_REDUCE,
                               .send = samples,
                               .recv = samples,
                               .count = (size_t)count,
                               .type = COLL_FLOAT64,
                               .reduce = COLL_MAX,
                               .algorithm = COLL_ALGORITHM_DIRECT};
    return coll_run(comm, &desc, reterr);
}

static coll_status time_op(coll_comm *comm, coll_op *op, double *us, coll_error *reterr)
{
    coll_status status = coll_barrier(comm, reterr);
    const int64_t from_ns = base_now_ns();
    if (status == COLL_OK) {
        status = coll_op_start(op, reterr);
    }
    if (status == COLL_OK) {
        status = coll_op_wait(op, reterr);
    }
    *us = (double)(base_now_ns() - from_ns) / (double)BASE_NS_PER_US;
    return status;
}

coll_status coll_tune_compare(coll_comm *comm, const coll_costs *costs, const coll_tune_case *which,
                              coll_tune_row *row, coll_error *reterr)
{
    const coll_kind kind = which->kind;
    const coll_algorithm algorithm = which->algorithm;
    enum { WARM_UP = 2, TIMED = 11 };
    const size_t parts = coll_kind_is_by_rank(kind) ? (size_t)comm->size : 1;
    const size_t fit = which->whole_bytes / sizeof(float) / parts;
    const size_t count = fit > 0 ? fit : 1;
    const size_t bytes = count * parts * sizeof(float);
    double samples[WARM_UP + TIMED];
    coll_op *op = NULL;
    if (kind != COLL_BARRIER && !coll_kind_has_plans(kind)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%s is no collective", coll_kind_name(kind));
    }
    uint8_t *memory = calloc(2, bytes);
    if (memory == NULL) {
        return coll_comm_lacks(comm, 2 * bytes, "comparing algorithms", reterr);
    }
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = kind,
                               .send = memory,
                               .recv = memory + bytes,
                               .count = count,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .algorithm = algorithm};
    coll_status status = coll_op_create(comm, &desc, &op, reterr);
    for (int i = 0; status == COLL_OK && i < WARM_UP + TIMED; i++) {
        status = time_op(comm, op, &samples[i], reterr);
    }
    if (status == COLL_OK) {
        status = slowest(comm, samples + WARM_UP, TIMED, reterr);
    }
    coll_op_destroy(op);
    free(memory);
    if (status != COLL_OK) {
        return status;
    }
    const coll_layout *layout = &comm->layout;
    const coll_algorithm chosen =
        comm->shares_memory ? COLL_ALGORITHM_DIRECT : coll_cost_choose(costs, layout, kind, bytes);
    *row = (coll_tune_row){.measured_us = median(samples + WARM_UP, TIMED),
                           .predicted_us = coll_cost_us(costs, layout, kind, algorithm, bytes),
                           .eligible = coll_cost_is_eligible(layout, kind, algorithm),
                           .chosen = chosen == algorithm};
    return COLL_OK;
}
