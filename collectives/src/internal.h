/* The inside of contexts, communicators, arenas and operations.
 *
 * Progress: a communicator's started operations stand in a queue in the order of their sequence
 * numbers, and go through the stages below in that order. An operation's own work begins when all
 * earlier ones have done theirs, so what ranks send each other needs no tags.
 *
 * Nothing here is shared between threads but the abort word and the description. Memory that peers
 * can write is read once, checked, and never asserted. */
#ifndef COLL_SRC_INTERNAL_H
#define COLL_SRC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"
#include "coll/coll.h"
#include "coll/tune.h"
#include "flight.h"
#include "identity.h"
#include "kernels.h"
#include "limits.h"
#include "line.h"
#include "plan.h"
#include "shape.h"
#include "transport.h"

static inline size_t coll_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

typedef enum coll_stage {
    COLL_STAGE_IDLE = 0,
    COLL_STAGE_QUEUED,    /* started, but too many stand before it to announce it yet */
    COLL_STAGE_ARRIVING,  /* announced; waits for the flag line of every peer */
    COLL_STAGE_RUNNING,   /* this rank's part is under way */
    COLL_STAGE_FINISHING, /* done here; waits for peers to have done their part */
    COLL_STAGE_DONE,
} coll_stage;

/* How an operation's bytes move; chosen when all have arrived, the same on every rank. */
typedef enum coll_path {
    COLL_PATH_LINE = 0, /* in the flag lines, or nothing moves at all */
    COLL_PATH_SLOT,     /* copied into shared memory, read there by whoever needs it */
    COLL_PATH_ARENA,    /* loads from and stores to peers' arenas */
    COLL_PATH_STAGED,   /* window by window through staging buffers in shared memory */
    COLL_PATH_PLAN,     /* a plan over streams */
} coll_path;

/* How an operation on the arena path moves its bytes. */
typedef enum coll_way {
    COLL_WAY_SLICES = 0, /* each rank combines a slice of all, stores it to all that take it */
    COLL_WAY_PULL,       /* each rank loads its part from its peers' buffers */
    COLL_WAY_PUSH,       /* each rank stores its block to its peers' buffers */
    COLL_WAY_SHARE,      /* a broadcast: its root stores a slice to all, who load the rest */
    COLL_WAY_MIXED,      /* small: some ranks' buffers lie in arenas, some were copied */
} coll_way;

/* A slice of a vector: whole cache lines, as equal as can be. */
typedef struct coll_slice {
    size_t begin; /* bytes */
    size_t size_bytes;
} coll_slice;

/* How far an operation on the staged path has come, in windows. */
typedef struct coll_staging {
    size_t count;
    size_t room_bytes; /* of a window */
    size_t ring;       /* windows in a staging buffer */
    size_t part_bytes; /* of each part, in a window */
    uint64_t first;    /* the number of its first window */
    size_t in;         /* put into this rank's buffer */
    size_t reduced;    /* this rank has no slice left to do */
    size_t out;        /* taken */
    size_t own_taken;  /* 1 + the last whose own slice was stored to recv at once */
} coll_staging;

typedef struct coll_track {
    int index;           /* of the current step */
    bool loaded;         /* `step` holds it */
    bool ended;          /* past the last step */
    size_t offset_bytes; /* done of the current step's blocks */
    coll_step step;
} coll_track;

struct coll_op {
    coll_comm *comm;
    coll_op *next; /* in the queue */
    bool queued;
    bool varies;  /* parts differ in size: part_ends holds */
    bool greeted; /* send, receive: the head has been sent or seen */
    coll_op_desc desc;
    coll_descriptor descriptor;
    uint32_t digest;
    size_t element_bytes;
    size_t total_bytes; /* count × element_bytes: of kinds with a part per rank, the own part */
    size_t whole_bytes; /* all parts; else total_bytes */
    size_t send_bytes;  /* in this rank's buffers; 0 where one is not used */
    size_t recv_bytes;
    size_t line_bytes; /* the most that a rank shows its peers if flag lines are to carry it all */
    size_t *part_ends; /* (size + 1) where the parts begin, if they vary */
    const coll_kernel *kernel;
    coll_place place;
    coll_shape shape;
    coll_op_desc given; /* what desc was made from */
    bool ready;         /* `given` was checked, and all else follows from it */
    bool routed;        /* first_path holds */
    coll_path first_path;

