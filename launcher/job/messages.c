/* Handles the ranks' messages: steps, failures, texts. Called by job_run.c, which drains all that have
 * come. Joining and readiness are in rendezvous.c, a rank's end is in finished.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "job/rendezvous.h"

static void handle_step(launch_session *session, int rank, const Ringfence__Control__Step *step)
{
    base_error error;
    const launch_step reported = {
        .step = step->step,
        .rank = rank,
        .loss = step->loss,
        .loss_global = step->loss_global,
        .times = {.tokens = step->tokens,
                  .bytes_sent = step->bytes_sent,
                  .compute_ns = step->compute_ns,
                  .compute_cpu_ns = step->compute_cpu_ns,
                  .context_ns = step->context_ns,
                  .expert_ns = step->expert_ns,
                  .expert_rows = step->expert_rows,
                  .barrier_ns = step->barrier_ns,
                  .allreduce_ns = step->allreduce_ns,
                  .allreduce_exposed_ns = step->allreduce_exposed_ns,
                  .optimizer_ns = step->optimizer_ns,
                  .step_ns = step->step_ns},
        .epoch = step->epoch,
        .learning_rate = step->learning_rate,
        .grad_norm = step->grad_norm,
        .router_loss = step->router_loss,
        .busiest_expert = step->busiest_expert,
        .evaluated = step->evaluated,
        .heldout_loss = step->heldout_loss,
        .heldout_sentences = step->heldout_sentences,
        .heldout_correct = step->heldout_correct,
        .heldout_measured = step->heldout_measured,
        .stage_number = proto_job_place(session->job, rank).stage,
        .stage = {.forward_ns = step->forward_ns,
                  .backward_ns = step->backward_ns,
                  .weights_ns = step->weights_ns,
                  .neighbour_ns = step->neighbour_ns,
                  .span_ns = step->stage_span_ns,
                  .tensor_ns = step->tensor_ns,
                  .held = step->held},
    };
    if (!session->result->ready) {
        if (session->cause.blame == 0) {
            BLAME_PROTOCOL(session, rank, "trains before all ranks are %s", "ready");
        }
        return;
    }
    base_status status = launch_steps_add(session->steps, &reported, &error);
    if (status != BASE_OK) {
        BLAME_PROTOCOL(session, rank, "%s", error.message);
        return;
    }
    session->ranks[rank].steps_reported++;
    launch_progress_step(session);
    launch_result_watch_growth(session);
    launch_progress_heldout(session, &reported);
    if (session->options->on_step != NULL) {
        status = session->options->on_step(session->options->user, &reported, &error);
        if (status != BASE_OK) {
            launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_ERROR, "%s",
                         error.message);
        }
    }
}

/* Whether the rank has come further than starting, or runs a program whose start nobody knows. */
static bool has_begun(const launch_session *session, const launch_rank *rank)
{
    return session->result->ready || session->options->program != NULL ||
           launch_rank_is_answering(rank);
}

static launch_blame_class blame_of(const launch_session *session,
                                   const Ringfence__Control__Failed *failed)
{
    const bool peer = failed->status == BASE_ERR_PEER;
    const bool waited = failed->connecting && failed->status == BASE_ERR_TIMEOUT;
    if ((peer || waited) && failed->unreached > 0) {
        return LAUNCH_BLAME_CONNECTING;
    }
    /* those that are connected wait for those that are not, and find that these have left */
    if (peer || waited || failed->status == BASE_ERR_ABORTED || failed->secondary) {
        return LAUNCH_BLAME_SECONDARY; /* a peer has a cause of its own */
    }
    return failed->status == BASE_ERR_TIMEOUT && proto_mode_get(session->job->job.mode)->pipelined
               ? LAUNCH_BLAME_WAITED
               : LAUNCH_BLAME_CAUSE;
}

