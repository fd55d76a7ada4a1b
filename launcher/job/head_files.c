/* The files of a job on several hosts: sends to agents what their ranks read, and fetches the states
 * that those have saved. Called by head.c and head_messages.c. */
#include <stdio.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/text.h"
#include "job/head_impl.h"

enum { MB = 1000 * 1000 };

/* ---- what agents fetch ---- */

bool head_send_chunk(launch_session *session, int node, const Ringfence__Control__Fetch *fetch)
{
    static launch_chunk chunk;
    launch_head *head = session->head;
    const launch_job_options *options = session->options;
    base_error error;
    if (head->nodes[node].state != LAUNCH_NODE_ENROLLED ||
        fetch->file >= (uint32_t)options->file_count ||
        fetch->offset >= options->files[fetch->file].size_bytes) {
        return false;
    }
    const proto_file *file = &options->files[fetch->file];
    if (launch_chunk_read(file->path, file->size_bytes, fetch, &chunk, &error) != BASE_OK) {
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR,
                     NODE_FORMAT " cannot get a file of the job: %s", NODE_ARGS(head, node),
                     error.message);
        return true;
    }
    session->sent = true;
    if (proto_bus_send(head->bus, node, &chunk.body.base, &error) == BASE_ERR_BUSY &&
        head->gathering) {
        head_leave(session, node, error.message); /* it has asked for more than it may have */
    } /* one that has gone while it asked may come again: its connection's end shows it */
    return true;
}

/* "host b (node 1): 12.0 of 512.0 MB of the job's files; …" */
static void describe(const launch_head *head, char *text, size_t size_bytes)
{
    text[0] = '\0';
    for (int node = 1; node < head->node_count; node++) {
        const launch_node *one = &head->nodes[node];
        if (one->state == LAUNCH_NODE_ENROLLED && one->files_bytes > 0) {
            base_text_append(text, size_bytes,
                             "%s" NODE_FORMAT ": %.1f of %.1f MB of the job's files",
                             text[0] != '\0' ? "; " : "", NODE_ARGS(head, node),
                             (double)one->have_bytes / MB, (double)one->files_bytes / MB);
        }
    }
}

void head_show_files(launch_session *session, int node,
                     const Ringfence__Control__Heartbeat *heartbeat)
{
    char text[512];
    launch_head *head = session->head;
    launch_node *from = &head->nodes[node];
    const int64_t now_ns = base_now_ns();
    from->files_bytes = heartbeat->files_bytes;
    from->have_bytes = heartbeat->have_bytes;
    if (from->state != LAUNCH_NODE_ENROLLED || from->files_bytes == 0 || session->options->quiet ||
        (!session->screen.terminal && now_ns < head->show_files_ns)) {
        return;
    }
    head->show_files_ns = now_ns + LAUNCH_FILES_SHOWN_MS * BASE_NS_PER_MS;
    describe(head, text, sizeof text);
    launch_screen_progress(&session->screen, text);
}

/* ---- what ranks have saved ---- */

base_status launch_head_check_room(launch_session *session, bool *fails_again, base_error *reterr)
{
    launch_head *head = session->head;
    const proto_job *job = session->job;
    const uint64_t state_bytes = session->result->trained_params * sizeof(float);
    *fails_again = true;
    if (head == NULL || job->output.directory[0] == '\0' ||
        proto_mode_get(job->job.mode)->pipelined) { /* there rank 0 saves, on this host */
        return BASE_OK;
    }
    for (int node = 1; node < head->node_count; node++) {
        launch_node *one = &head->nodes[node];
        const uint64_t bytes = (uint64_t)head_ranks_beside(head, node) * state_bytes;
        if (one->knows_room && one->room_bytes < bytes) {
            one->sent_away = one->trust != LAUNCH_NODE_TRUSTED && head_may_lose(session, node);
            one->left = one->left || one->sent_away;
            *fails_again = !one->sent_away;
            return base_fail(reterr, BASE_ERR_LIMIT,
                             NODE_FORMAT ": the disk of its --cache has room for %.1f MB, and its "
                                         "ranks save %.1f MB at the job's end: make room there, or "
                                         "name another directory",
                             NODE_ARGS(head, node), (double)one->room_bytes / MB,
                             (double)bytes / MB);
        }
    }
    return BASE_OK;
}