    uint64_t sequence;
    uint64_t word;
    uint64_t flight;     /* its number in the flight recorder */
    int64_t deadline_ns; /* of the next wait for it, which began before; 0: counts from then */
    coll_stage stage;
    coll_path path;
    coll_way way;
    coll_staging staging;
    bool put_early;                         /* the first window was put before the announcement */
    bool kept;                              /* the own part of recv holds what it is to hold */
    uint64_t round;                         /* the first round of slices */
    int slice;                              /* arena path: under way; -1: none yet */
    bool aside;                             /* the result is in this rank's slot for now */
    int source;                             /* pulling: how many sources are done */
    int arrived;                            /* peers below this rank have arrived */
    int finished;                           /* peers below this rank have finished */
    size_t offset_bytes;                    /* arena path: done of the slice, or part */
    const uint8_t *sources[COLL_RANKS_MAX]; /* arena path: peers' inputs and outputs, mapped here */
    uint8_t *targets[COLL_RANKS_MAX];
    coll_place places[COLL_RANKS_MAX]; /* which these, and way, follow from, */
    uint64_t places_known;             /* while this is 1 + comm->arena_changes */
    coll_plan plan;
    uint8_t *scratch; /* of the plan; holds the whole vector's bytes from scratch_begin on */
    size_t scratch_begin;
    size_t scratch_bytes;
    int track_count;
    int tracks_ended;
    coll_track *tracks; /* room for every plan on this communicator */
};

typedef struct coll_point coll_point;

struct coll_arena {
    coll_comm *comm;
    coll_arena *next;
    uint32_t number; /* from 1, in order of creation; the same on every rank */
    size_t size_bytes;
    size_t mapped_bytes;
    uint8_t *data;
    uint8_t *peers[COLL_RANKS_MAX]; /* where peers' parts are mapped here; own included */
};

/* What a communicator sees of a rank: its flag lines. */
typedef struct coll_peer_view {
    const coll_line *lines;
    const uint8_t *payloads; /* comm->inline_bytes for each line; NULL: beside the lines' words */
} coll_peer_view;

struct coll_comm {
    coll_context *context;
    const coll_transport_table *table; /* the context's, or that of its one host in a hybrid */
    coll_comm *next;
    int rank;
    int size;
    int ranks[COLL_RANKS_MAX]; /* context ranks, by rank in the communicator */
    uint64_t id;               /* the same on every rank */
    uint64_t sequence;         /* of the newest operation */
    uint64_t announced;        /* of the newest that peers were shown */
    uint64_t done;             /* this rank's part is done of all up to this */
    coll_line *lines;          /* own */
    coll_peer_view peers[COLL_RANKS_MAX];
    coll_op *head;
    coll_op *tail;
    coll_op *waiting;    /* the first that is not announced yet; NULL */
    coll_point *point;   /* sends and receives; NULL before the first */
    bool shares_memory;  /* peers' arenas can be reached with loads and stores */
    size_t inline_bytes; /* payload that travels with a flag line */
    size_t chunk_bytes;  /* one frame of a stream; the same on every rank */
    coll_hosts hosts;    /* which host each rank is on */
    coll_layout layout;  /* the same as far as costs go */
    uint16_t host_words[COLL_HOSTS_WORDS(COLL_RANKS_MAX)];
    coll_arena *arenas;
    uint32_t arenas_made;
    uint64_t arena_changes; /* arenas made and destroyed */
    int arena_count;
    coll_op *blocking;                /* for the blocking forms, */
    coll_op *recent[COLL_RECENT_OPS]; /* and those made for other buffers lately; NULL: none yet */
    unsigned oldest;                  /* of them */
    void *link;                       /* the transport's */
    void *net;                        /* of transports over sockets (net.h) */
    void *hybrid; /* of a communicator over several hosts, some ranks of which share one */
    base_error failure;
    bool failed;
    int distressed; /* 1 + the rank of a peer that was heard to have failed; 0 */
};

/* How many communicators were made of one list of ranks, told by its hash. */
typedef struct coll_comm_count {
    uint64_t list_hash;
    uint32_t count;
} coll_comm_count;

