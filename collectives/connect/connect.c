/* coll_context_create: finds out which ranks take part, on which hosts, and chooses the
 * transport and the cost model's figures. Called by programs. It stands above everything else of
 * the library. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "calibrate/calibrate.h"
#include "coll/backend.h"
#include "common/sized.h"
#include "core/comm.h"
#include "core/rendezvous.h"
#include "core/text.h"
#include "ringfence/coll_error.h"
#include "transport/registry.h"

enum {
    SPINS = 1,
    OPTIONS_BYTES_FIRST = COLL_SIZED_BYTES(coll_context_options, curve_secret_key), /* of 0.1 */
};

#define ALGORITHM_VARIABLE "RINGFENCE_COLL_ALGORITHM"
#define NO_BACKEND         "the algorithm native is a backend's, and there is none"

/* What a rank needs to take part in the exchange at all. */
static coll_status check_place(const coll_context_options *options, coll_error *reterr)
{
    if (options->world_size < 1 || options->world_size > COLL_RANKS_MAX) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%d ranks (1 to %d can be)", options->world_size,
                         COLL_RANKS_MAX);
    }
    if (options->rank < 0 || options->rank >= options->world_size) {
        return coll_fail(reterr, COLL_ERR_INVALID, "rank %d of %d", options->rank,
                         options->world_size);
    }
    if (options->exchange == NULL || options->timeout_ns < 0) {
        return coll_fail(reterr, COLL_ERR_INVALID, "no exchange, or a negative timeout");
    }
    return COLL_OK;
}

static coll_status check_choices(const coll_context_options *options, coll_error *reterr)
{
    if (options->host_timeout_ns < 0) {
        return coll_fail(reterr, COLL_ERR_INVALID, "a negative host timeout");
    }
    if (options->transport < COLL_TRANSPORT_AUTO || options->transport > COLL_TRANSPORT_LAST ||
        options->algorithm < COLL_ALGORITHM_AUTO ||
        (options->algorithm > COLL_ALGORITHM_LAST && options->algorithm != COLL_ALGORITHM_NATIVE)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "unknown transport or algorithm");
    }
    if (options->algorithm == COLL_ALGORITHM_NATIVE && options->backend == NULL) {
        return coll_fail(reterr, COLL_ERR_INVALID, NO_BACKEND);
    }
    if (options->tcp_auth < COLL_TCP_AUTH_MAC || options->tcp_auth > COLL_TCP_AUTH_OFF) {
        return coll_fail(reterr, COLL_ERR_INVALID, "unknown tcp authentication");
    }
    const coll_backend *backend = options->backend;
    if (backend != NULL && (backend->size != sizeof *backend || backend->abi != COLL_BACKEND_ABI)) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                         "the backend has ABI %u and %zu bytes, this libcoll %u and %zu",
                         (unsigned)backend->abi, backend->size, (unsigned)COLL_BACKEND_ABI,
                         sizeof *backend);
    }
    if ((options->curve_public_key == NULL) != (options->curve_secret_key == NULL)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "half a CURVE key pair");
    }
    return COLL_OK;
}

static coll_status check_identity(const coll_context *context, int rank,
                                  const coll_context_options *options, coll_error *reterr)
{
    const coll_identity *identity = &context->identities[rank];
    if (identity->rank != (uint32_t)rank || identity->world_size != (uint32_t)context->size) {
        return coll_fail(reterr, COLL_ERR_MISMATCH,
                         "rank %d of %d is taken by a process (host %s, pid %u) that takes itself "
                         "for rank %u of %u",
                         rank, context->size, identity->host, (unsigned)identity->pid,
                         (unsigned)identity->rank, (unsigned)identity->world_size);
    }
    char name[128];
    coll_context_rank_text(context, rank, name, sizeof name);
    if (identity->transport != (uint32_t)options->transport) {
        return coll_fail(reterr, COLL_ERR_MISMATCH, "%s asks for transport %s, rank %d for %s",
                         name, coll_transport_name((coll_transport)identity->transport),
                         context->rank, coll_transport_name(options->transport));
    }
    if (identity->algorithm != (uint32_t)context->algorithm) {
        return coll_fail(reterr, COLL_ERR_MISMATCH, "%s asks for algorithm %s, rank %d for %s",
                         name, coll_algorithm_name((coll_algorithm)identity->algorithm),
                         context->rank, coll_algorithm_name(context->algorithm));
    }
    return COLL_OK;
}

