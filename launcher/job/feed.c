/* Sends requests to rank 0 while the job runs, and takes its events. Called by job_run.c in each
 * turn of its loop, and by messages.c. */
#include <control.pb-c.h>
#include <unistd.h>

#include "base/clock.h"
#include "job/rendezvous.h"
#include "job/writer.h"

static void send(launch_session *session, ProtobufCMessage *body)
{
    base_error ignored;
    session->sent = true;
    /* rank 0 may have gone: that shows elsewhere */
    (void)!proto_bus_send(session->bus, 0, body, &ignored);
}

static void send_request(launch_session *session, const proto_request *request)
{
    Ringfence__Control__Request message;
    char *texts[PROTO_CHAT_TEXTS_MAX];
    proto_request_to_message(request, &message, texts);
    launch_open_requests_add(&session->feeding.requests, request->id);
    send(session, &message.base);
}

static void send_cancel(launch_session *session, uint64_t id)
{
    Ringfence__Control__Cancel message = RINGFENCE__CONTROL__CANCEL__INIT;
    message.id = id;
    if (launch_open_requests_cancel(&session->feeding.requests, id)) {
        send(session, &message.base);
    }
}

static void send_drain(launch_session *session)
{
    Ringfence__Control__Drain message = RINGFENCE__CONTROL__DRAIN__INIT;
    session->feeding.ended = true;
    send(session, &message.base);
}

/* Gives rank 0 credit for further events, once standard output has room for what they say. */
static void send_credit(launch_session *session)
{
    Ringfence__Control__Credit message = RINGFENCE__CONTROL__CREDIT__INIT;
    uint64_t events = 0;
    if (launch_writer_has_room(STDOUT_FILENO) &&
        launch_open_requests_credit(&session->feeding.requests, &events)) {
        message.events = events;
        send(session, &message.base);
    }
}

/* Whether more may be read now. A cancel can be sent even where there is no room for requests. A
 * refusal needs room on standard output. */
static bool may_send(const launch_session *session)
{
    return session->options->feed != NULL && !session->feeding.ended &&
           launch_writer_has_room(STDOUT_FILENO) && session->joined_count == session->world_size &&
           session->stop_signal == 0 && session->abort_due_ns == BASE_NO_DEADLINE;
}

void launch_feed_step(launch_session *session)
{
    const launch_feed *feed = session->options->feed;
    launch_feeding *feeding = &session->feeding;
    launch_feed_kind kind = LAUNCH_FEED_REQUEST;
    if (feed != NULL) {
        send_credit(session);
    }
    while (kind != LAUNCH_FEED_NOTHING && may_send(session)) {
        const bool room = launch_open_requests_has_room(&feeding->requests);
        if (feeding->held && !room) {
            return;
        }
        if (!feeding->held) {
            kind = feed->next(feed->user, feeding->readable, &feeding->request);
            feeding->readable = false;
        }
        feeding->held = kind == LAUNCH_FEED_REQUEST && !room;
        switch (kind) {
        case LAUNCH_FEED_REQUEST:
            if (room) {
                send_request(session, &feeding->request);
            }
            break;
        case LAUNCH_FEED_CANCEL:
            send_cancel(session, feeding->request.id);
            break;
        case LAUNCH_FEED_END:
            send_drain(session);
            break;
        case LAUNCH_FEED_NOTHING:
            break;
        }
    }
}

int launch_feed_fd(const launch_session *session)
{
    return may_send(session) && !session->feeding.held ? session->options->feed->fd : -1;
}

/* Passes the event on, and counts it. */
static void tell(launch_session *session, const launch_request_event *event)
{
    launch_screen_clear(&session->screen);
    session->options->feed->on_event(session->options->feed->user, event);
    launch_open_requests_count(&session->feeding.requests);
    send_credit(session);
}

static bool handle_verdict(launch_session *session, const Ringfence__Control__Verdict *verdict)
{
    const bool accepted = verdict->refused[0] == '\0';
    const launch_request_event event = {
        .kind = accepted ? LAUNCH_EVENT_ACCEPTED : LAUNCH_EVENT_REFUSED,
        .id = verdict->id,
        .reason = verdict->refused,
        .prompt_tokens = verdict->prompt_tokens,
    };
    if (!launch_open_requests_judge(&session->feeding.requests, verdict->id, accepted)) {
        return false;
    }
    tell(session, &event);
    return true;
}

