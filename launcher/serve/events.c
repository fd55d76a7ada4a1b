/* The job's side of the server: gives requests to the loop, and takes what becomes of them. Called by
 * job/feed.c; nothing here waits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/server_impl.h"

enum { EVENTS_AT_ONCE = 64 };

static launch_completion *find(const launch_server *server, uint64_t id)
{
    launch_completion *one = server->completions;
    while (one != NULL && one->head.id != id) {
        one = one->next;
    }
    return one;
}

/* Takes the events of the epoll: a wake-up, and clients that have gone while they waited. */
static void look(launch_server *server)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    uint64_t times = 0;
    const int count = epoll_wait(server->events_fd, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        launch_completion *one = find(server, events[i].data.u64);
        if (events[i].data.u64 == 0) {
            (void)!read(server->wake_fd, &times, sizeof times);
        } else if (one != NULL && one->connection != NULL) {
            one->gone = true;
            launch_completion_wake(one);
        }
    }
}

/* What to do next. There is always room for a request: of so many that were sent, rank 0 accepts all. */
static launch_feed_kind choose(launch_server *server, proto_request *request)
{
    launch_completion *waiting = NULL;
    int unjudged = 0;
    for (launch_completion *one = server->completions; one != NULL; one = one->next) {
        unjudged += one->stage == LAUNCH_STAGE_SENT ? 1 : 0;
        waiting = waiting == NULL && one->stage == LAUNCH_STAGE_WAITING ? one : waiting;
        if (one->cancel_due && !one->cancel_sent &&
            (one->stage == LAUNCH_STAGE_SENT || one->stage == LAUNCH_STAGE_ACCEPTED)) {
            one->cancel_sent = true;
            request->id = one->head.id;
            return LAUNCH_FEED_CANCEL;
        }
    }
    if (waiting != NULL && unjudged < PROTO_REQUESTS_UNJUDGED_MAX) {
        memcpy(request, waiting->request, proto_request_bytes(waiting->request));
        free(waiting->request);
        waiting->request = NULL;
        waiting->stage = LAUNCH_STAGE_SENT;
        return LAUNCH_FEED_REQUEST;
    }
    return server->draining && server->completions == NULL ? LAUNCH_FEED_END : LAUNCH_FEED_NOTHING;
}

launch_feed_kind launch_events_next(void *user, bool readable, proto_request *request)
{
    launch_server *server = user;
    (void)pthread_mutex_lock(&server->lock);
    if (readable) {
        look(server);
    }
    const launch_feed_kind kind = choose(server, request);
    (void)pthread_mutex_unlock(&server->lock);
    return kind;
}

/* Adds a piece of text. It ends the completion where a stop is whole, and what may begin one is
 * held. */
static void put_text(launch_completion *one, const char *piece)
{
    base_buffer *text = &one->text;
    const size_t begin = text->length_bytes - one->held_bytes;
    size_t settled = 0;
    base_buffer_put(text, piece);
    if (one->stops.count == 0 || text->failed) {
        return;
    }
    one->stopped = launch_stop_texts_find(&one->stops, text->data + begin,
                                          text->length_bytes - begin, &settled);
    one->held_bytes = one->stopped ? 0 : text->length_bytes - begin - settled;
    if (one->stopped) {
        text->length_bytes = begin + settled;
        text->data[text->length_bytes] = '\0';
        one->finish_reason = "stop";
        one->cancel_due = true;
    }
}

static void take_tokens(launch_completion *one, const launch_request_event *event)
{
    const int most = one->stream ? LAUNCH_SERVE_UNREAD_BYTES_MAX : LAUNCH_SERVE_ANSWER_BYTES_MAX;
    one->first_ns = one->first_ns == 0 ? base_now_ns() : one->first_ns;
    if (one->connection == NULL || one->stopped || one->trouble != LAUNCH_TROUBLE_NONE) {
        return;
    }
    one->usage.completion_tokens += (uint32_t)event->token_count;
    put_text(one, event->text);
    launch_logprobs_add(&one->logprobs, event);
    const bool failed = one->text.failed || one->logprobs.failed;
    if (failed || one->text.length_bytes > (size_t)most ||
        one->logprobs.count > LAUNCH_SERVE_LOGPROBS_MAX) {
        one->trouble = failed ? LAUNCH_TROUBLE_FAILED : LAUNCH_TROUBLE_UNREAD;
        (void)base_fail(&one->reason, BASE_ERR_LIMIT,
                        "the answer has more than %d bytes or %d log-probabilities%s", most,
                        LAUNCH_SERVE_LOGPROBS_MAX, one->stream ? " that were not read" : "");
        one->cancel_due = true;
    }
    if (one->stream || one->trouble != LAUNCH_TROUBLE_NONE) {
        launch_completion_wake(one);
    }
}

