/* Starts a job's ranks: makes JOB.json, the keys and the control socket, then the processes of this
 * host; agents start those of the others. Called by job_run.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "budget/lease.h"
#include "job/head.h"
#include "job/master_port.h"
#include "job/session.h"
#include "job/start_local.h"
#include "proto/job_key.h"

enum { NO_FD = -1 };

/* The keys of a job, as long as its ranks are started. */
typedef struct job_keys {
    proto_keypair launcher;
    uint8_t collectives[PROTO_KEY_BYTES];
    proto_keypair *ranks;                     /* (world_size) */
    uint8_t (*public_ranks)[PROTO_KEY_BYTES]; /* (world_size) */
} job_keys;

base_status launch_start_job_file(launch_session *session, base_error *reterr)
{
    char *text = NULL;
    size_t text_bytes = 0;
    base_status status = proto_job_write(session->job, session->root, &text, &text_bytes, reterr);
    if (status == BASE_OK) {
        status = launch_start_job_bytes(text, text_bytes, &session->job_fd, reterr);
    }
    free(text);
    return status;
}

/* Starts one rank. It inherits a read-only view of JOB.json and its own key. */
static base_status start_rank(launch_session *session, int rank, const proto_key_file *key,
                              int lifeline_read_fd, base_error *reterr)
{
    cpu_set_t cpus;
    int lease_fd = NO_FD;
    base_status status = BASE_OK;
    if (session->options->lease != NULL) {
        status = launch_lease_rank_fd(session->options->lease, rank, &lease_fd, reterr);
    }
    if (status == BASE_OK) {
        if (session->affinity.bound) {
            launch_affinity_set(&session->affinity, rank, &cpus);
            session->result->ranks[rank].bound = true;
            session->result->ranks[rank].cpus = cpus;
        }
        const launch_spawn_options options = {
            .rank_path = session->options->rank_path,
            .program = session->options->program,
            .root = session->root,
            .files = "",
            .interface = "",
            .ports = session->head != NULL ? session->options->hosts->ports : "",
            .rank = rank,
            .world_size = session->world_size,
            .local_rank = rank,
            .local_world_size = session->head != NULL ? launch_head_local_ranks(session->head, 0)
                                                      : session->world_size,
            .threads = (int)session->job->parallel.threads_per_rank,
            .host_timeout_ms = session->head != NULL ? (int)session->options->hosts->host_timeout_ms
                                                     : LAUNCH_HOST_TIMEOUT_MS,
            .cpus = session->affinity.bound ? &cpus : NULL,
            .bind_to_gpu = session->options->bind,
            .job_fd = session->job_fd,
            .lifeline_fd = lifeline_read_fd,
            .lease_fd = lease_fd,
        };
        status = launch_start_local(options, key, session->master_port,
                                    &session->ranks[rank].process, reterr);
    }
    if (status == BASE_OK) {
        session->ranks[rank].started = true;
        session->started_count++;
    }
    base_fd_close(&lease_fd);
    return status;
}

static base_status make_keys(const launch_session *session, job_keys *keys, base_error *reterr)
{
    const size_t count = (size_t)session->world_size;
    keys->ranks = calloc(count, sizeof keys->ranks[0]);
    keys->public_ranks = calloc(count, sizeof keys->public_ranks[0]);
    if (keys->ranks == NULL || keys->public_ranks == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for keys");
    }
    if (session->options->lease != NULL) {
        keys->launcher = *launch_lease_job_key(session->options->lease);
    } else {
        proto_keypair_make(&keys->launcher);
    }
    proto_random_key(keys->collectives);
    for (int rank = 0; rank < session->world_size; rank++) {
        const int node = session->ranks[rank].node;
        if (node == 0) {
            proto_keypair_make(&keys->ranks[rank]);
        } else {
            proto_rank_key(launch_head_seed(session->head, node), rank, &keys->ranks[rank]);
        }
        memcpy(keys->public_ranks[rank], keys->ranks[rank].public_key, PROTO_KEY_BYTES);
    }
    return BASE_OK;
}

static void wipe_keys(const launch_session *session, job_keys *keys)
{
    if (keys->ranks != NULL) {
        proto_wipe(keys->ranks, (size_t)session->world_size * sizeof keys->ranks[0]);
    }
    free(keys->ranks);
    free(keys->public_ranks);
    proto_wipe(keys, sizeof *keys);
}

static base_status start_here(launch_session *session, const job_keys *keys, base_error *reterr)
{
    int lifeline[2] = {NO_FD, NO_FD};
    base_status status = BASE_OK;
    if (pipe2(lifeline, O_CLOEXEC) != 0) {
        return base_fail_errno(reterr, errno, "cannot make the lifeline");
    }
    session->lifeline_fd = lifeline[1];
    for (int rank = 0; rank < session->local_count && status == BASE_OK; rank++) {
        proto_key_file key = {.rank = keys->ranks[rank]};
        if (session->head != NULL) {
            launch_head_own_endpoint(session->head, proto_bus_endpoint(session->bus), key.endpoint);
        } else {
            (void)snprintf(key.endpoint, sizeof key.endpoint, "%s",
                           proto_bus_endpoint(session->bus));
        }
        memcpy(key.launcher_public_key, keys->launcher.public_key, PROTO_KEY_BYTES);
        memcpy(key.collectives_key, keys->collectives, PROTO_KEY_BYTES);
        status = start_rank(session, rank, &key, lifeline[0], reterr);
        proto_wipe(&key, sizeof key);
    }
    (void)close(lifeline[0]);
    return status;
}

/* Where ranks of other hosts may connect to this one. */
static base_ports allowed_ports(const launch_session *session)
{
    base_ports ports = {.low = 0};
    if (session->head != NULL) {
        (void)base_ports_parse(session->options->hosts->ports,
                               &ports); /* --listen-ports was checked */
    }
    return ports;
}

static base_status start_all(launch_session *session, const job_keys *keys, base_error *reterr)
{
    const base_ports ports = allowed_ports(session);
    const proto_bus_listen_options options = {
        .address = session->head != NULL ? launch_head_address(session->head) : "127.0.0.1",
        .ports = ports,
        .keys = &keys->launcher,
        .world_size = session->world_size,
        .rank_public_keys = (const uint8_t(*)[PROTO_KEY_BYTES])keys->public_ranks,
    };
    base_status status = proto_bus_listen(&options, &session->bus, reterr);
    if (status == BASE_OK && session->options->program != NULL) {
        status = launch_master_port_hold(&ports, &session->master_port_fd, &session->master_port,
                                         reterr);
    }
    if (status == BASE_OK && session->head != NULL) {
        status = launch_head_begin(session, keys->launcher.public_key, keys->collectives, reterr);
    }
    return status == BASE_OK ? start_here(session, keys, reterr) : status;
}

base_status launch_start_ranks(launch_session *session, base_error *reterr)
{
    job_keys keys = {.ranks = NULL};
    base_status status = make_keys(session, &keys, reterr);
    if (status == BASE_OK) {
        status = start_all(session, &keys, reterr);
    }
    wipe_keys(session, &keys);
    if (session->options->program == NULL) {
        /* a program need not join: handle_join sets this deadline when the first one does */
        session->join_deadline_ns =
            base_deadline_after_ns(session->job->parallel.join_timeout_ms * BASE_NS_PER_MS);
    }
    return status;
}
