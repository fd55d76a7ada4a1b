/* What ranks say: joining, the roster, readiness, steps, the end. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/text.h"
#include "job/rendezvous.h"

void rendezvous_send(launch_session *session, int rank, envelope_type *envelope)
{
    base_error error;
    if (proto_bus_send(session->bus, rank, envelope, &error) != BASE_OK &&
        !session->ranks[rank].exited) {
        launch_blame(session, LAUNCH_BLAME_UNCLEAR, rank, BASE_EXIT_ERROR,
                     "rank %d (pid %d) cannot be reached: %s", rank,
                     launch_rank_pid(&session->ranks[rank]), error.message);
    }
}

static void send_roster(launch_session *session)
{
    const size_t count = (size_t)session->world_size;
    Ringfence__Control__Join *joins = calloc(count, sizeof joins[0]);
    Ringfence__Control__Join **peers = calloc(count, sizeof peers[0]);
    if (joins == NULL || peers == NULL) {
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR,
                     "no memory for the roster");
    } else {
        for (int i = 0; i < session->world_size; i++) {
            launch_rank *rank = &session->ranks[i];
            joins[i] = (Ringfence__Control__Join)RINGFENCE__CONTROL__JOIN__INIT;
            joins[i].rank = (uint32_t)i;
            joins[i].world_size = (uint32_t)session->world_size;
            joins[i].pid = rank->pid;
            joins[i].hostname = rank->hostname;
            joins[i].boot_id = rank->boot_id;
            joins[i].pid_namespace = rank->pid_namespace;
            joins[i].net_namespace = rank->net_namespace;
            joins[i].cpus = rank->cpus;
            peers[i] = &joins[i];
        }
        Ringfence__Control__Roster roster = RINGFENCE__CONTROL__ROSTER__INIT;
        envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
        roster.n_peers = count;
        roster.peers = peers;
        envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_ROSTER;
        envelope.roster = &roster;
        for (int rank = 0; rank < session->world_size; rank++) {
            rendezvous_send(session, rank, &envelope);
        }
    }
    free(joins);
    free(peers);
}

/* From the roster to the last Ready: reading the data, meeting the others, sharing the parameters.
 * The sum, so that a rank which waits for another in a collective gets to say so first: it knows
 * for whom. */
static int64_t ready_timeout_ms(const proto_job *job)
{
    return job->parallel.timeout_ms + job->parallel.join_timeout_ms;
}

static void hear_join(launch_session *session, int rank, const Ringfence__Control__Join *join)
{
    launch_rank *joining = &session->ranks[rank];
    launch_rank_info *info = &session->result->ranks[rank];
    if (joining->joined) {
        BLAME_PROTOCOL(session, rank, "joined %s", "twice");
        return;
    }
    if (join->rank != (uint32_t)rank) {
        BLAME_PROTOCOL(session, rank, "says that it is rank %u", join->rank);
        return;
    }
    joining->joined = true;
    joining->pid = session->options->program != NULL ? (pid_t)join->pid : joining->process.pid;
    (void)snprintf(joining->hostname, sizeof joining->hostname, "%s", join->hostname);
    (void)snprintf(joining->boot_id, sizeof joining->boot_id, "%s", join->boot_id);
    joining->pid_namespace = join->pid_namespace;
    joining->net_namespace = join->net_namespace;
    joining->cpus = join->cpus;
    (void)snprintf(info->host, sizeof info->host, "%s", join->hostname);
    info->pid = joining->pid;
    if (session->joined_count == 0 && session->options->program != NULL) {
        session->join_deadline_ns =
            base_deadline_after_ns(session->job->parallel.join_timeout_ms * BASE_NS_PER_MS);
    }
    session->joined_count++;
    if (session->joined_count == session->world_size) {
        session->join_deadline_ns = BASE_NO_DEADLINE;
        if (proto_mode_get(session->job->job.mode)->trains) { /* others never say Ready */
            session->ready_deadline_ns =
                base_deadline_after_ns(ready_timeout_ms(session->job) * BASE_NS_PER_MS);
        }
        send_roster(session);
    }
}

/* What a rank's shard holds: its slots are contiguous, and slot s of S has the sentences with
 * index % S == s. */
