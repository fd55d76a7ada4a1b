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

base_status launch_start_local(launch_spawn_options options, const proto_key_file *key,
                               int master_port, launch_process *process, base_error *reterr)
{
    char job_path[64];
    char address[PROTO_ENDPOINT_BYTES];
    char port[16];
    (void)snprintf(job_path, sizeof job_path, "/proc/self/fd/%d", options.job_fd);
    (void)snprintf(port, sizeof port, "%d",
                   master_port > 0 ? master_port : launch_address_port(key->endpoint));
    address_of(key->endpoint, address);
    options.address = address;
    options.port = port;
    options.key_fd = NO_FD;
    options.job_fd = open(job_path, O_RDONLY | O_CLOEXEC); /* one of its own, at the start */
    base_status status = options.job_fd >= 0
                             ? proto_key_file_write(key, &options.key_fd, reterr)
                             : base_fail_errno(reterr, errno, "cannot open JOB.json again");
    if (status == BASE_OK) {
        status = launch_spawn(&options, process, reterr);
    }
    base_fd_close(&options.job_fd);
    base_fd_close(&options.key_fd);
    return status;
}