/* Whether no other rank can be why. */
static bool is_own(int status)
{
    return status == BASE_ERR_IO || status == BASE_ERR_MEMORY || status == BASE_ERR_LIMIT ||
           status == BASE_ERR_UNSUPPORTED || status == BASE_ERR_NOTFOUND;
}

static void handle_failed(launch_session *session, int rank,
                          const Ringfence__Control__Failed *failed)
{
    launch_rank *failing = &session->ranks[rank];
    char stops[256];
    char exchange[256] = "";
    const bool in_collective = failed->collective[0] != '\0';
    const launch_blame_class blame = blame_of(session, failed);
    failing->reported_exit_code = failed->exit_code != 0 ? failed->exit_code : BASE_EXIT_ERROR;
    failing->failed_unasked |= session->abort_sent_ns == 0;
    failing->unreached =
        failed->unreached <= (uint32_t)session->world_size ? (int)failed->unreached - 1 : -1;
    const bool stopped = session->options->program != NULL && session->stop_signal != 0;
    if (blame == LAUNCH_BLAME_SECONDARY && (session->abort_sent_ns != 0 || stopped)) {
        return;
    }
    const int halted = failed->status == BASE_ERR_TIMEOUT
                           ? launch_watch_find_stopped(session, base_now_ns())
                           : PROTO_NO_RANK;
    if (halted != PROTO_NO_RANK) {
        LAUNCH_BLAME_OWN(
            session, LAUNCH_BLAME_CAUSE, halted, BASE_EXIT_ERROR,
            "rank %d (pid %d) has been stopped (SIGSTOP or the like), and rank %d (pid %d) has "
            "waited in vain: %s",
            halted, launch_rank_pid(&session->ranks[halted]), rank, launch_rank_pid(failing),
            failed->message);
        return;
    }
    launch_watch_describe_stops(session, stops, sizeof stops);
    if (failed->status == BASE_ERR_TIMEOUT) {
        rendezvous_describe_exchange(session, exchange, sizeof exchange);
    }
    const char *when = has_begun(session, failing) ? "" : " while starting";
    if (launch_blame(session, blame, rank, failing->reported_exit_code,
                     "rank %d (pid %d) failed%s%s%s: %s%s%s", rank, launch_rank_pid(failing),
                     in_collective ? " in " : "", failed->collective, when, failed->message,
                     exchange, stops)) {
        /* what it was given is wrong, or does not converge */
        session->cause.fails_again = failed->status == BASE_ERR_INVALID;
        session->cause.waited = failed->status == BASE_ERR_TIMEOUT;
        session->cause.node = is_own(failed->status) ? failing->node : 0;
    }
}

static void handle_output(launch_session *session, int rank,
                          const Ringfence__Control__Output *output)
{
    const launch_job_options *options = session->options;
    const uint64_t before = session->outputs.next;
    base_error error;
    const base_status status = launch_outputs_add(
        &session->outputs, rank,
        &(launch_output_part){output->index, output->text, output->more != 0}, &error);
    if (status != BASE_OK) {
        BLAME_PROTOCOL(session, rank, "%s", error.message);
        return;
    }
    for (uint64_t index = before; index < session->outputs.next; index++) {
        const launch_output *ready = &session->outputs.texts[index];
        if (options->on_output != NULL) {
            launch_screen_clear(&session->screen);
            options->on_output(options->user, index, ready->text);
        }
        launch_outputs_release(&session->outputs, index);
    }
    session->streaming = session->streaming && output->more;
}

/* Says whether what the ranks hold adds up to the model: each element is on one rank, except for
 * tensors that are not cut. */