static uint64_t shard_sentences(const proto_job *job, uint64_t total, int rank)
{
    const uint64_t slots_here = (uint64_t)job->train.micro_batches;
    const uint64_t slots = slots_here * (uint64_t)job->job.world_size;
    const uint64_t first = slots_here * (uint64_t)rank;
    const uint64_t rest = total % slots > first ? total % slots - first : 0; /* 1 for each slot */
    return slots_here * (total / slots) + (rest < slots_here ? rest : slots_here);
}

/* All ranks have said Ready: do they agree? */
static void check_ready(launch_session *session)
{
    const launch_rank_info *info = session->result->ranks;
    uint64_t too_long = 0;
    for (int rank = 0; rank < session->world_size; rank++) {
        too_long += info[rank].sentences_long;
        if (memcmp(session->ranks[rank].params_digest, session->ranks[0].params_digest,
                   PROTO_DIGEST_BYTES) != 0) {
            BLAME_PROTOCOL(session, rank, "starts from other parameters than rank %d", 0);
            return;
        }
        if (info[rank].sentences_total != info[0].sentences_total) {
            BLAME_PROTOCOL(session, rank,
                           "counts %" PRIu64 " sentences in the data, rank 0 counts %" PRIu64,
                           info[rank].sentences_total, info[0].sentences_total);
            return;
        }
        const uint64_t due = shard_sentences(session->job, info[0].sentences_total, rank);
        if (info[rank].sentences_shard != due) {
            BLAME_PROTOCOL(session, rank,
                           "has %" PRIu64 " of %" PRIu64 " sentences, its shard is of %" PRIu64,
                           info[rank].sentences_shard, info[0].sentences_total, due);
            return;
        }
        for (int other = 0; other < rank; other++) {
            if (info[rank].first_sentence[0] != '\0' &&
                strcmp(info[rank].first_sentence, info[other].first_sentence) == 0) {
                char shown[BASE_TEXT_SHOWN_BYTES];
                base_text_shorten(info[rank].first_sentence, shown);
                launch_screen_say(&session->screen,
                                  "warning: the shards of ranks %d and %d begin with the same "
                                  "sentence: \"%s\"",
                                  other, rank, shown);
            }
        }
    }
    if (too_long == info[0].sentences_total) {
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_USAGE,
                     "--context %" PRId64 ": none of the %" PRIu64 " sentences of %s fits into so "
                     "few tokens",
                     session->job->model.context, too_long, session->job->data.train);
        return;
    }
    if (session->options->on_ready != NULL) {
        base_error error;
        launch_screen_clear(&session->screen);
        if (session->options->on_ready(session->options->user, &error) != BASE_OK) {
            launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR, "%s",
                         error.message);
            return;
        }
    }
    session->result->ready = true;
    session->ready_deadline_ns = BASE_NO_DEADLINE;
}

static void hear_ready(launch_session *session, int rank, const Ringfence__Control__Ready *ready)
{
    launch_job_result *result = session->result;
    launch_rank *speaking = &session->ranks[rank];
    launch_rank_info *info = &result->ranks[rank];
    if (speaking->ready) {
        BLAME_PROTOCOL(session, rank, "was ready %s", "twice");
        return;
    }
    speaking->ready = true;
    memcpy(speaking->params_digest, ready->params_blake2b256.data, PROTO_DIGEST_BYTES);
    info->sentences_total = ready->sentences_total;
    info->sentences_shard = ready->sentences_shard;
    info->sentences_long = ready->sentences_long;
    (void)snprintf(info->first_sentence, sizeof info->first_sentence, "%s", ready->first_sentence);
    if (session->ready_count == 0) {
        result->model_params = ready->model_params;
        (void)snprintf(result->transport, sizeof result->transport, "%s", ready->transport);
        (void)snprintf(result->algorithm, sizeof result->algorithm, "%s", ready->algorithm);
        (void)snprintf(result->instruction_set, sizeof result->instruction_set, "%s",
                       ready->instruction_set);
        (void)snprintf(result->matrix_library, sizeof result->matrix_library, "%s",
                       ready->matrix_library);
    } else if (ready->model_params != result->model_params) {
        BLAME_PROTOCOL(session, rank, "has %" PRIu64 " parameters, another rank %" PRIu64,
                       ready->model_params, result->model_params);
        return;
    }
    session->ready_count++;
    if (session->ready_count == session->world_size) {
        check_ready(session);
    }
}

