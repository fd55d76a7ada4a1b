/* A client of PMI-1, the lines of text by which MPICH, Intel MPI and Slurm's pmi2 talk to the
 * processes that they start. Called through launch_store_kind.
 *
 * A request and its answer are one line each, "cmd=get kvsname=K key=N\n". The connection is
 * inherited: PMI_FD. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/store.h"

enum { LINE_BYTES = LAUNCH_STORE_VALUE_BYTES + 512, STORE_NAME_BYTES = 256 };

typedef struct pmi_client {
    int fd;
    int64_t size;
    launch_wait wait; /* of requests that the engine answers by itself */
    char store[STORE_NAME_BYTES];
    char line[LINE_BYTES]; /* the last answer */
    bool left;             /* a fence, before all had come */
} pmi_client;

/* Reads one line, and nothing behind it. */
static base_status read_line(pmi_client *pmi, const launch_wait *wait, base_error *reterr)
{
    for (size_t used = 0; used + 1 < sizeof pmi->line;) {
        const base_status status = launch_store_wait(pmi->fd, wait, reterr);
        if (status != BASE_OK) {
            return status;
        }
        const ssize_t got = read(pmi->fd, pmi->line + used, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (got <= 0) {
            return base_fail(reterr, BASE_ERR_PEER, "the engine has closed the PMI connection");
        }
        if (pmi->line[used] == '\n') {
            pmi->line[used] = '\0';
            return BASE_OK;
        }
        used += pmi->line[used] != '\0' ? 1 : 0;
    }
    return base_fail(reterr, BASE_ERR_PEER, "the engine sent a PMI line of more than %d bytes",
                     LINE_BYTES - 2);
}

/* The value of NAME=VALUE in the last answer; NULL: it has none. *bytes: its length. */
static const char *find_field(const pmi_client *pmi, const char *name, size_t *bytes)
{
    const size_t length = strlen(name);
    for (const char *at = pmi->line; *at != '\0';) {
        at += strspn(at, " ");
        const size_t word = strcspn(at, " ");
        if (word > length && memcmp(at, name, length) == 0 && at[length] == '=') {
            *bytes = word - length - 1;
            return at + length + 1;
        }
        at += word;
    }
    return NULL;
}

static bool field_is(const pmi_client *pmi, const char *name, const char *value)
{
    size_t bytes = 0;
    const char *got = find_field(pmi, name, &bytes);
    return got != NULL && bytes == strlen(value) && memcmp(got, value, bytes) == 0;
}

static bool has_field(const pmi_client *pmi, const char *name)
{
    size_t bytes = 0;
    return find_field(pmi, name, &bytes) != NULL;
}

/* Copies a field. False: there is none, or it is too long. */
static bool copy_field(const pmi_client *pmi, const char *name, char *value, size_t size_bytes)
{
    size_t bytes = 0;
    const char *got = find_field(pmi, name, &bytes);
    if (got == NULL || bytes >= size_bytes) {
        return false;
    }
    memcpy(value, got, bytes);
    value[bytes] = '\0';
    return true;
}

/* Sends a request, and takes the answer of that name. */
static base_status ask(pmi_client *pmi, const char *request, const char *answer,
                       const launch_wait *wait, base_error *reterr)
{
    base_status status = base_fd_write(pmi->fd, "PMI_FD", request, strlen(request), reterr);
    if (status == BASE_OK) {
        status = read_line(pmi, wait, reterr);
    }
    if (status == BASE_OK &&
        (!field_is(pmi, "cmd", answer) || (has_field(pmi, "rc") && !field_is(pmi, "rc", "0")))) {
        status = base_fail(reterr, BASE_ERR_PEER, "the engine answered '%.100s' instead of %s",
                           pmi->line, answer);
    }
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "PMI-1");
}

static base_status pmi_open(const launch_place *place, const launch_wait *wait, void **state,
                            base_error *reterr)
{
    struct stat info;
    if (fstat(place->pmi_fd, &info) != 0 || !S_ISSOCK(info.st_mode)) {
        return base_fail(reterr, BASE_ERR_INVALID, "PMI_FD=%d is no socket", place->pmi_fd);
    }
    pmi_client *pmi = calloc(1, sizeof *pmi);
    if (pmi == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the engine's store");
    }
    pmi->fd = place->pmi_fd;
    pmi->size = place->nodes;
    pmi->wait = *wait;
    (void)fcntl(pmi->fd, F_SETFD, FD_CLOEXEC);
    base_status status =
        ask(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", wait, reterr);
    if (status == BASE_OK) {
        status = ask(pmi, "cmd=get_my_kvsname\n", "my_kvsname", wait, reterr);
    }
    if (status == BASE_OK && !copy_field(pmi, "kvsname", pmi->store, sizeof pmi->store)) {
        status = base_fail(reterr, BASE_ERR_PEER, "PMI-1: the engine's store has no name");
    }
    if (status != BASE_OK) {
        free(pmi);
        return status;
    }
    *state = pmi;
    return BASE_OK;
}

static base_status pmi_size(void *state, int64_t *size, base_error *reterr)
{
    const pmi_client *pmi = state;
    (void)reterr;
    *size = pmi->size;
    return BASE_OK;
}

static base_status pmi_put(void *state, const char *key, const char *value, base_error *reterr)
{
    pmi_client *pmi = state;
    char request[LINE_BYTES];
    (void)snprintf(request, sizeof request, "cmd=put kvsname=%s key=%s value=%s\n", pmi->store, key,
                   value);
    return ask(pmi, request, "put_result", &pmi->wait, reterr);
}

static base_status pmi_fence(void *state, const launch_wait *wait, base_error *reterr)
{
    pmi_client *pmi = state;
    const base_status status = ask(pmi, "cmd=barrier_in\n", "barrier_out", wait, reterr);
    pmi->left = status != BASE_OK;
    return status;
}

static base_status pmi_get(void *state, int node, const char *key,
                           char value[LAUNCH_STORE_VALUE_BYTES], base_error *reterr)
{
    pmi_client *pmi = state;
    char request[LINE_BYTES];
    (void)node;
    (void)snprintf(request, sizeof request, "cmd=get kvsname=%s key=%s\n", pmi->store, key);
    const base_status status = ask(pmi, request, "get_result", &pmi->wait, reterr);
    if (status == BASE_OK && !copy_field(pmi, "value", value, LAUNCH_STORE_VALUE_BYTES)) {
        return base_fail(reterr, BASE_ERR_PEER, "PMI-1: the store's %s is not whole", key);
    }
    return status;
}

static void pmi_close(void *state)
{
    pmi_client *pmi = state;
    base_error ignored;
    /* a launcher that leaves a fence does not finalize: so the engine ends the others, which wait in it */
    if (pmi->left || ask(pmi, "cmd=finalize\n", "finalize_ack", &pmi->wait, &ignored) == BASE_OK) {
        (void)close(pmi->fd);
    }
    free(pmi);
}

const launch_store_kind launch_store_pmi = {
    .open = pmi_open,
    .size = pmi_size,
    .put = pmi_put,
    .fence = pmi_fence,
    .get = pmi_get,
    .close = pmi_close,
};
