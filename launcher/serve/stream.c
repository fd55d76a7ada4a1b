/* Writes a completion as Server-Sent Events, as far as it has come. Called by libmicrohttpd's thread
 * when the connection can take more. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "serve/server_impl.h"

static void put_event(launch_completion *one, char *json)
{
    base_buffer_put(&one->out, "data: ");
    base_buffer_put(&one->out, json != NULL ? json : "");
    base_buffer_put(&one->out, "\n\n");
    one->out.failed = one->out.failed || json == NULL;
    free(json);
}

static void put_end(launch_completion *one)
{
    if (one->trouble != LAUNCH_TROUBLE_NONE) {
        put_event(one,
                  launch_reply_error(launch_completion_status(one), NULL, one->reason.message));
        return;
    }
    if (one->include_usage) {
        const launch_usage usage = launch_completion_usage(one);
        put_event(one, launch_reply_usage(&one->head, &usage));
    }
    base_buffer_put(&one->out, "data: [DONE]\n\n");
}

/* Of the text, the bytes that may be sent: none that may begin a stop, or be a call. */
static size_t ready_bytes(const launch_completion *one, const launch_choice *choice)
{
    const size_t bytes = choice->text.length_bytes - choice->held_bytes;
    return one->tools == NULL || bytes == 0 || launch_choice_is_over(choice)
               ? bytes
               : launch_tools_plain(choice->text.data, bytes, choice->worded);
}

/* The event of so much of the text, and of all tokens that have come. The rest stays. NULL: no memory. */
static char *take_text(const launch_reply_head *head, launch_choice *choice, size_t taken)
{
    char *data = choice->text.data;
    launch_reply_choice piece = {.index = choice->index, .text = "", .logprobs = &choice->logprobs};
    if (data == NULL) { /* not one token had text */
        return launch_reply_chunk(head, &piece);
    }
    const char behind = data[taken];
    data[taken] = '\0';
    piece.text = data;
    char *event = launch_reply_chunk(head, &piece);
    data[taken] = behind;
    memmove(data, data + taken, choice->text.length_bytes - taken + 1);
    choice->text.length_bytes -= taken;
    choice->worded = choice->worded || taken > 0;
    return event;
}

static void put_choice(launch_completion *one, launch_choice *choice)
{
    const bool ends =
        !choice->ended && launch_choice_is_over(choice) && one->trouble == LAUNCH_TROUBLE_NONE;
    launch_reply_choice piece = {.index = choice->index, .text = ""};
    if (one->head.chat && !choice->began) {
        put_event(one, launch_reply_role(&one->head, choice->index));
        choice->began = true;
    }
    piece.calls = ends ? launch_choice_take_calls(one, choice) : NULL;
    const size_t ready = ready_bytes(one, choice);
    if (ready > 0 || choice->logprobs.count > 0) {
        put_event(one, take_text(&one->head, choice, ready));
    }
    if (piece.calls != NULL) {
        put_event(one, launch_reply_calls(&one->head, &piece));
    }
    if (ends) {
        piece.finish_reason = choice->finish_reason;
        put_event(one, launch_reply_chunk(&one->head, &piece));
        choice->ended = true;
    }
}

/* Puts all that has come since into `out`, which is empty: a slow reader gets it as one piece. */
static void refill(launch_completion *one)
{
    one->out.length_bytes = 0;
    one->out_sent = 0;
    for (int i = 0; i < one->choice_count; i++) {
        put_choice(one, &one->choices[i]);
    }
    if (!one->ended && launch_completion_is_over(one)) {
        put_end(one);
        one->ended = true;
        launch_completion_forget_texts(one);
    }
}

int64_t launch_stream_read(void *user, uint64_t position, char *bytes, size_t bytes_max)
{
    launch_completion *one = user;
    int64_t count = 0;
    (void)position;
    (void)pthread_mutex_lock(&one->server->lock);
    if (one->out_sent == one->out.length_bytes && !one->ended) {
        refill(one);
    }
    const size_t left = one->out.length_bytes - one->out_sent;
    if (one->gone || one->out.failed || one->trouble == LAUNCH_TROUBLE_UNREAD) {
        count = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left > 0) {
        count = (int64_t)(left < bytes_max ? left : bytes_max);
        memcpy(bytes, one->out.data + one->out_sent, (size_t)count);
        one->out_sent += (size_t)count;
    } else if (one->ended) {
        count = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        one->suspended = true;
        MHD_suspend_connection(one->connection);
    }
    (void)pthread_mutex_unlock(&one->server->lock);
    return count;
}