struct coll_context {
    int rank;
    int size;
    coll_transport transport;
    coll_algorithm algorithm; /* AUTO: by `costs` */
    bool has_costs;
    coll_costs costs;
    int64_t timeout_ns;
    const coll_transport_table *table;
    coll_identity *identities;
    coll_comm *world;
    coll_comm *comms; /* all, the world included */
    coll_comm_count made[COLL_COMM_LISTS_MAX];
    uint64_t bytes_sent;
    coll_flight *flight;
    bool broken;               /* a communicator has failed, and not by mismatch */
    unsigned patience;         /* yields before sleeping, where ranks share processors */
    unsigned spins;            /* pauses before yielding; 0 where ranks share processors */
    void *link;                /* the transport's */
    void *net;                 /* of transports over sockets (net.h) */
    int socks[COLL_RANKS_MAX]; /* to peers on this host, for descriptors; -1 */

    atomic_int abort_state; /* 0 none, 1 being written, 2 set */
    char abort_reason[COLL_REASON_BYTES];
    pthread_mutex_t describe_lock;
    char description[COLL_DESCRIBE_BYTES];
};

/* comm.c */

/* Records the communicator's first failure and returns its status. */
base_status coll_comm_fail(coll_comm *comm, base_status status, const char *format, ...)
    BASE_PRINTF(3, 4);
/* The failure or abort that forbids to go on, into reterr; BASE_OK if there is none. */
BASE_MUST_CHECK base_status coll_comm_check(coll_comm *comm, base_error *reterr);
/* coll_comm_create with a deadline, and before there is a world to agree in. */
BASE_MUST_CHECK base_status coll_comm_open(coll_context *context, const int *ranks, int count,
                                           int64_t deadline_ns, coll_comm **comm,
                                           base_error *reterr);

/* op_init.c */

/* Checks desc and writes the operation; its memory (tracks, scratch, parts) stays. */
BASE_MUST_CHECK base_status coll_op_init(coll_op *op, coll_comm *comm, const coll_op_desc *desc,
                                         base_error *reterr);
/* Where rank's part lies in the whole vector of a kind that has a part per rank. */
void coll_op_block(const coll_op *op, int rank, size_t *offset_bytes, size_t *size_bytes);

/* op.c */

BASE_MUST_CHECK base_status coll_op_alloc(coll_comm *comm, coll_op **op, base_error *reterr);
/* Makes comm->blocking, which stands in no queue, the operation of a blocking call, ready to be
 * numbered: one that was made from desc lately, or one made anew. */
BASE_MUST_CHECK base_status coll_op_recall(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                                           base_error *reterr);
/* Runs an operation of the library's own: everybody arrives, and agrees on kind and count. */
BASE_MUST_CHECK base_status coll_op_agree(coll_comm *comm, int kind, uint64_t count,
                                          base_error *reterr);

/* Gives op its sequence number, and the state it begins with. */
void coll_op_number(coll_op *op);
/* Puts op at the end of its communicator's queue, and announces it where it may be. */
void coll_op_begin(coll_op *op);
/* Whether op, the first that is not announced, may be. */
bool coll_op_may_announce(const coll_op *op);
/* Shows peers that the operation has begun. */
void coll_op_announce(coll_op *op);
/* Runs an operation that no descriptor of the caller's makes: `kind` goes into the flag line. */
BASE_MUST_CHECK base_status coll_op_run_as(coll_comm *comm, const coll_op_desc *desc, int kind,
                                           uint64_t count, base_error *reterr);

/* progress.c: moves everything on without blocking; failures are kept in the communicators. */
bool coll_progress(coll_context *context);
/* Whether a peer's line shows op; one that shows another operation in its place fails. */
bool coll_op_sees(coll_op *op, int peer);

/* line_path.c */

/* What a rank shows beside its flag line for an operation that fits there. */
size_t coll_line_gives(const coll_op *op, const void **data);
const uint8_t *coll_payload(const coll_comm *comm, int rank, uint64_t sequence);
/* The result from all ranks' payloads. */
void coll_line_finish(coll_op *op);
/* One rank: nothing moves but from send to recv. */
void coll_alone_finish(coll_op *op);