static void hear_step(launch_session *session, int rank, const Ringfence__Control__Step *step)
{
    base_error error;
    const launch_step told = {
        .step = step->step,
        .rank = rank,
        .loss = step->loss,
        .loss_global = step->loss_global,
        .tokens = step->tokens,
        .compute_ns = step->compute_ns,
        .compute_cpu_ns = step->compute_cpu_ns,
        .allreduce_ns = step->allreduce_ns,
        .allreduce_exposed_ns = step->allreduce_exposed_ns,
        .optimizer_ns = step->optimizer_ns,
        .step_ns = step->step_ns,
        .bytes_sent = step->bytes_sent,
        .epoch = step->epoch,
        .learning_rate = step->learning_rate,
        .grad_norm = step->grad_norm,
        .evaluated = step->evaluated,
        .heldout_loss = step->heldout_loss,
        .heldout_sentences = step->heldout_sentences,
        .heldout_correct = step->heldout_correct,
    };
    if (!session->result->ready) {
        if (session->cause.blame == 0) {
            BLAME_PROTOCOL(session, rank, "trains before all ranks are %s", "ready");
        }
        return;
    }
    base_status status = launch_steps_add(&session->steps, &told, &error);
    if (status != BASE_OK) {
        BLAME_PROTOCOL(session, rank, "%s", error.message);
        return;
    }
    session->ranks[rank].steps_reported++;
    launch_progress_step(session);
    if (session->options->on_step != NULL) {
        status = session->options->on_step(session->options->user, &told, &error);
        if (status != BASE_OK) {
            launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR, "%s",
                         error.message);
        }
    }
}

static void hear_failed(launch_session *session, int rank, const Ringfence__Control__Failed *failed)
{
    launch_rank *failing = &session->ranks[rank];
    char stops[256];
    char exchange[256] = "";
    const bool in_collective = failed->collective[0] != '\0';
    const bool secondary = failed->secondary || failed->status == BASE_ERR_ABORTED ||
                           failed->status == BASE_ERR_PEER; /* that peer has a cause of its own */
    failing->reported_exit_code = failed->exit_code != 0 ? failed->exit_code : BASE_EXIT_ERROR;
    if (session->abort_sent_ns != 0 && secondary) {
        return;
    }
    launch_watch_describe_stops(session, stops, sizeof stops);
    if (failed->status == BASE_ERR_TIMEOUT) {
        rendezvous_describe_exchange(session, exchange, sizeof exchange);
    }
    launch_blame(session, secondary ? LAUNCH_BLAME_SECONDARY : LAUNCH_BLAME_CAUSE, rank,
                 failing->reported_exit_code, "rank %d (pid %d) failed%s%s%s: %s%s%s", rank,
                 launch_rank_pid(failing), in_collective ? " in " : "",
                 in_collective ? failed->collective : "",
                 session->result->ready || session->options->program != NULL ? ""
                                                                             : " while starting",
                 failed->message, exchange, stops);
}

static void hear_output(launch_session *session, int rank, const Ringfence__Control__Output *output)
{
    const launch_job_options *options = session->options;
    const uint64_t before = session->outputs.next;
    base_error error;
    const base_status status =
        launch_outputs_add(&session->outputs, output->index, output->prompt, output->text, &error);
    if (status != BASE_OK) {
        BLAME_PROTOCOL(session, rank, "%s", error.message);
        return;
    }
    for (uint64_t index = before; index < session->outputs.next; index++) {
        const launch_output *ready = &session->outputs.texts[index];
        if (options->on_output != NULL) {
            launch_screen_clear(&session->screen);
            options->on_output(options->user, index, ready->prompt, ready->text);
        }
    }
    session->streaming = false;
}

