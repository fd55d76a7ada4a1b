/* The HTTP server: a feed whose requests come from HTTP clients.
 *
 * libmicrohttpd runs in a thread of its own. It parses requests and writes answers. The job's loop
 * calls the feed's functions, which only take and put what lies in memory: they never wait for a
 * client. A connection that has nothing to send is suspended, and an event resumes it. */
#ifndef LAUNCH_SERVER_H
#define LAUNCH_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "launch/feed.h"
#include "proto/job.h"

typedef struct launch_server launch_server;

typedef struct launch_server_options {
    const char *address;       /* HOST:PORT; port 0: a free one */
    const char *key_file;      /* "": no key is asked for */
    bool open;                 /* no key, although other hosts can connect */
    const char *origin;        /* whose pages may ask; "*": any; "": those of the server itself */
    int64_t drain_ms;          /* 0: LAUNCH_SERVE_DRAIN_MS */
    const char *model_name;    /* "": the last part of a path */
    const char *url_directory; /* serve.url is written there; "": nowhere */
    const proto_job *job;      /* outlives the server */
} launch_server_options;

/* Whether the options go together; also whether the address is one. BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_server_check(const launch_server_options *options,
                                                base_error *reterr);

/* Listens and answers from now on. */
BASE_MUST_CHECK base_status launch_server_create(const launch_server_options *options,
                                                 launch_server **server, base_error *reterr);

/* "http://127.0.0.1:8000". It lives as long as the server, as does the feed. */
const char *launch_server_url(const launch_server *server);
const launch_feed *launch_server_feed(const launch_server *server);

/* After the job: answers what is open with `cause`, waits at most LAUNCH_SERVE_FLUSH_MS until that is
 * sent, and ends the thread. NULL is fine. */
void launch_server_destroy(launch_server *server, const char *cause);

#endif