static base_status open_state(launch_session *session, int rank, launch_incoming **incoming,
                              base_error *reterr)
{
    const launch_remote *remote = &session->ranks[rank].remote;
    char name[64];
    char path[BASE_PATH_BYTES];
    (void)snprintf(name, sizeof name, PROTO_STATE_FORMAT, rank);
    const base_status status = base_path_join(session->job->output.directory, name, path, reterr);
    const launch_incoming_options options = {.path = path,
                                             .size_bytes = remote->state.size_bytes,
                                             .sha256 = remote->state.sha256,
                                             .anew = true};
    return status == BASE_OK ? launch_incoming_open(&options, incoming, reterr) : status;
}

/* The rank of a node whose state is to be fetched next; -1: there is none. */
static int next_rank(const launch_session *session, const launch_node *node)
{
    for (int i = node->first_rank; i < node->first_rank + node->ranks; i++) {
        const launch_rank *rank = &session->ranks[i];
        if (rank->remote.ended && rank->remote.state.saved && !rank->exited) {
            return i;
        }
    }
    return -1;
}

/* A state is here, or will never be. Now the rank has ended. */
static void end_state(launch_session *session, launch_node *from, base_status status,
                      const base_error *error)
{
    const int rank = from->state_rank;
    session->ranks[rank].remote.state.saved = false;
    from->incoming = NULL;
    if (status != BASE_OK) {
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR,
                     "the state of rank %d on host %s is not saved here: %s", rank, from->hostname,
                     error->message);
    }
    launch_watch_exit(session, rank);
}

static void ask(launch_session *session, int node)
{
    launch_node *from = &session->head->nodes[node];
    Ringfence__Control__Fetch fetch = RINGFENCE__CONTROL__FETCH__INIT;
    fetch.file = (uint32_t)from->state_rank;
    while (launch_incoming_ask(from->incoming, &fetch.offset)) {
        head_send(session->head, node, &fetch.base);
        session->sent = true;
    }
}

void head_fetch_states(launch_session *session, int node)
{
    launch_node *from = &session->head->nodes[node];
    while (from->incoming == NULL && (from->state_rank = next_rank(session, from)) >= 0) {
        base_error error;
        launch_incoming_state state = LAUNCH_INCOMING_READS;
        base_status status = open_state(session, from->state_rank, &from->incoming, &error);
        if (status == BASE_OK) {
            status = launch_incoming_step(from->incoming, &state, &error);
        }
        if (status == BASE_OK) {
            ask(session, node);
        } else {
            launch_incoming_close(from->incoming, false);
            end_state(session, from, status, &error);
        }
    }
}

bool head_take_chunk(launch_session *session, int node, const Ringfence__Control__Chunk *chunk)
{
    launch_node *from = &session->head->nodes[node];
    launch_incoming_state state = LAUNCH_INCOMING_ASKS;
    base_error error;
    if (from->incoming == NULL || chunk->file != (uint32_t)from->state_rank) {
        return session->cause.blame != 0; /* what it was asked for before a failure */
    }
    base_status status = launch_incoming_take(from->incoming, chunk->offset, chunk->data.data,
                                              chunk->data.len, &error);
    if (status == BASE_ERR_INVALID) {
        return false;
    }
    if (status == BASE_OK) {
        status = launch_incoming_step(from->incoming, &state, &error);
    }
    if (status != BASE_OK) {
        launch_incoming_close(from->incoming, false);
        end_state(session, from, status, &error);
    } else if (state == LAUNCH_INCOMING_WHOLE) {
        status = launch_incoming_finish(from->incoming, &error);
        end_state(session, from, status, &error);
        head_fetch_states(session, node);
    } else {
        ask(session, node);
    }
    return true;
}

void head_drop_states(launch_session *session, int node)
{
    launch_node *from = &session->head->nodes[node];
    launch_incoming_close(from->incoming, false);
    from->incoming = NULL;
    while ((from->state_rank = next_rank(session, from)) >= 0) {
        end_state(session, from, BASE_OK, NULL);
    }
}