/* Fills identities. `status`, with *reterr: of what this rank did before. */
static coll_status exchange_identities(coll_context *context, const coll_context_options *options,
                                       int64_t deadline_ns, coll_status status, coll_error *reterr)
{
    uint8_t mine[COLL_IDENTITY_BYTES];
    uint8_t all[COLL_RANKS_MAX * COLL_IDENTITY_BYTES];
    coll_identity identity;
    coll_identity_get(&identity);
    identity.rank = (uint32_t)context->rank;
    identity.world_size = (uint32_t)context->size;
    identity.transport = (uint32_t)options->transport;
    identity.algorithm = (uint32_t)context->algorithm;
    coll_identity_encode(&identity, mine);
    const coll_rendezvous_part part = {options, mine, all, sizeof mine, deadline_ns, status};
    status = coll_rendezvous(context, &part, reterr);
    for (int rank = 0; status == COLL_OK && rank < context->size; rank++) {
        status = coll_identity_decode(all + (size_t)rank * COLL_IDENTITY_BYTES,
                                      &context->identities[rank], reterr);
        if (status == COLL_OK) {
            status = check_identity(context, rank, options, reterr);
        }
    }
    return status;
}

/* There is no memory for a context: all that this rank does is to say so to the others. */
static coll_status tell_lack(const coll_context_options *options, coll_error *reterr)
{
    coll_context none = {.rank = options->rank, .size = options->world_size};
    const coll_status status =
        coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a context (%zu bytes)",
                  sizeof(coll_context) + sizeof(coll_flight));
    const int64_t timeout_ns =
        options->timeout_ns != 0 ? options->timeout_ns : COLL_DEFAULT_TIMEOUT_NS;
    const coll_rendezvous_part part = {.options = options,
                                       .size_bytes = COLL_IDENTITY_BYTES,
                                       .deadline_ns = base_deadline_after_ns(timeout_ns),
                                       .status = status};
    return coll_rendezvous(&none, &part, reterr);
}

/* Whether any two ranks are on one host: the same answer on every rank. */
static bool shares_a_host(const coll_context *context)
{
    for (int a = 0; a < context->size; a++) {
        for (int b = 0; b < a; b++) {
            if (coll_identity_same_host(&context->identities[a], &context->identities[b])) {
                return true;
            }
        }
    }
    return false;
}

/* Ranks of one host share memory only as one user: fails alike on every rank if two are not. */
static coll_status check_users(const coll_context *context, coll_error *reterr)
{
    for (int a = 0; a < context->size; a++) {
        for (int b = 0; b < a; b++) {
            const coll_identity *first = &context->identities[b];
            const coll_identity *second = &context->identities[a];
            if (coll_identity_same_host(first, second) && first->uid != second->uid) {
                return coll_fail_errno(
                    reterr, EACCES,
                    "rank %d (host %s, pid %u) is of user %u and rank %d (pid %u) of user %u: "
                    "start "
                    "them as one user, or with transport tcp, because shared memory is one user's",
                    b, first->host, (unsigned)first->pid, (unsigned)first->uid, a,
                    (unsigned)second->pid, (unsigned)second->uid);
            }
        }
    }
    return COLL_OK;
}