static void say_sum(launch_session *session)
{
    const double mb = sizeof(float) / 1e6;
    const launch_loaded *first = &session->ranks[0].loaded;
    const uint64_t more = first->uncut_elements * (uint64_t)(session->world_size - 1);
    uint64_t bytes = 0;
    uint64_t elements = 0;
    for (int rank = 0; rank < session->world_size; rank++) {
        const launch_loaded *one = &session->ranks[rank].loaded;
        if (!one->reported) {
            return;
        }
        bytes += one->weight_bytes;
        elements += one->elements;
    }
    if (elements - more != first->model_elements) {
        launch_screen_say(&session->screen,
                          "the ranks hold %" PRIu64 " weights, but the model has %" PRIu64
                          ", and %" PRIu64 " more are on every rank",
                          elements, first->model_elements, more);
        return;
    }
    if (strcmp(first->weight_type, "float32") != 0) {
        launch_screen_say(&session->screen,
                          "together: weights %.2f MB, matrices in %s: the model's %.2f million "
                          "numbers + %.2f million that are on every rank",
                          (double)bytes / 1e6, first->weight_type,
                          (double)first->model_elements / 1e6, (double)more / 1e6);
        return;
    }
    launch_screen_say(&session->screen,
                      "together: weights %.2f MB = the model's %.2f MB + %.2f MB that are on every "
                      "rank + %.2f MB of padding",
                      (double)bytes / 1e6, (double)first->model_elements * mb, (double)more * mb,
                      (double)bytes / 1e6 - (double)elements * mb);
}

static void handle_loaded(launch_session *session, int rank,
                          const Ringfence__Control__Loaded *loaded)
{
    if (rank == 0) { /* it has decoded a token with all others */
        launch_feed_ready(session);
    }
    session->ranks[rank].loaded = (launch_loaded){.reported = true,
                                                  .weight_bytes = loaded->weight_bytes,
                                                  .elements = loaded->weight_elements,
                                                  .uncut_elements = loaded->uncut_elements,
                                                  .model_elements = loaded->model_elements};
    (void)snprintf(session->ranks[rank].loaded.weight_type,
                   sizeof session->ranks[rank].loaded.weight_type, "%s", loaded->weight_type);
    char draft[80] = "";
    if (loaded->draft_weight_bytes > 0) {
        (void)snprintf(draft, sizeof draft, ", draft model %.2f MB (its cache %.2f MB)",
                       (double)loaded->draft_weight_bytes / 1e6,
                       (double)loaded->draft_cache_bytes / 1e6);
    }
    if (!session->screen.quiet) {
        launch_screen_say(&session->screen,
                          "rank %d: weights %.2f MB, cache %" PRIu64 " blocks of %" PRIu64
                          " tokens together (%.2f MB)%s, peak memory %.0f MB",
                          rank, (double)loaded->weight_bytes / 1e6, loaded->cache_blocks,
                          loaded->cache_tokens, (double)loaded->cache_bytes / 1e6, draft,
                          (double)loaded->max_rss_bytes / 1e6);
        say_sum(session);
    }
}

static void handle_gpu(launch_session *session, int rank, const Ringfence__Control__Gpu *gpu)
{
    launch_rank_info *on = &session->result->ranks[rank];
    launch_gpu_info *info = &on->gpu;
    if (gpu->cpus.len > 0) { /* it has bound itself */
        on->bound = true;
        launch_cpus_unpack(gpu->cpus.data, gpu->cpus.len, &on->cpus);
    }
    (void)snprintf(info->pci, sizeof info->pci, "%s", gpu->pci);
    (void)snprintf(info->unbound, sizeof info->unbound, "%s", gpu->unbound);
    info->numa_node = gpu->numa_node;
    info->memory_near = gpu->memory_near;
    info->memory_bytes = gpu->memory_bytes;
    info->driver = gpu->driver;
    info->nccl = gpu->nccl;
    (void)snprintf(info->name, sizeof info->name, "%s", gpu->name);
    (void)snprintf(info->uuid, sizeof info->uuid, "%s", gpu->uuid);
    (void)snprintf(info->plugin, sizeof info->plugin, "%s", gpu->plugin);
    (void)snprintf(info->libraries, sizeof info->libraries, "%s", gpu->libraries);
    (void)snprintf(info->environment, sizeof info->environment, "%s", gpu->environment);
    if (!session->screen.quiet) {
        launch_screen_say(&session->screen, "rank %d: %s, %s", rank, info->name, info->uuid);
    }
}

