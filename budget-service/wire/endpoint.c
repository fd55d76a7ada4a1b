/* Where a service may be reached. Called by the service, which binds there, and by its clients. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "budget/wire.h"

enum { PORT_MAX = 65535, PORT_DIGITS_MAX = 5 };

static bool port_ok(const char *port)
{
    const size_t digits = strspn(port, "0123456789");
    if (strcmp(port, "*") == 0) {
        return true;
    }
    return digits > 0 && digits <= PORT_DIGITS_MAX && port[digits] == '\0' &&
           strtol(port, NULL, 10) <= PORT_MAX;
}

/* ZeroMQ takes a port modulo 65536. */
static base_status check_tcp(const char *endpoint, base_error *reterr)
{
    const char *host = endpoint + strlen("tcp://");
    const char *colon = strrchr(host, ':');
    if (colon == NULL || colon == host || !port_ok(colon + 1)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s: must be tcp://ADDRESS:PORT, with a PORT from 0 to %d, or *", endpoint,
                         PORT_MAX);
    }
    return BASE_OK;
}

base_status budget_endpoint_check(const char *endpoint, base_error *reterr)
{
    const size_t path_bytes_max = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    if (strncmp(endpoint, "tcp://", 6) == 0) {
        return check_tcp(endpoint, reterr);
    }
    if (strncmp(endpoint, "ipc://", 6) != 0 || endpoint[6] != '/') {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: must be ipc:///PATH or tcp://ADDRESS:PORT",
                         endpoint);
    }
    if (strlen(endpoint + 6) > path_bytes_max) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "%s: %zu characters, and a Unix socket's path has at most %zu: choose a "
                         "directory with a shorter name, or tcp://",
                         endpoint + 6, strlen(endpoint + 6), path_bytes_max);
    }
    return BASE_OK;
}
