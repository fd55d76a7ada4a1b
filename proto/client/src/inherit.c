/* Reads and checks what a rank inherits from the launcher: environment variables, descriptors,
 * JOB.json, keys. Called once, by proto_client_open. */
#include "inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static const char by_hand[] =
    "a rank is not started by hand; run: launcher --ranks 2 --mode ddp-cpu, or, with a program of "
    "your own: launcher --ranks 2 -- PROGRAM (no job: %s)";

/* Reads a whole number in [min, max] from the environment. */
static base_status env_number(const char *name, long min, long max, int *value, base_error *reterr)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (text == NULL) {
        char what[64];
        (void)snprintf(what, sizeof what, "%s is not set", name);
        return base_fail(reterr, BASE_ERR_AUTH, by_hand, what);
    }
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < min || number > max) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s is '%s': must be a number from %ld to %ld",
                         name, text, min, max);
    }
    *value = (int)number;
    return BASE_OK;
}

/* Reads a descriptor's number from the environment. It must be open, and becomes close-on-exec. */
static base_status env_fd(const char *name, int *fd, base_error *reterr)
{
    const base_status status = env_number(name, STDERR_FILENO + 1, 1 << 20, fd, reterr);
    if (status == BASE_OK && fcntl(*fd, F_SETFD, FD_CLOEXEC) != 0) {
        char what[64];
        (void)snprintf(what, sizeof what, "%s does not name an open descriptor", name);
        *fd = -1;
        return base_fail(reterr, BASE_ERR_AUTH, by_hand, what);
    }
    return status;
}

/* Reads JOB.json, and makes its paths this host's. */
static base_status read_job(int fd, proto_inherited *inherited, base_error *reterr)
{
    proto_job *job = &inherited->identity.job;
    const char *root = getenv("RINGFENCE_JOB_ROOT");
    const char *files = getenv("RINGFENCE_JOB_FILES");
    base_status status = base_fd_read(fd, "JOB.json", PROTO_JOB_BYTES_MAX, &inherited->job_bytes,
                                      &inherited->job_size, reterr);
    if (status == BASE_OK) {
        status = proto_job_parse(inherited->job_bytes, inherited->job_size, job, reterr);
    }
    if (status == BASE_OK) {
        status = files != NULL && files[0] != '\0'
                     ? proto_job_relocate(job, files, reterr)
                     : proto_job_resolve(job, root != NULL ? root : "", reterr);
    }
    return status;
}

/* Takes the interface of this host, whose launcher may have another than the job says. */
static base_status read_interface(proto_job *job, base_error *reterr)
{
    const char *own = getenv("RINGFENCE_INTERFACE");
    if (own == NULL || own[0] == '\0') {
        return BASE_OK;
    }
    if (strlen(own) >= sizeof job->parallel.interface) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "RINGFENCE_INTERFACE has more than %zu characters",
                         sizeof job->parallel.interface - 1);
    }
    (void)snprintf(job->parallel.interface, sizeof job->parallel.interface, "%s", own);
    return BASE_OK;
}

static base_status read_host_timeout(proto_identity *identity, base_error *reterr)
{
    const char *name = "RINGFENCE_HOST_TIMEOUT_MS";
    return getenv(name) == NULL
               ? BASE_OK
               : env_number(name, 1, PROTO_HOST_TIMEOUT_MAX_MS, &identity->host_timeout_ms, reterr);
}

/* The address of "tcp://127.0.0.1:40123" or "tcp://[::1]:40123". */
static void address_of(const char *endpoint, char address[PROTO_ENDPOINT_BYTES])
{
    const char *slashes = strstr(endpoint, "//");
    const char *start = slashes != NULL ? slashes + 2 : endpoint;
    start += *start == '[' ? 1 : 0;
    const char *colon = strrchr(start, ':');
    size_t length = colon != NULL ? (size_t)(colon - start) : strlen(start);
    length -= length > 0 && start[length - 1] == ']' ? 1 : 0;
    memcpy(address, start, length);
    address[length] = '\0';
}

static base_status read_ranks(proto_identity *identity, base_error *reterr)
{
    const struct {
        const char *name;
        int *value;
        long min;
    } variables[] = {
        {"WORLD_SIZE", &identity->world_size, 1},
        {"RANK", &identity->rank, 0},
        {"LOCAL_WORLD_SIZE", &identity->local_world_size, 1},
        {"LOCAL_RANK", &identity->local_rank, 0},
    };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const base_status status = env_number(variables[i].name, variables[i].min, BASE_RANKS_MAX,
                                              variables[i].value, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    if (identity->rank >= identity->world_size ||
        identity->local_rank >= identity->local_world_size ||
        identity->local_world_size > identity->world_size) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "RANK %d of WORLD_SIZE %d, LOCAL_RANK %d of LOCAL_WORLD_SIZE %d: "
                         "impossible",
                         identity->rank, identity->world_size, identity->local_rank,
                         identity->local_world_size);
    }
    return BASE_OK;
}

base_status proto_inherit(proto_inherited *inherited, base_error *reterr)
{
    int job_fd = -1;
    int key_fd = -1;
    int pipe_fd = -1;
    proto_identity *identity = &inherited->identity;
    base_status status = env_fd("RINGFENCE_JOB_FD", &job_fd, reterr);
    if (status == BASE_OK) {
        status = env_fd("RINGFENCE_KEY_FD", &key_fd, reterr);
    }
    if (status == BASE_OK) {
        status = env_fd("RINGFENCE_LIFELINE_FD", &pipe_fd, reterr);
    }
    if (status == BASE_OK) {
        status = read_ranks(identity, reterr);
    }
    if (status == BASE_OK) {
        status = read_host_timeout(identity, reterr);
    }
    if (status == BASE_OK) {
        status = read_job(job_fd, inherited, reterr);
    }
    if (status == BASE_OK) {
        status = read_interface(&identity->job, reterr);
    }
    if (status == BASE_OK && identity->job.job.world_size != identity->world_size) {
        status = base_fail(reterr, BASE_ERR_INVALID, "WORLD_SIZE is %d, the job has %lld ranks",
                           identity->world_size, (long long)identity->job.job.world_size);
    }
    if (status == BASE_OK) {
        status = proto_key_file_read(key_fd, &inherited->key, reterr);
    }
    if (status == BASE_OK) {
        memcpy(identity->launcher_public_key, inherited->key.launcher_public_key, PROTO_KEY_BYTES);
        memcpy(identity->collectives_key, inherited->key.collectives_key, PROTO_KEY_BYTES);
        address_of(inherited->key.endpoint, identity->launcher_address);
    }
    base_fd_close(&job_fd);
    base_fd_close(&key_fd);
    if (status != BASE_OK) {
        base_fd_close(&pipe_fd);
    }
    inherited->lifeline_fd = pipe_fd;
    return status;
}
