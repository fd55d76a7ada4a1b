/* Sends what rank_generate's on_token says to the launcher, which streams it to the terminal. */
#include "generate/telling.h"

#include "base/clock.h"
#include "control.pb-c.h"

enum { TOKEN_BYTES_MAX = 1024, COUNT_EVERY_MS = 200 };

/* Writes what the token adds to the text, with a NUL. */
static void add_token(rank_telling *telling, const rank_drawn_token *token, char *text)
{
    char bytes[TOKEN_BYTES_MAX];
    size_t used = 0;
    if (!token->is_stop) {
        size_t count =
            rank_tokenizer_decode(telling->tokenizer, &token->token, 1, bytes, sizeof bytes);
        count = count < sizeof bytes ? count : sizeof bytes - 1;
        const size_t skipped = !telling->has_begun && count > 0 && bytes[0] == ' ' ? 1 : 0;
        telling->has_begun = telling->has_begun || count > 0;
        used = rank_stream_text_add(&telling->text, bytes + skipped, count - skipped, text);
    }
    if (token->is_last) {
        used += rank_stream_text_end(&telling->text, text + used);
    }
    text[used] = '\0';
}

void rank_telling_token(void *user, const rank_drawn_token *token)
{
    rank_telling *telling = user;
    char text[TOKEN_BYTES_MAX * RANK_STREAM_TEXT_GROWTH + 2 * RANK_STREAM_TEXT_HELD_BYTES + 1] = "";
    const int64_t now_ns = base_now_ns();
    telling->tokens++;
    telling->answered += token->is_last ? 1 : 0;
    if (telling->streams) {
        add_token(telling, token, text);
    }
    if (text[0] == '\0' && now_ns < telling->due_ns) {
        return;
    }
    telling->due_ns = now_ns + COUNT_EVERY_MS * BASE_NS_PER_MS;
    Ringfence__Control__Piece piece = RINGFENCE__CONTROL__PIECE__INIT;
    piece.text = text;
    piece.tokens = telling->tokens;
    piece.answered = telling->answered;
    piece.prompts = telling->prompts;
    proto_client_piece(telling->client, &piece);
}
