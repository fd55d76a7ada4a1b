/* Sends the launcher the text or the count of drawn tokens. mode.c passes it to rank_generate as
 * on_token. */
#include "generate/progress.h"

#include "base/clock.h"
#include "control.pb-c.h"

enum { COUNT_EVERY_MS = 200 };

/* Writes the token's part of the text, with a NUL. */
static void add_token(rank_progress *progress, const rank_drawn_token *token, char *text)
{
    size_t used = token->is_stop ? 0
                                 : rank_stream_text_add_token(&progress->text, progress->tokenizer,
                                                              token->token, text);
    if (token->is_last) {
        used += rank_stream_text_end(&progress->text, text + used);
    }
    text[used] = '\0';
}

/* Tells the launcher how far this rank is, with the text that has come. */
static void send_piece(rank_progress *progress, char *text)
{
    Ringfence__Control__Piece piece = RINGFENCE__CONTROL__PIECE__INIT;
    piece.text = text;
    piece.tokens = progress->tokens;
    piece.answered = progress->answered;
    piece.prompts = progress->prompts;
    proto_client_report(progress->client, &piece.base);
}

void rank_progress_token(void *user, const rank_drawn_token *token)
{
    rank_progress *progress = user;
    char text[RANK_STREAM_TOKEN_TEXT_BYTES + RANK_STREAM_TEXT_HELD_BYTES + 1] = "";
    const int64_t now_ns = base_now_ns();
    progress->tokens++;
    progress->answered += token->is_last ? 1 : 0;
    if (progress->streams) {
        add_token(progress, token, text);
    }
    if (text[0] == '\0' && now_ns < progress->due_ns) {
        return;
    }
    progress->due_ns = now_ns + COUNT_EVERY_MS * BASE_NS_PER_MS;
    send_piece(progress, text);
}

void rank_progress_end(rank_progress *progress)
{
    char text[RANK_STREAM_TEXT_HELD_BYTES + 1];
    const size_t used = rank_stream_text_end(&progress->text, text);
    if (used > 0) {
        text[used] = '\0';
        send_piece(progress, text);
    }
}
