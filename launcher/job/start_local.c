/* Makes what one rank inherits, its view of JOB.json and its key, and starts it. Called by start.c
 * and by agents. */
#include "job/start_local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/address.h"

enum { NO_FD = -1 };

base_status launch_start_job_bytes(const void *job, size_t job_bytes, int *fd, base_error *reterr)
{
    const int made = memfd_create("JOB.json", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) {
        return base_fail_errno(reterr, errno, "cannot make a memory file for JOB.json");
    }
    base_status status = base_fd_write(made, "JOB.json", job, job_bytes, reterr);
    if (status == BASE_OK &&
        fcntl(made, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        status = base_fail_errno(reterr, errno, "cannot seal JOB.json");
    }
    if (status != BASE_OK) {
        (void)close(made);
        return status;
    }
    *fd = made;
    return BASE_OK;
}

/* The address of "tcp://127.0.0.1:40123" or "tcp://[fd00::1]:40123", without brackets. */
static void address_of(const char *endpoint, char address[PROTO_ENDPOINT_BYTES])
{
    launch_address parsed;
    const bool known = launch_address_parse(endpoint, &parsed, NULL) == BASE_OK;
    (void)snprintf(address, PROTO_ENDPOINT_BYTES, "%.*s", PROTO_ENDPOINT_BYTES - 1,
                   known ? parsed.host : "");
}

base_status launch_start_local(const launch_local_rank *options, launch_process *process,
                               base_error *reterr)
{
    char job_path[64];
    char address[PROTO_ENDPOINT_BYTES];
    char port[16];
    int key_fd = NO_FD;
    (void)snprintf(job_path, sizeof job_path, "/proc/self/fd/%d", options->job_fd);
    (void)snprintf(port, sizeof port, "%d",
                   options->master_port > 0 ? options->master_port
                                            : launch_address_port(options->key->endpoint));
    address_of(options->key->endpoint, address);
    const int job_fd = open(job_path, O_RDONLY | O_CLOEXEC);
    base_status status = job_fd >= 0 ? proto_key_file_write(options->key, &key_fd, reterr)
                                     : base_fail_errno(reterr, errno, "cannot open JOB.json again");
    if (status == BASE_OK) {
        const launch_spawn_options spawn = {
            .rank_path = options->rank_path,
            .program = options->program,
            .rank = options->rank,
            .world_size = options->world_size,
            .local_rank = options->local_rank,
            .local_world_size = options->local_world_size,
            .threads = options->threads,
            .host_timeout_ms = options->host_timeout_ms,
            .cpus = options->cpus,
            .bind_to_gpu = options->bind_to_gpu,
            .root = options->root,
            .files = options->files,
            .interface = options->interface,
            .ports = options->ports,
            .address = address,
            .port = port,
            .job_fd = job_fd,
            .key_fd = key_fd,
            .lifeline_fd = options->lifeline_fd,
            .lease_fd = options->lease_fd,
        };
        status = launch_spawn(&spawn, process, reterr);
    }
    if (job_fd >= 0) {
        (void)close(job_fd);
    }
    if (key_fd >= 0) {
        (void)close(key_fd);
    }
    return status;
}