static coll_status choose_transport(coll_context *context, const coll_context_options *options,
                                    coll_error *reterr)
{
    const coll_identity *mine = &context->identities[context->rank];
    int here = 0;
    int stranger = -1;
    for (int rank = 0; rank < context->size; rank++) {
        if (rank == context->rank || coll_identity_same_host(mine, &context->identities[rank])) {
            here++;
        } else {
            stranger = rank;
        }
    }
    if (options->transport == COLL_TRANSPORT_SHM && stranger >= 0) {
        char name[128];
        coll_context_rank_text(context, stranger, name, sizeof name);
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                         "shm needs all ranks on one host (and in its namespaces); %s is elsewhere",
                         name);
    }
    context->transport = options->transport;
    if (options->transport == COLL_TRANSPORT_AUTO && stranger < 0) {
        context->transport = COLL_TRANSPORT_SHM;
    } else if (options->transport == COLL_TRANSPORT_AUTO && !shares_a_host(context)) {
        context->transport = COLL_TRANSPORT_TCP;
    }
    context->table = coll_transport_find(context->transport);
    context->spins =
        here <= coll_identity_cpus(context->identities, context->size, mine) ? SPINS : 0;
    return context->transport == COLL_TRANSPORT_TCP || context->transport == COLL_TRANSPORT_ZMQ
               ? COLL_OK
               : check_users(context, reterr);
}

/* What the environment says where the program leaves the choice. */
static coll_status forced_algorithm(coll_context *context, coll_error *reterr)
{
    const char *name = getenv(ALGORITHM_VARIABLE);
    if (name == NULL || name[0] == '\0' || context->algorithm != COLL_ALGORITHM_AUTO) {
        return COLL_OK;
    }
    coll_algorithm algorithm = COLL_ALGORITHM_AUTO;
    coll_status status = coll_algorithm_parse(name, &algorithm, reterr);
    if (status == COLL_OK && algorithm == COLL_ALGORITHM_NATIVE && context->backend == NULL) {
        status = coll_fail(reterr, COLL_ERR_INVALID, NO_BACKEND);
    }
    if (status != COLL_OK) {
        return coll_error_prepend(reterr, status, ALGORITHM_VARIABLE);
    }
    coll_context_say(context, algorithm);
    return COLL_OK;
}

coll_status coll_context_create(const coll_context_options *given, coll_context **context,
                                coll_error *reterr)
{
    coll_context_options known;
    coll_error unread;
    const coll_context_options *options = &known;
    reterr = reterr != NULL ? reterr : &unread; /* peers are told, too */
    coll_status status = coll_sized_read(&known, sizeof known, OPTIONS_BYTES_FIRST, given,
                                         "coll_context_options", reterr);
    if (status == COLL_OK) {
        status = check_place(options, reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    coll_context *made = coll_context_alloc(options);
    if (made == NULL) {
        return tell_lack(options, reterr);
    }
    const int64_t deadline_ns = base_deadline_after_ns(made->timeout_ns);
    int ranks[COLL_RANKS_MAX];
    for (int rank = 0; rank < made->size; rank++) {
        ranks[rank] = rank;
    }
    /* What the caller's exchange fails with, unless it says more. */
    (void)coll_fail(reterr, COLL_ERR_PEER, "the exchange failed");
    status = check_choices(options, reterr);
    if (status == COLL_OK) {
        status = forced_algorithm(made, reterr);
    }
    status = exchange_identities(made, options, deadline_ns, status, reterr);
    if (status == COLL_OK) {
        status = choose_transport(made, options, reterr);
    }
    if (status == COLL_OK) {
        status = made->table->open(made, options, deadline_ns, reterr);
    }
    if (status == COLL_OK) {
        status = coll_comm_open(made, ranks, made->size, deadline_ns, &made->world, reterr);
    }
    if (status == COLL_OK) {
        status = coll_tune_context(made, options, deadline_ns, reterr);
    }
    if (status != COLL_OK) {
        if (options->unreached != NULL && made->unreached >= 0) {
            *options->unreached = made->unreached;
        }
        coll_context_destroy(made);
        return coll_error_prepend(reterr, status, "connecting %d ranks", options->world_size);
    }
    *reterr = (coll_error){.status = COLL_OK}; /* nothing has failed after all */
    *context = made;
    return COLL_OK;
}
