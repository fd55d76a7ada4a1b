/* Processes that meet by a bootstrap: each is forked, opens one, does something with it, and says how it
 * went. */
#ifndef TEST_BOOTSTRAP_MEETING_H
#define TEST_BOOTSTRAP_MEETING_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/clock.h"
#include "coll/bootstrap.h"

enum { MEETING_RANKS_MAX = 16 };

/* What a process does once its bootstrap is open. */
typedef enum meeting_deed {
    MEETING_EXCHANGE = 0, /* a few of several sizes, and looks at what comes */
    MEETING_UNEVEN,       /* one, with as many bytes as its rank has of its own */
    MEETING_LARGE,        /* one of as many bytes as there may be */
    MEETING_DIE,          /* is killed */
    MEETING_STOP,         /* is stopped */
    MEETING_GIVE,         /* gives its bytes to one as large, and is stopped before it takes any */
    MEETING_CONTEXT,      /* makes a context over tcp, and adds up */
} meeting_deed;

typedef struct meeting_process {
    coll_bootstrap_options options; /* port 0: the meeting's */
    meeting_deed deed;
    int64_t exchange_ns;      /* for one; 0: 10 s */
    void (*before)(int rank); /* in the process, first; NULL: nothing */
} meeting_process;

/* A port of 127.0.0.1, or another address of this host, that nobody else gets. */
typedef struct meeting {
    int held; /* a socket that has the port, and does not listen */
    int port;
    int count;
    pid_t pids[MEETING_RANKS_MAX];
    int pipes[MEETING_RANKS_MAX];
} meeting;

/* In a process: the next bytes that it would take stop it (test_bootstrap.c). */
extern bool meeting_stops;

/* Enough for a rank to find rank 0, which is there, and short enough to wait for its end. */
#define SHORT_NS BASE_NS_PER_S
#define LONG_NS  (10 * BASE_NS_PER_S)

/* A rank at 127.0.0.1, with LONG_NS. */
meeting_process meeting_rank(int rank, int world_size);

void meeting_begin(meeting *m, const char *address);

/* Forks a process; returns its number. */
int meeting_start(meeting *m, const meeting_process *given);

/* Waits for its end. Returns what it says: COLL_OK, or a failure with its message. */
coll_status meeting_end(meeting *m, int number, coll_error *error);

/* Kills it, and waits for its end. */
void meeting_kill(meeting *m, int number);

void meeting_close(meeting *m);

#endif