static void take_refused(launch_completion *one, const launch_request_event *event)
{
    /* one that was not even judged has a finish_reason: the job has ended */
    one->trouble = one->server->draining          ? LAUNCH_TROUBLE_ENDING
                   : event->finish_reason != NULL ? LAUNCH_TROUBLE_FAILED
                                                  : LAUNCH_TROUBLE_REQUEST;
    (void)snprintf(one->reason.message, sizeof one->reason.message, "%s", event->reason);
    one->stage = LAUNCH_STAGE_REFUSED;
    one->server->metrics.requests[one->trouble == LAUNCH_TROUBLE_REQUEST ? LAUNCH_OUTCOME_REFUSED
                                                                         : LAUNCH_OUTCOME_FAILED]++;
}

static void count_finished(launch_metrics *metrics, const launch_completion *one,
                           const launch_request_event *event, launch_outcome outcome)
{
    metrics->requests[outcome]++;
    metrics->drawn += event->drawn;
    metrics->cached_tokens += event->cached_tokens;
    metrics->drafted += event->drafted;
    metrics->accepted += event->accepted;
    if (one->first_ns != 0) {
        launch_metrics_observe(&metrics->first, one->first_ns - one->came_ns);
    }
    if (event->drawn > 1) {
        launch_metrics_observe(&metrics->per_token, event->decode_ns / (int64_t)(event->drawn - 1));
    }
}

static void take_finished(launch_completion *one, const launch_request_event *event)
{
    static const struct {
        const char *reason;
        launch_outcome outcome;
        launch_trouble trouble;
    } ends[] = {
        {"stop", LAUNCH_OUTCOME_STOP, LAUNCH_TROUBLE_NONE},
        {"length", LAUNCH_OUTCOME_LENGTH, LAUNCH_TROUBLE_NONE},
        {"cancelled", LAUNCH_OUTCOME_CANCELLED, LAUNCH_TROUBLE_ENDING},
        {"error", LAUNCH_OUTCOME_FAILED, LAUNCH_TROUBLE_FAILED},
    };
    size_t end = 0;
    while (strcmp(event->finish_reason, ends[end].reason) != 0 && end < 3) {
        end++;
    }
    one->stage = LAUNCH_STAGE_FINISHED;
    one->usage.cached_tokens = event->cached_tokens;
    one->held_bytes = 0;
    if (one->stopped) { /* rank 0 calls it cancelled, or its own end came meanwhile */
        count_finished(&one->server->metrics, one, event, LAUNCH_OUTCOME_STOP);
        return;
    }
    one->finish_reason = ends[end].reason;
    one->usage.completion_tokens = event->completion_tokens;
    if (one->trouble == LAUNCH_TROUBLE_NONE && ends[end].trouble != LAUNCH_TROUBLE_NONE) {
        one->trouble = ends[end].trouble;
        (void)snprintf(one->reason.message, sizeof one->reason.message, "%s",
                       event->reason != NULL ? event->reason : "the server ends");
    }
    count_finished(&one->server->metrics, one, event, ends[end].outcome);
}

void launch_events_take(void *user, const launch_request_event *event)
{
    launch_server *server = user;
    (void)pthread_mutex_lock(&server->lock);
    launch_completion *one = find(server, event->id);
    if (one != NULL) {
        switch (event->kind) {
        case LAUNCH_EVENT_ACCEPTED:
            one->stage = LAUNCH_STAGE_ACCEPTED;
            one->usage.prompt_tokens = event->prompt_tokens;
            server->metrics.prompt_tokens += event->prompt_tokens;
            if (one->stream) {
                launch_completion_wake(one);
            }
            break;
        case LAUNCH_EVENT_REFUSED:
            take_refused(one, event);
            break;
        case LAUNCH_EVENT_TOKENS:
            take_tokens(one, event);
            break;
        case LAUNCH_EVENT_FINISHED:
            take_finished(one, event);
            break;
        }
        if (launch_completion_is_over(one)) {
            launch_completion_wake(one);
        }
        launch_completion_drop(one);
    }
    (void)pthread_mutex_unlock(&server->lock);
}

void launch_events_ready(void *user)
{
    launch_server *server = user;
    (void)pthread_mutex_lock(&server->lock);
    server->ready = true;
    (void)pthread_mutex_unlock(&server->lock);
}

void launch_events_drain(void *user)
{
    launch_server *server = user;
    (void)pthread_mutex_lock(&server->lock);
    server->draining = true;
    launch_server_wake(server);
    (void)pthread_mutex_unlock(&server->lock);
}