static void hear_loaded(launch_session *session, int rank, const Ringfence__Control__Loaded *loaded)
{
    if (!session->screen.quiet) {
        launch_screen_say(&session->screen,
                          "rank %d: weights %.2f MB, cache %" PRIu64 " blocks of %" PRIu64
                          " tokens together (%.2f MB), peak memory %.0f MB",
                          rank, (double)loaded->weight_bytes / 1e6, loaded->cache_blocks,
                          loaded->cache_tokens, (double)loaded->cache_bytes / 1e6,
                          (double)loaded->max_rss_bytes / 1e6);
    }
}

static void hear_piece(launch_session *session, int rank, const Ringfence__Control__Piece *piece)
{
    const launch_job_options *options = session->options;
    launch_answering *answering = &session->ranks[rank].answering;
    if (piece->tokens < answering->tokens || piece->answered < answering->answered ||
        (piece->text[0] != '\0' && session->outputs.next > 0)) {
        BLAME_PROTOCOL(session, rank, "%s", "counted its texts backwards");
        return;
    }
    *answering = (launch_answering){piece->tokens, piece->answered, piece->prompts};
    session->answering_since_ns =
        session->answering_since_ns != 0 ? session->answering_since_ns : base_now_ns();
    if (piece->text[0] != '\0' && options->on_piece != NULL) {
        launch_screen_clear(&session->screen);
        session->streaming = true;
        options->on_piece(options->user, piece->text);
    }
}

static void hear_finished(launch_session *session, int rank,
                          const Ringfence__Control__Finished *finished)
{
    launch_rank_info *info = &session->result->ranks[rank];
    if (session->ranks[rank].finished) {
        BLAME_PROTOCOL(session, rank, "finished %s", "twice");
        return;
    }
    session->ranks[rank].finished = true;
    session->finished_count++;
    info->finished = true;
    if (finished->params_sha256.len == PROTO_DIGEST_BYTES) {
        memcpy(info->params_sha256, finished->params_sha256.data, PROTO_DIGEST_BYTES);
    }
    info->byte_equal = finished->byte_equal;
    info->max_abs_difference = finished->max_abs_difference;
    info->max_rss_bytes = finished->max_rss_bytes;
    info->startup_ns = finished->startup_ns;
    info->matrix_first_use_ns = finished->matrix_first_use_ns;
    info->eval_total = finished->eval_total;
    info->eval_correct = finished->eval_correct;

    Ringfence__Control__Goodbye goodbye = RINGFENCE__CONTROL__GOODBYE__INIT;
    envelope_type envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_GOODBYE;
    envelope.goodbye = &goodbye;
    rendezvous_send(session, rank, &envelope);
}

static void hear(launch_session *session, int rank, const envelope_type *envelope)
{
    if (envelope->body_case != RINGFENCE__CONTROL__ENVELOPE__BODY_JOIN &&
        !session->ranks[rank].joined) {
        BLAME_PROTOCOL(session, rank, "says \"%s\" before it has joined",
                       proto_envelope_name(envelope));
        return;
    }
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_JOIN:
        hear_join(session, rank, envelope->join);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_EXCHANGE:
        rendezvous_hear_exchange(session, rank, envelope->exchange);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_READY:
        hear_ready(session, rank, envelope->ready);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_STEP:
        hear_step(session, rank, envelope->step);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_OUTPUT:
        hear_output(session, rank, envelope->output);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_LOADED:
        hear_loaded(session, rank, envelope->loaded);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PIECE:
        hear_piece(session, rank, envelope->piece);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FAILED:
        hear_failed(session, rank, envelope->failed);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FLIGHT:
        if (!launch_flights_hear(session, rank, envelope->flight)) {
            BLAME_PROTOCOL(session, rank, "sent a flight record of more than %d bytes",
                           PROTO_FLIGHT_BYTES_MAX);
        }
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FINISHED:
        hear_finished(session, rank, envelope->finished);
        break;
    default: /* proto_envelope_unpack lets no other through */
        break;
    }
}