/* point.c: sends and receives */

/* Room for the communicator's queues; made with the first operation that needs them. */
BASE_MUST_CHECK base_status coll_point_open(coll_comm *comm, base_error *reterr);
void coll_point_close(coll_comm *comm);
void coll_point_start(coll_op *op);
void coll_point_leave(coll_op *op);
/* Moves all sends and receives of the communicator on. */
bool coll_point_advance(coll_comm *comm);
/* Whether any of them is not done; the communicator's queues are there. */
bool coll_point_is_busy(const coll_comm *comm);
/* The first send to a peer, or receive from it, that is not done; NULL. */
const coll_op *coll_point_first(const coll_comm *comm, int peer);

/* arena_path.c */

/* Whether every buffer that the arena path of op needs lies in an arena; places are all ranks', as
 * they announced them. Fills sources and targets. A place outside its arena fails the communicator.
 */
bool coll_arena_path_fits(coll_op *op, const coll_place *places);
/* One piece of this rank's part, or of op->slice; true when that is done. */
bool coll_arena_path_advance(coll_op *op);
/* Whether op cannot end before `peer` has done its part, which reads or writes this rank's memory.
 */
bool coll_arena_path_awaits(const coll_op *op, int peer);
/* The bytes of the rank's contribution at a place that it announced; NULL, and the communicator has
 * failed, if there is no such place. */
const uint8_t *coll_arena_locate(coll_op *op, int rank, const coll_place *place);

/* shm_slices.c */

/* Rank `slice`'s slice of a vector that so many ranks share. */
coll_slice coll_slice_of(size_t total_bytes, int ranks, int slice);

/* tune.c */

/* Collective, once the world is there: decides what AUTO stands for, measures or reads the costs
 * where it depends on the operation. */
BASE_MUST_CHECK base_status coll_tune_context(coll_context *context, const char *path,
                                              int64_t deadline_ns, base_error *reterr);
/* The algorithm of an operation that names none; the same on every rank. */
coll_algorithm coll_tune_choose(const coll_op *op);

/* exec.c */
void coll_exec_begin(coll_op *op);
/* Moves what can be moved; true when all tracks have ended. */
bool coll_exec_advance(coll_op *op, bool *moved);
/* The peer that the first unfinished track waits for; -1. */
int coll_exec_waits_for(const coll_op *op);
/* Whether some track cannot go on before the peer sends, or takes, something. */
bool coll_exec_awaits(const coll_op *op, int peer);

/* wait.c */

/* How many yields are worth while where ranks outnumber processors: fewer when one had to sleep
 * after all, more when not. */
void coll_patience_lose(coll_context *context);
void coll_patience_gain(coll_context *context);
/* A few cycles for the other side of the cache. */
void coll_pause(void);
/* Whether the deadline, which is counted from the first look where it is 0, has passed. */
bool coll_is_late(const coll_context *context, int64_t *deadline_ns);
/* Until op is done, the communicator has failed, or the timeout, counted from here if op has no
 * deadline, has passed. */
BASE_MUST_CHECK base_status coll_wait(coll_op *op, base_error *reterr);
/* Fails with the reason once the context is aborted. */
BASE_MUST_CHECK base_status coll_abort_check(coll_context *context, base_error *reterr);

/* report.c */

/* Makes what a peer has said fit for a message: control characters become question marks. */
void coll_text_clean(char *text);
/* "rank 1 (host h, pid 42)" for a rank of the communicator. */
void coll_rank_text(const coll_comm *comm, int rank, char *text, size_t size_bytes);
/* "all_reduce #17 float × 1024 …, waiting for rank 1 (host h, pid 42)". */
void coll_op_text(const coll_op *op, char *text, size_t size_bytes);
/* What a timeout has to say: the operation, who was waited for, who has arrived and who has not. */
base_status coll_report_timeout(coll_op *op, base_error *reterr);
base_status coll_report_mismatch(coll_op *op, int peer, const coll_line *line);
/* The same for operation `sequence`, which was `mine` here; `word` was read from the line. */
base_status coll_report_line(coll_comm *comm, const coll_descriptor *mine, uint64_t sequence,
                             int peer, const coll_line *line, uint64_t word);

#endif