static void handle_piece(launch_session *session, int rank, const Ringfence__Control__Piece *piece)
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

static void handle(launch_session *session, int rank, const envelope_type *envelope)
{
    if (envelope->body_case != RINGFENCE__CONTROL__ENVELOPE__BODY_JOIN &&
        !session->ranks[rank].joined) {
        BLAME_PROTOCOL(session, rank, "says \"%s\" before it has joined",
                       proto_envelope_name(envelope));
        return;
    }
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_JOIN:
        rendezvous_handle_join(session, rank, envelope->join);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_EXCHANGE:
        rendezvous_handle_exchange(session, rank, envelope->exchange);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_READY:
        rendezvous_handle_ready(session, rank, envelope->ready);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_STEP:
        handle_step(session, rank, envelope->step);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_OUTPUT:
        handle_output(session, rank, envelope->output);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_LOADED:
        handle_loaded(session, rank, envelope->loaded);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_GPU:
        handle_gpu(session, rank, envelope->gpu);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_PIECE:
        handle_piece(session, rank, envelope->piece);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FAILED:
        handle_failed(session, rank, envelope->failed);
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FLIGHT:
        if (!launch_flights_add(session, rank, envelope->flight)) {
            BLAME_PROTOCOL(session, rank, "sent a flight record of more than %d bytes",
                           PROTO_FLIGHT_BYTES_MAX);
        }
        break;
    case RINGFENCE__CONTROL__ENVELOPE__BODY_FINISHED:
        rendezvous_handle_finished(session, rank, envelope->finished);
        break;
    default: /* proto_envelope_unpack refuses all others but the events of requests */
        if (!launch_feed_handle(session, rank, envelope)) {
            BLAME_PROTOCOL(session, rank, "says \"%s\" of a request that is not open",
                           proto_envelope_name(envelope));
        }
        break;
    }
}

static void handle_event(launch_session *session, const proto_bus_event *event)
{
    if ((event->kind == PROTO_BUS_REFUSED || event->kind == PROTO_BUS_CUT) &&
        !session->refused_warned &&
        !session->killed) { /* a rank that is killed may be half known */
        session->refused_warned = true;
        launch_screen_say(&session->screen, "warning: refused a connection to the control socket "
                                            "that does not have this job's keys");
    }
    if (event->kind == PROTO_BUS_DISCONNECTED && event->rank != PROTO_NO_RANK) {
        launch_rank *rank = &session->ranks[event->rank];
        rank->link_ended = true;
        /* the user's signal was passed on to the program, which may have ended by it */
        const bool stopped = session->options->program != NULL && session->stop_signal != 0;
        if (!stopped && !rank->finished && !rank->exited && rank->exit_due_ns == 0 &&
            rank->reported_exit_code < 0) {
            /* A rank that was told to end closes its connection. */
            const bool aborted = session->abort_sent_ns != 0;
            launch_blame(session, aborted ? LAUNCH_BLAME_ABORTED : LAUNCH_BLAME_LOST, event->rank,
                         BASE_EXIT_ERROR,
                         "rank %d (pid %d): its control connection has ended (it closed it, or "
                         "sent a message over %d bytes)",
                         event->rank, launch_rank_pid(rank), PROTO_RANK_MESSAGE_BYTES_MAX);
        }
    }
}

static void handle_all(launch_session *session)
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
            handle(session, rank, envelope);
        } else {
            return;
        }
    }
}

void launch_messages_drain(launch_session *session)
{
    proto_bus_event event;
    handle_all(session);
    while (proto_bus_next_event(session->bus, &event)) {
        handle_all(session); /* messages that came before a connection ended */
        handle_event(session, &event);
    }
}
