/* Closes connections that wait, when others need their places. Called by server.c and routes.c. */
#include "serve/connections.h"

#include <microhttpd.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "serve/limits.h"

void launch_connections_init(launch_connections *connections, const char *origin)
{
    *connections = (launch_connections){.origin = origin};
    connections->waiting.next = &connections->waiting;
    connections->waiting.previous = &connections->waiting;
}

static void wait_last(launch_connections *connections, launch_connection *one)
{
    one->next = &connections->waiting;
    one->previous = connections->waiting.previous;
    one->previous->next = one;
    connections->waiting.previous = one;
}

static void wait_no_more(launch_connection *one)
{
    if (one->next != NULL) {
        one->previous->next = one->next;
        one->next->previous = one->previous;
        one->next = one->previous = NULL;
    }
}

/* NULL: there was no memory for it. */
static launch_connection *find(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

void launch_connections_begin(launch_connections *connections, struct MHD_Connection *connection,
                              void **context)
{
    launch_connection *made = calloc(1, sizeof *made);
    launch_connection *oldest = connections->waiting.next;
    *context = made;
    if (made == NULL) {
        return;
    }
    made->origin = connections->origin;
    made->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    wait_last(connections, made);
    connections->count++;
    if (connections->count > LAUNCH_SERVE_CONNECTIONS_MAX - LAUNCH_SERVE_CONNECTIONS_SPARE &&
        oldest != &connections->waiting) {
        wait_no_more(oldest);
        (void)shutdown(oldest->fd, SHUT_RDWR); /* libmicrohttpd sees its end, and closes it */
    }
}

void launch_connections_end(launch_connections *connections, void **context)
{
    launch_connection *one = *context;
    if (one != NULL) {
        wait_no_more(one);
        connections->count--;
        free(one);
        *context = NULL;
    }
}

void launch_connections_busy(struct MHD_Connection *connection)
{
    launch_connection *one = find(connection);
    if (one != NULL) {
        wait_no_more(one);
    }
}

void launch_connections_idle(launch_connections *connections, struct MHD_Connection *connection)
{
    launch_connection *one = find(connection);
    if (one != NULL && one->next == NULL) {
        wait_last(connections, one);
    }
}

const char *launch_connections_origin(struct MHD_Connection *connection)
{
    const launch_connection *one = find(connection);
    return one != NULL ? one->origin : "";
}
