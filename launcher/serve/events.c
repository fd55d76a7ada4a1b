/* The job's side of the server: gives requests to the loop, and takes what becomes of them. Called by
 * job/feed.c; nothing here waits. */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/server_impl.h"

enum { EVENTS_AT_ONCE = 64 };

/* The completion that has a choice with this id. */
static launch_completion *find(const launch_server *server, uint64_t id)
{
    launch_completion *one = server->completions;
    while (one != NULL && (id < one->head.id || id >= one->head.id + (uint64_t)one->choice_count)) {
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

static bool needs_cancel(const launch_choice *choice)
{
    return choice->cancel_due && !choice->cancel_sent &&
           (choice->stage == LAUNCH_STAGE_SENT || choice->stage == LAUNCH_STAGE_ACCEPTED);
}

/* What to do next. There is always room for a request: of so many that were sent, rank 0 accepts all. */
static launch_feed_kind choose(launch_server *server, proto_request *request)
{
    launch_completion *of = NULL;
    launch_choice *waiting = NULL;
    int unjudged = 0;
    for (launch_completion *one = server->completions; one != NULL; one = one->next) {
        for (int i = 0; i < one->choice_count && one->open_count > 0; i++) {
            launch_choice *choice = &one->choices[i];
            unjudged += choice->stage == LAUNCH_STAGE_SENT ? 1 : 0;
            if (waiting == NULL && choice->stage == LAUNCH_STAGE_WAITING) {
                waiting = choice;
                of = one;
            }
            if (needs_cancel(choice)) {
                choice->cancel_sent = true;
                request->id = one->head.id + (uint64_t)i;
                return LAUNCH_FEED_CANCEL;
            }
        }
    }
    if (waiting != NULL && unjudged < PROTO_REQUESTS_UNJUDGED_MAX) {
        launch_completion_take_request(of, waiting, request);
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

/* With how many of its tokens so many bytes of the event's text came. */
static size_t tokens_of_bytes(const launch_request_event *event, size_t bytes)
{
    size_t count = 0;
    for (size_t at = 0; at < bytes && count < event->token_count; count++) {
        at += event->text_bytes[count];
    }
    return count;
}

/* Adds a piece of text. It ends the choice where a stop is whole, and what may begin one is held.
 * Returns how many of the event's tokens count: none behind the stop, which drafts may have made. */
static size_t put_text(const launch_stop_texts *stops, launch_choice *choice,
                       const launch_request_event *event)
{
    base_buffer *text = &choice->text;
    const size_t held = choice->held_bytes;
    const size_t begin = text->length_bytes - held;
    size_t settled = 0;
    size_t end = 0;
    base_buffer_put(text, event->text);
    if (stops->count == 0 || text->failed) {
        return event->token_count;
    }
    choice->stopped = launch_stop_texts_find(stops, text->data + begin, text->length_bytes - begin,
                                             &settled, &end);
    choice->held_bytes = choice->stopped ? 0 : text->length_bytes - begin - settled;
    if (choice->stopped) {
        text->length_bytes = begin + settled;
        text->data[text->length_bytes] = '\0';
        choice->finish_reason = "stop";
        choice->cancel_due = true;
        return tokens_of_bytes(event, end - held);
    }
    return event->token_count;
}

/* Ends a completion of which too much waits, or for which there is no memory. */
static void check_room(launch_completion *one, const launch_choice *choice)
{
    const size_t most = one->stream ? LAUNCH_SERVE_UNREAD_BYTES_MAX : LAUNCH_SERVE_ANSWER_BYTES_MAX;
    const bool failed = choice->text.failed || choice->logprobs.failed;
    size_t bytes = 0;
    size_t logprobs = 0;
    for (int i = 0; i < one->choice_count; i++) {
        bytes += one->choices[i].text.length_bytes;
        logprobs += one->choices[i].logprobs.count;
    }
    if (failed || bytes > most || logprobs > LAUNCH_SERVE_LOGPROBS_MAX) {
        base_error why;
        (void)base_fail(&why, BASE_ERR_LIMIT,
                        "the answer has more than %zu bytes or %d log-probabilities%s", most,
                        LAUNCH_SERVE_LOGPROBS_MAX,
                        one->stream ? " that were not read" : LAUNCH_ASK_FOR_LESS);
        launch_completion_fail(one,
                               failed        ? LAUNCH_TROUBLE_FAILED
                               : one->stream ? LAUNCH_TROUBLE_UNREAD
                                             : LAUNCH_TROUBLE_LARGE,
                               why.message);
    }
}

static void take_tokens(launch_completion *one, launch_choice *choice,
                        const launch_request_event *event)
{
    static const launch_stop_texts no_stops;
    const bool echoed = choice->echo_left > 0; /* then all of the event's tokens are the prompt's */
    choice->first_ns = choice->first_ns == 0 && !echoed ? base_now_ns() : choice->first_ns;
    if (one->connection == NULL || choice->stopped || one->trouble != LAUNCH_TROUBLE_NONE ||
        (one->silent && !echoed)) {
        return;
    }
    launch_request_event counted = *event;
    counted.token_count = put_text(echoed ? &no_stops : &one->stops, choice, event);
    const uint32_t tokens = (uint32_t)counted.token_count;
    choice->echo_left -= tokens < choice->echo_left ? tokens : choice->echo_left;
    choice->usage.completion_tokens += echoed ? 0 : tokens;
    /* now, because a stop ends the answer before FINISHED comes */
    choice->usage.cached_tokens = event->cached_tokens;
    launch_logprobs_add(&choice->logprobs, &counted);
    check_room(one, choice);
    if (one->stream || one->trouble != LAUNCH_TROUBLE_NONE) {
        launch_completion_wake(one);
    }
}

static void take_refused(launch_completion *one, launch_choice *choice,
                         const launch_request_event *event)
{
    /* one that was not even judged has a finish_reason: the job has ended */
    const launch_trouble trouble = one->server->draining          ? LAUNCH_TROUBLE_ENDING
                                   : event->finish_reason != NULL ? LAUNCH_TROUBLE_FAILED
                                                                  : LAUNCH_TROUBLE_REQUEST;
    launch_completion_end_choice(one, choice, LAUNCH_STAGE_DROPPED);
    launch_completion_fail(one, trouble, event->reason);
    one->server->metrics.requests[trouble == LAUNCH_TROUBLE_REQUEST ? LAUNCH_OUTCOME_REFUSED
                                                                    : LAUNCH_OUTCOME_FAILED]++;
}

static void count_finished(launch_metrics *metrics, int64_t first_ns,
                           const launch_request_event *event, launch_outcome outcome)
{
    metrics->requests[outcome]++;
    metrics->drawn += event->drawn;
    metrics->cached_tokens += event->cached_tokens;
    metrics->drafted += event->drafted;
    metrics->accepted += event->accepted;
    metrics->preemptions += event->preempted;
    if (first_ns != 0) {
        launch_metrics_observe(&metrics->first, first_ns);
    }
    if (event->drawn > 1) {
        launch_metrics_observe(&metrics->per_token, event->decode_ns / (int64_t)(event->drawn - 1));
    }
}

static void take_finished(launch_completion *one, launch_choice *choice,
                          const launch_request_event *event)
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
    launch_metrics *metrics = &one->server->metrics;
    const int64_t first_ns = choice->first_ns != 0 ? choice->first_ns - one->came_ns : 0;
    size_t end = 0;
    while (strcmp(event->finish_reason, ends[end].reason) != 0 && end < 3) {
        end++;
    }
    launch_completion_end_choice(one, choice, LAUNCH_STAGE_FINISHED);
    choice->usage.cached_tokens = event->cached_tokens;
    choice->held_bytes = 0;
    if (choice->stopped) { /* rank 0 calls it cancelled, or its own end came meanwhile */
        count_finished(metrics, first_ns, event, LAUNCH_OUTCOME_STOP);
        return;
    }
    choice->finish_reason = one->silent ? "length" : ends[end].reason;
    choice->usage.completion_tokens = one->silent ? 0 : event->completion_tokens;
    if (ends[end].trouble != LAUNCH_TROUBLE_NONE) {
        launch_completion_fail(one, ends[end].trouble,
                               event->reason != NULL ? event->reason : "the server ends");
    }
    count_finished(metrics, first_ns, event, ends[end].outcome);
}

static void take_accepted(launch_completion *one, launch_choice *choice,
                          const launch_request_event *event)
{
    choice->stage = LAUNCH_STAGE_ACCEPTED;
    choice->usage.prompt_tokens = event->prompt_tokens;
    choice->echo_left = one->echo ? event->prompt_tokens : 0;
    one->server->metrics.prompt_tokens += event->prompt_tokens;
    if (one->stream && launch_completion_is_accepted(one)) {
        launch_completion_wake(one);
    }
}

void launch_events_take(void *user, const launch_request_event *event)
{
    launch_server *server = user;
    (void)pthread_mutex_lock(&server->lock);
    launch_completion *one = find(server, event->id);
    if (one != NULL) {
        launch_choice *choice = &one->choices[event->id - one->head.id];
        switch (event->kind) {
        case LAUNCH_EVENT_ACCEPTED:
            take_accepted(one, choice, event);
            break;
        case LAUNCH_EVENT_REFUSED:
            take_refused(one, choice, event);
            break;
        case LAUNCH_EVENT_TOKENS:
            take_tokens(one, choice, event);
            break;
        case LAUNCH_EVENT_FINISHED:
            take_finished(one, choice, event);
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
