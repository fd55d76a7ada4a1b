/* Where a service may be reached. Called by the service, which binds there, and by its clients. */
#include <string.h>
#include <sys/un.h>

#include "budget/wire.h"

base_status budget_endpoint_check(const char *endpoint, base_error *reterr)
{
    const size_t path_bytes_max = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    if (strncmp(endpoint, "tcp://", 6) == 0) {
        return BASE_OK;
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