static void hear_event(launch_session *session, const proto_bus_event *event)
{
    if (event->kind == PROTO_BUS_REFUSED && !session->refused_told) {
        session->refused_told = true;
        launch_screen_say(&session->screen, "warning: refused a connection to the control socket "
                                            "that does not have this job's keys");
    }
    if (event->kind == PROTO_BUS_DISCONNECTED && event->rank != PROTO_NO_RANK) {
        launch_rank *rank = &session->ranks[event->rank];
        rank->link_ended = true;
        if (!rank->finished && !rank->exited && rank->exit_due_ns == 0 &&
            rank->reported_exit_code < 0) {
            /* Who has been told to end hangs up. */
            const bool told = session->abort_sent_ns != 0;
            launch_blame(session, told ? LAUNCH_BLAME_ABORTED : LAUNCH_BLAME_LOST, event->rank,
                         BASE_EXIT_ERROR,
                         "rank %d (pid %d): its control connection has ended (it closed it, or "
                         "sent a message over %d bytes)",
                         event->rank, launch_rank_pid(rank), PROTO_RANK_MESSAGE_BYTES_MAX);
        }
    }
}

static void hear_all(launch_session *session)
{
    for (;;) {
        envelope_type *envelope = NULL;
        base_error error;
        int rank = PROTO_NO_RANK;
        const base_status status = proto_bus_recv(session->bus, &rank, &envelope, &error);
        if (status != BASE_OK && rank != PROTO_NO_RANK) {
            BLAME_PROTOCOL(session, rank, "%s", error.message);
        } else if (status != BASE_OK) {
            launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR, "%s",
                         error.message);
            return;
        } else if (envelope != NULL) {
            hear(session, rank, envelope);
        } else {
            return;
        }
    }
}

void launch_rendezvous_drain(launch_session *session)
{
    proto_bus_event event;
    hear_all(session);
    while (proto_bus_next_event(session->bus, &event)) {
        hear_all(session); /* what was said before a connection ended */
        hear_event(session, &event);
    }
}

/* Lists the ranks that have not joined, or are not ready: "0 (pid 42), 1 (pid 43)"; the first, and
 * how many. */
static int list_missing(const launch_session *session, bool joining, char *text, size_t size_bytes,
                        int *first)
{
    size_t length = 0;
    int count = 0;
    text[0] = '\0';
    for (int i = 0; i < session->world_size; i++) {
        const launch_rank *rank = &session->ranks[i];
        if (joining ? rank->joined : rank->ready) {
            continue;
        }
        *first = count == 0 ? i : *first;
        if (length + BASE_HOSTNAME_BYTES + 48 < size_bytes) {
            length += (size_t)snprintf(text + length, size_bytes - length, "%s%d (%s%s%spid %d)",
                                       count == 0 ? "" : ", ", i, joining ? "" : "host ",
                                       rank->hostname, joining ? "" : ", ", launch_rank_pid(rank));
        }
        count++;
    }
    return count;
}

static void blame_missing(launch_session *session, bool joining, int64_t timeout_ms)
{
    char missing[1024];
    char stops[256];
    char exchange[256];
    int first = PROTO_NO_RANK;
    const int count = list_missing(session, joining, missing, sizeof missing, &first);
    rendezvous_describe_exchange(session, exchange, sizeof exchange);
    launch_watch_describe_stops(session, stops, sizeof stops);
    launch_blame(session, LAUNCH_BLAME_CAUSE, first, BASE_EXIT_ERROR,
                 "%d of %d ranks %s within %g s%s: %s %s%s%s", count, session->world_size,
                 joining ? "have not joined" : "are not ready", (double)timeout_ms / 1000,
                 joining ? "" : " of joining", count == 1 ? "rank" : "ranks", missing, exchange,
                 stops);
}

int64_t launch_rendezvous_deadlines(launch_session *session, int64_t now_ns)
{
    if (session->abort_due_ns != BASE_NO_DEADLINE) {
        return BASE_NO_DEADLINE;
    }
    if (now_ns >= session->join_deadline_ns) {
        session->join_deadline_ns = BASE_NO_DEADLINE;
        blame_missing(session, true, session->job->parallel.join_timeout_ms);
    } else if (now_ns >= session->ready_deadline_ns) {
        session->ready_deadline_ns = BASE_NO_DEADLINE;
        blame_missing(session, false, ready_timeout_ms(session->job));
    }
    return session->join_deadline_ns < session->ready_deadline_ns ? session->join_deadline_ns
                                                                  : session->ready_deadline_ns;
}
