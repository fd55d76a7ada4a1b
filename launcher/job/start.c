/* Starts a job's ranks: makes JOB.json, the keys and the control socket, then the processes. Called
 * by job_run.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "budget/lease.h"
#include "job/session.h"

enum { NO_FD = -1 };

base_status launch_start_job_file(launch_session *session, base_error *reterr)
{
    char *text = NULL;
    size_t text_bytes = 0;
    base_status status = proto_job_write(session->job, session->root, &text, &text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    session->job_fd = memfd_create("JOB.json", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (session->job_fd < 0) {
        status = base_fail_errno(reterr, errno, "cannot make a memory file for JOB.json");
    } else {
        status = base_fd_write(session->job_fd, "JOB.json", text, text_bytes, reterr);
    }
    if (status == BASE_OK && fcntl(session->job_fd, F_ADD_SEALS,
                                   F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        status = base_fail_errno(reterr, errno, "cannot seal JOB.json");
    }
    free(text);
    return status;
}

/* The port of "tcp://127.0.0.1:40123". */
static const char *endpoint_port(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    return colon != NULL ? colon + 1 : "";
}

/* Starts one rank. It inherits a read-only view of JOB.json and its own key. */
static base_status start_rank(launch_session *session, int rank, const proto_key_file *key,
                              int lifeline_read_fd, base_error *reterr)
{
    char job_path[64];
    cpu_set_t cpus;
    int key_fd = NO_FD;
    int lease_fd = NO_FD;
    (void)snprintf(job_path, sizeof job_path, "/proc/self/fd/%d", session->job_fd);
    const int job_fd = open(job_path, O_RDONLY | O_CLOEXEC);
    base_status status = job_fd >= 0 ? proto_key_file_write(key, &key_fd, reterr)
                                     : base_fail_errno(reterr, errno, "cannot open JOB.json again");
    if (status == BASE_OK && session->options->lease != NULL) {
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
            .rank = rank,
            .world_size = session->world_size,
            .threads = (int)session->job->parallel.threads_per_rank,
            .cpus = session->affinity.bound ? &cpus : NULL,
            .root = session->root,
            .address = "127.0.0.1",
            .port = endpoint_port(key->endpoint),
            .job_fd = job_fd,
            .key_fd = key_fd,
            .lifeline_fd = lifeline_read_fd,
            .lease_fd = lease_fd,
        };
        status = launch_spawn(&options, &session->ranks[rank].process, reterr);
    }
    if (status == BASE_OK) {
        session->ranks[rank].started = true;
        session->started_count++;
    }
    if (job_fd >= 0) {
        (void)close(job_fd);
    }
    if (key_fd >= 0) {
        (void)close(key_fd);
    }
    if (lease_fd >= 0) {
        (void)close(lease_fd);
    }
    return status;
}

base_status launch_start_ranks(launch_session *session, base_error *reterr)
{
    const size_t count = (size_t)session->world_size;
    proto_keypair launcher_keys;
    uint8_t collectives_key[PROTO_KEY_BYTES];
    int lifeline[2] = {NO_FD, NO_FD};
    proto_keypair *keys = calloc(count, sizeof keys[0]);
    uint8_t(*public_keys)[PROTO_KEY_BYTES] = calloc(count, sizeof public_keys[0]);
    base_status status = keys != NULL && public_keys != NULL
                             ? BASE_OK
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for keys");
    if (session->options->lease != NULL) {
        launcher_keys = *launch_lease_job_key(session->options->lease);
    } else {
        proto_keypair_make(&launcher_keys);
    }
    proto_random_key(collectives_key);
    for (size_t i = 0; i < count && status == BASE_OK; i++) {
        proto_keypair_make(&keys[i]);
        memcpy(public_keys[i], keys[i].public_key, PROTO_KEY_BYTES);
    }
    if (status == BASE_OK) {
        const proto_bus_listen_options listen_options = {
            .address = "127.0.0.1",
            .keys = &launcher_keys,
            .world_size = session->world_size,
            .rank_public_keys = (const uint8_t(*)[PROTO_KEY_BYTES])public_keys,
        };
        status = proto_bus_listen(&listen_options, &session->bus, reterr);
    }
    if (status == BASE_OK && pipe2(lifeline, O_CLOEXEC) != 0) {
        status = base_fail_errno(reterr, errno, "cannot make the lifeline");
    }
    session->lifeline_fd = lifeline[1];
    for (int rank = 0; rank < session->world_size && status == BASE_OK; rank++) {
        proto_key_file key = {.rank = keys[rank]};
        (void)snprintf(key.endpoint, sizeof key.endpoint, "%s", proto_bus_endpoint(session->bus));
        memcpy(key.launcher_public_key, launcher_keys.public_key, PROTO_KEY_BYTES);
        memcpy(key.collectives_key, collectives_key, PROTO_KEY_BYTES);
        status = start_rank(session, rank, &key, lifeline[0], reterr);
        proto_wipe(&key, sizeof key);
    }
    if (lifeline[0] >= 0) {
        (void)close(lifeline[0]);
    }
    if (keys != NULL) {
        proto_wipe(keys, count * sizeof keys[0]);
    }
    proto_wipe(&launcher_keys, sizeof launcher_keys);
    proto_wipe(collectives_key, sizeof collectives_key);
    free(keys);
    free(public_keys);
    if (session->options->program == NULL) {
        /* a program need not join: handle_join sets this deadline when the first one does */
        session->join_deadline_ns =
            base_deadline_after_ns(session->job->parallel.join_timeout_ms * BASE_NS_PER_MS);
    }
    return status;
}
