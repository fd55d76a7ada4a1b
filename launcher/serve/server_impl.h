/* The members of a server. The HTTP thread is in routes.c and stream.c, the job's thread in events.c,
 * and both are begun and ended by server.c. What both know of a completion is in completion.c. */
#ifndef LAUNCH_SERVER_IMPL_H
#define LAUNCH_SERVER_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "serve/completion_body.h"
#include "serve/connections.h"
#include "serve/limits.h"
#include "serve/logprobs.h"
#include "serve/metrics.h"
#include "serve/reply.h"
#include "serve/server.h"
#include "serve/stop_texts.h"

struct MHD_Connection;
struct MHD_Daemon;

/* Where a choice is on its way to an answer. */
typedef enum launch_stage {
    LAUNCH_STAGE_WAITING, /* for the job's loop */
    LAUNCH_STAGE_SENT,    /* to rank 0 */
    LAUNCH_STAGE_ACCEPTED,
    LAUNCH_STAGE_DROPPED, /* refused by rank 0, or not sent to it */
    LAUNCH_STAGE_FINISHED,
} launch_stage;

/* Why a completion has no whole answer. */
typedef enum launch_trouble {
    LAUNCH_TROUBLE_NONE,
    LAUNCH_TROUBLE_REQUEST, /* it cannot be answered */
    LAUNCH_TROUBLE_ENDING,  /* the server ends */
    LAUNCH_TROUBLE_FAILED,  /* the job has failed, or the launcher has no memory */
    LAUNCH_TROUBLE_UNREAD,  /* too much of a stream waits for its reader */
    LAUNCH_TROUBLE_LARGE,   /* an answer as a whole would be too large */
} launch_trouble;

/* One text of a completion: a request of rank 0's, whose id is the completion's and the index. */
typedef struct launch_choice {
    int index;
    launch_stage stage;
    bool cancel_due;
    bool cancel_sent;
    bool stopped;             /* by one of the stops; rank 0 may not know it yet */
    bool began;               /* the stream has said whose message it is, */
    bool worded;              /* and words of it */
    bool ended;               /* the stream has said how it ends */
    base_buffer text;         /* what was not taken yet */
    size_t held_bytes;        /* the last of them may begin a stop */
    launch_logprobs logprobs; /* of tokens whose text may be held back */
    const char *finish_reason;
    launch_usage usage;
    uint32_t echo_left; /* tokens of the prompt that have yet to come, before those of the text */
    int64_t first_ns;   /* of the first token; 0: there is none yet */
} launch_choice;

/* One HTTP request. It goes when the connection has let go of it and rank 0 has said its last. */
typedef struct launch_completion {
    struct launch_completion *next;
    launch_server *server;
    launch_reply_head head; /* its id is that of the first choice */
    launch_trouble trouble;
    base_error reason;
    launch_stop_texts stops;
    struct json_t *tools; /* that may be called; NULL: none */
    int64_t came_ns;
    /* its connection */
    struct MHD_Connection *connection; /* NULL: let go */
    int fd;
    bool suspended;
    bool gone; /* the client */
    bool stream;
    bool include_usage;
    bool ended;      /* the stream's last text stands in `out` */
    base_buffer out; /* what is being sent of a stream */
    size_t out_sent;
    size_t answer_bytes; /* what is being sent of an answer as a whole; libmicrohttpd has it */
    /* what is asked for: of each prompt in turn so many choices */
    proto_request *requests[LAUNCH_SERVE_CHOICES_MAX]; /* NULL: all its choices were sent */
    bool seeded;
    bool echo;   /* texts begin with their prompts, */
    bool silent; /* and end with them */
    int choices_each;
    int choice_count;
    int open_count;          /* of them: neither dropped nor finished */
    launch_choice choices[]; /* (choice_count) */
} launch_completion;

