/* Opens and closes a bootstrap, and hands it to a context's options. Called by programs. */
#include "bootstrap/bootstrap.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "common/sized.h"

enum {
    OPTIONS_BYTES_FIRST = COLL_SIZED_BYTES(coll_bootstrap_options, timeout_ns),
    TIMEOUT_S = 300,
    PORT_MAX = 65535,
};

void coll_bootstrap_end_text(int fd, bool peer, char address[COLL_ADDRESS_BYTES])
{
    struct sockaddr_in6 end = {.sin6_family = AF_UNSPEC};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    socklen_t length = sizeof end;
    struct sockaddr *at = (struct sockaddr *)&end;
    const int failed = peer ? getpeername(fd, at, &length) : getsockname(fd, at, &length);
    if (failed == 0 && end.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&end.sin6_addr)) {
        memcpy(&v4.sin_addr, &end.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
        at = (struct sockaddr *)&v4;
        length = sizeof v4;
    }
    if (failed != 0 ||
        getnameinfo(at, length, address, COLL_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST) != 0) {
        (void)snprintf(address, COLL_ADDRESS_BYTES, "?");
    }
}

void coll_bootstrap_list(uint64_t ranks, char *text, size_t size_bytes)
{
    size_t used =
        (size_t)snprintf(text, size_bytes, "rank%s", (ranks & (ranks - 1)) == 0 ? "" : "s");
    const char *between = " ";
    for (int rank = 0; rank < COLL_RANKS_MAX && used < size_bytes; rank++) {
        int last = rank;
        if ((ranks >> rank & 1) == 0) {
            continue;
        }
        while (last + 1 < COLL_RANKS_MAX && (ranks >> (last + 1) & 1) != 0) {
            last++;
        }
        const int added =
            last == rank ? snprintf(text + used, size_bytes - used, "%s%d", between, rank)
                         : snprintf(text + used, size_bytes - used, "%s%d-%d", between, rank, last);
        used += (size_t)added;
        between = ", ";
        rank = last;
    }
}

static coll_status check_options(const coll_bootstrap_options *options, coll_error *reterr)
{
    const int size = options->world_size;
    if (size < 1 || size > COLL_RANKS_MAX) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%d ranks (1 to %d can be)", size,
                         COLL_RANKS_MAX);
    }
    if (options->rank < 0 || options->rank >= size) {
        return coll_fail(reterr, COLL_ERR_INVALID, "rank %d of %d", options->rank, size);
    }
    if (options->timeout_ns < 0 || (options->secret == NULL && options->secret_bytes > 0)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "a negative timeout, or a secret that is NULL");
    }
    if (size > 1 && (options->address == NULL || options->address[0] == '\0' ||
                     strlen(options->address) >= BASE_HOSTNAME_BYTES)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "no address of rank 0, or one that is too long");
    }
    if (options->port < 0 || options->port > PORT_MAX) {
        return coll_fail(reterr, COLL_ERR_INVALID, "port %d of rank 0 (1 to %d can be)",
                         options->port, PORT_MAX);
    }
    return COLL_OK;
}

static coll_bootstrap *make(const coll_bootstrap_options *options)
{
    base_host here;
    coll_bootstrap *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    base_host_get(&here);
    made->rank = options->rank;
    made->world_size = options->world_size;
    made->port = options->port != 0 ? options->port : COLL_BOOTSTRAP_PORT;
    made->has_secret = options->secret_bytes > 0;
    made->process.pid = (uint32_t)getpid();
    (void)snprintf(made->process.host, sizeof made->process.host, "%.*s",
                   (int)sizeof made->process.host - 1, here.hostname);
    (void)snprintf(made->host, sizeof made->host, "%s",
                   options->address == NULL                     ? ""
                   : strcmp(options->address, "localhost") == 0 ? "127.0.0.1"
                                                                : options->address);
    coll_bootstrap_derive(options->secret, options->secret_bytes, COLL_BOOTSTRAP_LINK_LABEL,
                          made->link_key);
    coll_bootstrap_derive(options->secret, options->secret_bytes, COLL_BOOTSTRAP_JOB_LABEL,
                          made->job_key);
    return made;
}

coll_status coll_bootstrap_open(const coll_bootstrap_options *given, coll_bootstrap **bootstrap,
                                coll_error *reterr)
{
    coll_bootstrap_options options;
    coll_error error = {.status = COLL_OK};
    coll_status status = coll_sized_read(&options, sizeof options, OPTIONS_BYTES_FIRST, given,
                                         "coll_bootstrap_options", reterr);
    if (status == COLL_OK) {
        status = check_options(&options, reterr);
    }
    if (status == COLL_OK && sodium_init() < 0) {
        status = coll_fail(reterr, COLL_ERR_UNSUPPORTED, "libsodium does not start");
    }
    if (status != COLL_OK) {
        return status;
    }
    coll_bootstrap *made = make(&options);
    if (made == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a bootstrap");
    }
    const int64_t deadline_ns = base_deadline_after_ns(
        options.timeout_ns != 0 ? options.timeout_ns : TIMEOUT_S * BASE_NS_PER_S);
    if (made->world_size > 1) {
        status = made->rank == 0 ? coll_bootstrap_admit(made, deadline_ns, &error)
                                 : coll_bootstrap_join(made, deadline_ns, &error);
    }
    if (status != COLL_OK) {
        coll_bootstrap_fail(made, &error);
        coll_bootstrap_close(made);
        return coll_fail(reterr, status, "%s", error.message);
    }
    *bootstrap = made;
    return COLL_OK;
}

void coll_bootstrap_apply(coll_bootstrap *bootstrap, coll_context_options *options)
{
    options->rank = bootstrap->rank;
    options->world_size = bootstrap->world_size;
    options->exchange = coll_bootstrap_exchange;
    options->exchange_user = bootstrap;
    options->rendezvous_address = bootstrap->address[0] != '\0' ? bootstrap->address : NULL;
    if (bootstrap->has_secret) {
        options->job_key = bootstrap->job_key;
    }
}

void coll_bootstrap_close(coll_bootstrap *bootstrap)
{
    if (bootstrap == NULL) {
        return;
    }
    for (int rank = 0; rank < COLL_RANKS_MAX; rank++) {
        coll_bootstrap_link_destroy(bootstrap->links[rank]);
    }
    sodium_memzero(bootstrap, sizeof *bootstrap);
    free(bootstrap);
}
