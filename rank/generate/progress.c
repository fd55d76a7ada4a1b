/* Sends the launcher the text or the count of drawn tokens. mode.c passes it to rank_generate as
 * on_token. */
#include "generate/progress.h"

#include "base/clock.h"
#include "control.pb-c.h"

enum { TOKEN_BYTES_MAX = 1024, COUNT_EVERY_MS = 200 };

/* Writes the token's part of the text, with a NUL. */
static void add_token(rank_progress *progress, const rank_drawn_token *token, char *text)
{
    char bytes[TOKEN_BYTES_MAX];
    size_t used = 0;
    if (!token->is_stop) {
        size_t count =
            rank_tokenizer_decode(progress->tokenizer, &token->token, 1, bytes, sizeof bytes);
        count = count < sizeof bytes ? count : sizeof bytes - 1;
        const size_t skipped = !progress->has_begun && count > 0 && bytes[0] == ' ' ? 1 : 0;
        progress->has_begun = progress->has_begun || count > 0;
        used = rank_stream_text_add(&progress->text, bytes + skipped, count - skipped, text);
    }
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
    char text[TOKEN_BYTES_MAX * RANK_STREAM_TEXT_GROWTH + 2 * RANK_STREAM_TEXT_HELD_BYTES + 1] = "";
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
