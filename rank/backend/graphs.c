/* The table of graphs. Called by train/ and generate/, by optim/, model/ and parallel/ddp/ for their
 * work. */
#include "backend/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

typedef enum entry_state {
    ENTRY_FREE,
    ENTRY_SEEN,  /* ran once */
    ENTRY_GRAPH, /* captured */
    ENTRY_PLAIN, /* cannot be captured */
} entry_state;

typedef struct entry {
    rank_graph_key key;
    entry_state state;
    uint64_t used; /* the work that used it last, from 1 */
    rank_queue *queue;
    rank_graph *graph;
    rank_graph_note note;
} entry;

struct rank_graphs {
    const rank_backend *backend;
    entry *entries;
    size_t count;
    bool stopped;
    uint64_t works;
    uint64_t captures;
    uint64_t replays;
    base_error failure;
};

base_status rank_graphs_create(const rank_backend *backend, size_t graphs_max, rank_graphs **graphs,
                               base_error *reterr)
{
    *graphs = NULL;
    rank_graphs *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->entries = calloc(graphs_max, sizeof *made->entries);
    }
    if (made == NULL || made->entries == NULL) {
        free(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a table of graphs");
    }
    made->backend = backend;
    made->count = graphs_max;
    made->stopped = backend->capture == NULL;
    *graphs = made;
    return BASE_OK;
}

static void clear(const rank_graphs *graphs, entry *at)
{
    if (at->graph != NULL) {
        graphs->backend->graph_destroy(at->queue, at->graph);
    }
    *at = (entry){.state = ENTRY_FREE};
}

void rank_graphs_stop(rank_graphs *graphs)
{
    for (size_t i = 0; graphs != NULL && i < graphs->count; i++) {
        clear(graphs, &graphs->entries[i]);
    }
    if (graphs != NULL) {
        graphs->stopped = true;
    }
}

void rank_graphs_destroy(rank_graphs *graphs)
{
    if (graphs != NULL) {
        rank_graphs_stop(graphs);
        free(graphs->entries);
        free(graphs);
    }
}

/* The key's entry; a new one takes the place of the one that was not used for longest. */
static entry *find(rank_graphs *graphs, const rank_graph_work *work)
{
    entry *oldest = &graphs->entries[0];
    for (size_t i = 0; i < graphs->count; i++) {
        entry *at = &graphs->entries[i];
        if (at->state != ENTRY_FREE && at->queue == work->queue &&
            memcmp(&at->key, &work->key, sizeof at->key) == 0) {
            return at;
        }
        oldest = at->used < oldest->used ? at : oldest;
    }
    clear(graphs, oldest);
    oldest->key = work->key;
    oldest->queue = work->queue;
    return oldest;
}

/* Whether all ranks could, if it concerns them all. */
static bool all_could(const rank_graph_work *work, bool mine)
{
    return work->all != NULL ? work->all(work->user, mine) : mine;
}

/* Makes the graph, which has not run then. */
static bool capture(rank_graphs *graphs, const rank_graph_work *work, entry *at)
{
    const rank_backend *backend = graphs->backend;
    base_error error = {.message = ""};
    const bool begun = backend->capture(work->queue, &at->graph, &error) == BASE_OK;
    const bool all_begun = all_could(work, begun);
    if (all_begun) {
        work->enqueue(work->user);
    }
    const bool ended = begun && backend->capture_end(work->queue, &error) == BASE_OK;
    const bool done = all_begun && all_could(work, ended);
    if (!done) {
        backend->graph_destroy(work->queue, at->graph);
        at->graph = NULL;
        if (graphs->failure.message[0] == '\0') {
            (void)base_fail(&graphs->failure, BASE_ERR_IO, "%s",
                            begun && ended ? "another rank could not" : error.message);
        }
    }
    if (done && work->note != NULL) {
        at->note = *work->note;
    }
    at->state = done ? ENTRY_GRAPH : ENTRY_PLAIN;
    return done;
}

rank_graph_way rank_graphs_do(rank_graphs *graphs, const rank_graph_work *work)
{
    rank_graph_way way = RANK_GRAPH_RAN;
    if (graphs == NULL || graphs->stopped) {
        work->enqueue(work->user);
        return way;
    }
    entry *at = find(graphs, work);
    at->used = ++graphs->works;
    if (at->state == ENTRY_GRAPH) {
        way = RANK_GRAPH_REPLAYED;
        if (work->note != NULL) {
            *work->note = at->note;
        }
    } else if (at->state == ENTRY_SEEN && capture(graphs, work, at)) {
        way = RANK_GRAPH_CAPTURED;
        graphs->captures++;
    }
    if (way == RANK_GRAPH_RAN) {
        at->state = at->state == ENTRY_FREE ? ENTRY_SEEN : at->state;
        work->enqueue(work->user);
        return way;
    }
    graphs->replays++;
    graphs->backend->replay(work->queue, at->graph);
    return way;
}

rank_graphs_info rank_graphs_get_info(const rank_graphs *graphs)
{
    return graphs == NULL ? (rank_graphs_info){.failure = ""}
                          : (rank_graphs_info){.captures = graphs->captures,
                                               .replays = graphs->replays,
                                               .failure = graphs->failure.message};
}