struct launch_server {
    launch_feed table;
    const proto_job *job;
    struct MHD_Daemon *daemon;
    int listen_fd;
    int events_fd; /* an epoll of wake_fd and of the connections that wait */
    int wake_fd;
    int open_max; /* choices that are open */
    launch_connections connections;
    size_t large_bytes; /* the HTTP thread's alone: room for bodies that are not small */
    char url[LAUNCH_SERVE_URL_BYTES];
    char url_file[BASE_PATH_BYTES + 16];  /* empty: none */
    char model[LAUNCH_SERVE_MODEL_BYTES]; /* what answers: adapters, or else the checkpoint */
    char base[LAUNCH_SERVE_MODEL_BYTES];  /* the adapters' checkpoint; empty: there are none */
    char draft[LAUNCH_SERVE_MODEL_BYTES]; /* what drafts; empty: no model does */
    int64_t started_s;
    uint64_t seed;                          /* of requests without one */
    bool is_open;                           /* to anybody: --serve-open */
    char origin[LAUNCH_SERVE_ORIGIN_BYTES]; /* --serve-origin; empty: none */
    bool has_key;
    uint8_t key_hash[LAUNCH_SERVE_HASH_BYTES];
    /* both threads: below the lock */
    pthread_mutex_t lock;
    pthread_cond_t idle;            /* there are no connections' completions */
    launch_completion *completions; /* in the order of their ids */
    int open_count;                 /* of their choices */
    int held;                       /* completions, by connections */
    uint64_t last_id;
    bool ready;    /* the model is loaded */
    bool draining; /* no more are taken */
    bool over;     /* the job */
    launch_metrics metrics;
};

/* ---- server.c; the caller locks ---- */

void launch_server_wake(const launch_server *server); /* the job's loop */

/* ---- completion.c; the caller locks ---- */

/* A new completion at the end of the list, which takes the body's requests. NULL: no memory. */
launch_completion *launch_completion_add(launch_server *server, launch_completion_body *body,
                                         struct MHD_Connection *connection);

/* Whether so many choices more may be open, and not too much waits for its readers. */
bool launch_completions_have_room(const launch_server *server, int choices);

/* A choice is dropped or finished. It gives its place back, whoever has yet to read it. */
void launch_completion_end_choice(launch_completion *one, launch_choice *choice,
                                  launch_stage stage);

/* Frees what the choices have said: it stands elsewhere. */
void launch_completion_forget_texts(launch_completion *one);

/* The request of a choice that waits; it is sent now. Choices are taken in turn. */
void launch_completion_take_request(launch_completion *one, launch_choice *choice,
                                    proto_request *request);

void launch_completion_wake(launch_completion *one);

/* Nobody wants what is not there yet. */
void launch_completion_cancel(launch_completion *one);

/* There will be no whole answer. */
void launch_completion_fail(launch_completion *one, launch_trouble trouble, const char *reason);

/* Frees the completion, if nobody needs it any more. */
void launch_completion_drop(launch_completion *one);

/* Frees all, at the server's end. */
void launch_completions_free(launch_server *server);

/* Takes the calls of tools off the end of a choice's text, which is over. NULL: there are none. */
struct json_t *launch_choice_take_calls(const launch_completion *one, launch_choice *choice);

bool launch_choice_is_over(const launch_choice *choice);
bool launch_completion_is_over(const launch_completion *one);     /* or in trouble */
bool launch_completion_is_accepted(const launch_completion *one); /* all choices */

/* The sum of its choices, and of its prompts. */
launch_usage launch_completion_usage(const launch_completion *one);

/* The HTTP status of its trouble. */
int launch_completion_status(const launch_completion *one);

/* ---- routes.c ---- */

/* For MHD: the handler of all requests, and what it calls when one is over. */
int launch_routes_handle(void *user, struct MHD_Connection *connection, const char *path,
                         const char *method, const char *version, const char *data,
                         size_t *data_bytes, void **state);
void launch_routes_end(void *user, struct MHD_Connection *connection, void **state, int how);

/* ---- made of page.html ---- */

extern const unsigned char launch_page[];
extern const size_t launch_page_bytes;

/* ---- stream.c ---- */

/* For MHD: the next bytes of a stream. */
int64_t launch_stream_read(void *user, uint64_t position, char *bytes, size_t bytes_max);

/* ---- events.c ---- */

launch_feed_kind launch_events_next(void *user, bool readable, proto_request *request);
void launch_events_take(void *user, const launch_request_event *event);
void launch_events_ready(void *user);
void launch_events_drain(void *user);

#endif