static bool handle_tokens(launch_session *session, const Ringfence__Control__Tokens *tokens)
{
    launch_logprob logprobs[PROTO_EVENT_LOGPROBS_MAX];
    for (size_t i = 0; i < tokens->n_logprob_ids; i++) {
        logprobs[i] = (launch_logprob){.token = tokens->logprob_ids[i],
                                       .value = tokens->logprobs[i],
                                       .bytes = (uint32_t)tokens->logprob_bytes[i].len,
                                       .text = (const char *)tokens->logprob_bytes[i].data};
    }
    const launch_request_event event = {
        .kind = LAUNCH_EVENT_TOKENS,
        .id = tokens->id,
        .tokens = tokens->token_ids,
        .token_count = tokens->n_token_ids,
        .text = tokens->text,
        .cached_tokens = tokens->cached_tokens,
        .logprob_count =
            tokens->n_logprob_ids > 0 ? tokens->n_logprob_ids / tokens->n_token_ids : 0,
        .logprobs = logprobs,
        .text_bytes = tokens->text_bytes,
    };
    if (!launch_open_requests_continue(&session->feeding.requests, tokens->id)) {
        return false;
    }
    if (!session->job->infer.unrecorded) { /* it is printed here, and not sent to a client */
        proto_text_tame(tokens->text);
    }
    tell(session, &event);
    return true;
}

static bool handle_answered(launch_session *session, const Ringfence__Control__Answered *answered)
{
    const launch_request_event event = {
        .kind = LAUNCH_EVENT_FINISHED,
        .id = answered->id,
        .finish_reason = proto_finish_name((int)answered->finish_reason),
        .completion_tokens = answered->completion_tokens,
        .drawn = answered->drawn,
        .cached_tokens = answered->cached_tokens,
        .drafted = answered->drafted,
        .accepted = answered->accepted,
        .preempted = answered->preempted,
        .queued_ns = answered->queued_ns,
        .ttft_ns = answered->ttft_ns,
        .decode_ns = answered->decode_ns,
    };
    if (!launch_open_requests_answer(&session->feeding.requests, answered->id)) {
        return false;
    }
    tell(session, &event);
    return true;
}

bool launch_feed_handle(launch_session *session, int rank, const envelope_type *envelope)
{
    if (session->options->feed == NULL || rank != 0) {
        return false;
    }
    switch (envelope->body_case) {
    case RINGFENCE__CONTROL__ENVELOPE__BODY_VERDICT:
        return handle_verdict(session, envelope->verdict);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_TOKENS:
        return handle_tokens(session, envelope->tokens);
    case RINGFENCE__CONTROL__ENVELOPE__BODY_ANSWERED:
        return handle_answered(session, envelope->answered);
    default:
        return false;
    }
}

void launch_feed_ready(const launch_session *session)
{
    const launch_feed *feed = session->options->feed;
    if (feed != NULL && feed->on_ready != NULL) {
        feed->on_ready(feed->user);
    }
}

bool launch_feed_drain(launch_session *session, int signal_number)
{
    const launch_feed *feed = session->options->feed;
    launch_feeding *feeding = &session->feeding;
    if (feed == NULL || feed->drain == NULL || feeding->drain_signal != 0) {
        return false;
    }
    feeding->drain_signal = signal_number;
    feeding->drain_due_ns = base_deadline_after_ns(feed->drain_ms * BASE_NS_PER_MS);
    feed->drain(feed->user);
    return true;
}

bool launch_feed_end(launch_session *session)
{
    const launch_feeding *feeding = &session->feeding;
    if (feeding->requests.count > 0 || feeding->held) {
        return false;
    }
    send_drain(session);
    return true;
}

void launch_feed_abandon(launch_session *session)
{
    const launch_feed *feed = session->options->feed;
    const launch_open_requests *requests = &session->feeding.requests;
    if (feed == NULL) {
        return;
    }
    for (int i = 0; i < requests->count; i++) {
        const bool accepted = requests->open[i].accepted;
        feed->on_event(feed->user,
                       &(launch_request_event){
                           .kind = accepted ? LAUNCH_EVENT_FINISHED : LAUNCH_EVENT_REFUSED,
                           .id = requests->open[i].id,
                           .finish_reason = "error",
                           .reason = session->cause.error.message,
                       });
    }
    if (session->feeding.held) {
        const char *why = session->cause.error.message;
        feed->on_event(feed->user,
                       &(launch_request_event){.kind = LAUNCH_EVENT_REFUSED,
                                               .id = session->feeding.request.id,
                                               .reason = why[0] != '\0' ? why : "the job ends"});
    }
}
