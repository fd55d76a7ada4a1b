/* Which connections a client may lose: those that have not sent a whole request, the oldest first, where
 * there are nearly as many connections as there may be. So clients that send slowly, or nothing, keep nobody out.
 * A connection that is kept for another request counts anew. Only libmicrohttpd's thread calls these. */
#ifndef LAUNCH_CONNECTIONS_H
#define LAUNCH_CONNECTIONS_H

struct MHD_Connection;

typedef struct launch_connection {
    struct launch_connection
        *next; /* of those that wait for a request, in the order in which they began; */
    struct launch_connection *previous; /* a ring with the list itself. NULL: it does not wait */
    const char *origin; /* whose pages may read what it is answered; "": none of another origin */
    int fd;
} launch_connection;

typedef struct launch_connections {
    launch_connection waiting; /* the list: next is the oldest */
    int count;                 /* of all connections */
    const char *origin;        /* of each */
} launch_connections;

/* origin: "*", as a browser writes it, or "". It outlives them. */
void launch_connections_init(launch_connections *connections, const char *origin);

/* For MHD: a connection begins or ends. */
void launch_connections_begin(launch_connections *connections, struct MHD_Connection *connection,
                              void **context);
void launch_connections_end(launch_connections *connections, void **context);

/* Its request has come whole; and it has been answered, so that another may come. */
void launch_connections_busy(struct MHD_Connection *connection);
void launch_connections_idle(launch_connections *connections, struct MHD_Connection *connection);

/* As launch_connection has it. */
const char *launch_connections_origin(struct MHD_Connection *connection);

#endif
