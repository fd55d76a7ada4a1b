/* What queues do again and again, by key: a table of graphs. Training and decoding use it for all
 * that they capture.
 *
 * Work of a key is enqueued plainly the first time: what is made only once (connections of NCCL,
 * algorithms of cublasLt) cannot be made while a graph is captured. The second time it is captured,
 * and from then on replayed. So the key has all that the operations depend on but the content of
 * memory: shapes and addresses.
 *
 * A full table gives up the key that was not used for longest. One thread. */
#ifndef RANK_BACKEND_GRAPHS_H
#define RANK_BACKEND_GRAPHS_H

#include "backend/backend.h"

enum { RANK_GRAPH_KEY_PARTS = 4, RANK_GRAPH_NOTE_PARTS = 2 };

/* What a graph is for, the first part of its key. */
typedef enum rank_graph_use {
    RANK_GRAPH_BATCH = 1, /* forward and backward of one micro-batch */
    RANK_GRAPH_REDUCE,    /* the all-reduces of a step */
    RANK_GRAPH_UPDATE,    /* clipping and AdamW */
    RANK_GRAPH_STEP,      /* a step of decoding */
} rank_graph_use;

typedef struct rank_graph_key {
    uint64_t part[RANK_GRAPH_KEY_PARTS];
} rank_graph_key;

/* What the caller wants to know of work that is replayed. */
typedef struct rank_graph_note {
    uint64_t part[RANK_GRAPH_NOTE_PARTS];
} rank_graph_note;

typedef struct rank_graph_work {
    rank_graph_key key;
    rank_queue *queue;
    void (*enqueue)(void *user); /* may be called twice, if a capture fails */
    /* NULL: this rank alone. Else whether all ranks could do what this one could (`mine`): all of
     * them capture, or none. They call it at the same times. */
    bool (*all)(void *user, bool mine);
    /* Kept with the graph as enqueue has left it, and written again at each replay. NULL: nothing. */
    rank_graph_note *note;
    void *user;
} rank_graph_work;

typedef enum rank_graph_way {
    RANK_GRAPH_RAN,      /* enqueue was called, and its operations are enqueued */
    RANK_GRAPH_CAPTURED, /* the same, as the first replay of a graph */
    RANK_GRAPH_REPLAYED, /* enqueue was not called */
} rank_graph_way;

typedef struct rank_graphs_info {
    uint64_t captures;
    uint64_t replays;    /* the first one of each graph, too */
    const char *failure; /* why the first capture that failed did; "" */
} rank_graphs_info;

typedef struct rank_graphs rank_graphs;

/* A table for at most `graphs_max` graphs. A backend that captures nothing is fine. */
BASE_MUST_CHECK base_status rank_graphs_create(const rank_backend *backend, size_t graphs_max,
                                               rank_graphs **graphs, base_error *reterr);

/* Also destroys all graphs: before an operation of theirs is destroyed, and before the end of a
 * failed communicator is waited for. NULL is fine. */
void rank_graphs_destroy(rank_graphs *graphs);

/* Destroys the graphs, and captures none any more. NULL is fine. */
void rank_graphs_stop(rank_graphs *graphs);

/* Enqueues the work: plainly, or as a graph. With NULL for graphs always plainly. */
rank_graph_way rank_graphs_do(rank_graphs *graphs, const rank_graph_work *work);

/* Zeros for NULL. Valid as long as the table. */
rank_graphs_info rank_graphs_get_info(const rank_graphs *graphs);

#endif
