/* Which tokens a grammar allows. Called by engine_draw.c for each row of a request that has one. */
#include "generate/grammar.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "generate/grammar_state.h"
#include "rank/tokenizer.h"

enum {
    TOKEN_BYTES_MAX = 64,
    WORD_BITS = 64,
    WORK_MAX =
        1
        << 20, /* of a row (grammar_state.h): some milliseconds, more than sensible schemas need */
    NO_TOKEN = -1,
    STATES_KEPT = 64, /* of a row: those of a repetition come again and again */
    NOT_TAKEN = -1,
    NOT_KNOWN = -2,
};

/* Where a sequence's text stands, so that each token is followed once. */
typedef struct follower {
    uint64_t request_id; /* 0: of none */
    int32_t count;       /* tokens of the text that were followed, the prompt's too */
    bool broken;         /* they have left the grammar */
    rank_grammar_state state;
} follower;

/* Tokens in the order of their bytes. */
typedef struct token_list {
    int32_t count;
    int32_t *ids;    /* (count) */
    uint8_t *shared; /* (count): bytes at the beginning that are those of the token before */
} token_list;

struct rank_grammars {
    int32_t vocab_size;
    char *bytes;       /* of all tokens in turn */
    uint32_t *offsets; /* (vocab_size + 1) */
    token_list all;    /* that have bytes, and not too many */
    token_list others; /* of them, those that have not only plain characters (proto/grammar.h) */
    uint64_t *plain;   /* a bit for each token: it has only such characters, and whole ones, */
    uint8_t *plain_characters;     /* (vocab_size): and so many, else 0 */
    uint64_t *allowed;             /* the same of a row */
    int32_t single[UINT8_MAX + 1]; /* the token of this byte alone, or NO_TOKEN */
    /* A row's states: those that are kept, and those that are not, each behind so many bytes of a
     * token. */
    rank_grammar_state states[STATES_KEPT + TOKEN_BYTES_MAX + 1];
    int16_t next[STATES_KEPT][UINT8_MAX + 1]; /* behind one more byte: its index, or NOT_... */
    int kept;
    int32_t work; /* so far */
    rank_grammar_state drafted;
    follower *followers; /* (sequences) */
};

static uint32_t size_of(const rank_grammars *grammars, int32_t token)
{
    return grammars->offsets[token + 1] - grammars->offsets[token];
}

static const uint8_t *bytes_of(const rank_grammars *grammars, int32_t token)
{
    return (const uint8_t *)grammars->bytes + grammars->offsets[token];
}

static void set_bit(uint64_t *bits, int32_t at)
{
    bits[at / WORD_BITS] |= UINT64_C(1) << (at % WORD_BITS);
}

static bool has_bit(const uint64_t *bits, int32_t at)
{
    return (bits[at / WORD_BITS] >> (at % WORD_BITS) & 1) != 0;
}

static bool any_bit(const uint64_t *bits, size_t words)
{
    uint64_t any = 0;
    for (size_t i = 0; i < words; i++) {
        any |= bits[i];
    }
    return any != 0;
}

/* ---- the vocabulary ---- */

static base_status read_bytes(const rank_tokenizer *tokenizer, rank_grammars *grammars,
                              base_error *reterr)
{
    const int32_t known = rank_tokenizer_vocab_size(tokenizer);
    size_t room = 0;
    for (int32_t id = 0; id < grammars->vocab_size; id++) {
        grammars->offsets[id] = (uint32_t)room;
        room += id < known ? rank_tokenizer_decode(tokenizer, &id, 1, NULL, 0) : 0;
    }
    grammars->offsets[grammars->vocab_size] = (uint32_t)room;
    grammars->bytes = malloc(room + 1);
    if (grammars->bytes == NULL || room > UINT32_MAX) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the bytes of tokens");
    }
    for (int32_t id = 0; id < grammars->vocab_size && id < known; id++) {
        (void)rank_tokenizer_decode(tokenizer, &id, 1, grammars->bytes + grammars->offsets[id],
                                    size_of(grammars, id) + 1);
    }
    return BASE_OK;
}

static int compare_tokens(const void *first, const void *second, void *user)
{
    const rank_grammars *grammars = user;
    const int32_t a = *(const int32_t *)first;
    const int32_t b = *(const int32_t *)second;
    const uint32_t a_bytes = size_of(grammars, a);
    const uint32_t b_bytes = size_of(grammars, b);
    const int order =
        memcmp(bytes_of(grammars, a), bytes_of(grammars, b), a_bytes < b_bytes ? a_bytes : b_bytes);
    return order != 0 ? order : (int)(a_bytes > b_bytes) - (int)(a_bytes < b_bytes);
}

static void note_shared(const rank_grammars *grammars, token_list *list)
{
    for (int32_t i = 1; i < list->count; i++) {
        const uint8_t *before = bytes_of(grammars, list->ids[i - 1]);
        const uint8_t *own = bytes_of(grammars, list->ids[i]);
        const uint32_t most =
            size_of(grammars, list->ids[i - 1]); /* its own is no prefix of that */
        uint32_t same = 0;
        while (same < most && same < size_of(grammars, list->ids[i]) && before[same] == own[same]) {
            same++;
        }
        list->shared[i] = (uint8_t)same;
    }
}

/* The number of a token's characters, if all are plain and whole; else 0. */
static uint8_t count_plain(const uint8_t *bytes, uint32_t size)
{
    uint8_t count = 0;
    int begun = 0;
    for (uint32_t i = 0; i < size && begun >= 0; i++) {
        begun = proto_grammar_plain(begun, bytes[i]);
        count += begun == 0 ? 1 : 0;
    }
    return begun == 0 ? count : 0;
}

/* Lists the tokens. */
static void list_tokens(rank_grammars *grammars)
{
    for (int byte = 0; byte <= UINT8_MAX; byte++) {
        grammars->single[byte] = NO_TOKEN;
    }
    for (int32_t id = 0; id < grammars->vocab_size; id++) {
        const uint32_t size = size_of(grammars, id);
        const uint8_t *bytes = bytes_of(grammars, id);
        if (size == 0 || size > TOKEN_BYTES_MAX) {
            continue;
        }
        grammars->plain_characters[id] = count_plain(bytes, size);
        if (grammars->plain_characters[id] > 0) {
            set_bit(grammars->plain, id);
        }
        if (size == 1) {
            grammars->single[bytes[0]] = id;
        }
        grammars->all.ids[grammars->all.count++] = id;
    }
    qsort_r(grammars->all.ids, (size_t)grammars->all.count, sizeof *grammars->all.ids,
            compare_tokens, grammars);
    for (int32_t i = 0; i < grammars->all.count; i++) {
        if (!has_bit(grammars->plain, grammars->all.ids[i])) {
            grammars->others.ids[grammars->others.count++] = grammars->all.ids[i];
        }
    }
    note_shared(grammars, &grammars->all);
    note_shared(grammars, &grammars->others);
}

base_status rank_grammars_create(const rank_tokenizer *tokenizer, int32_t vocab_size,
                                 int32_t sequences, rank_grammars **grammars, base_error *reterr)
{
    const size_t words = ((size_t)vocab_size + WORD_BITS - 1) / WORD_BITS;
    const size_t tokens = (size_t)vocab_size;
    rank_grammars *made = calloc(1, sizeof *made);
    *grammars = made;
    if (made != NULL) {
        made->vocab_size = vocab_size;
        made->offsets = calloc(tokens + 1, sizeof *made->offsets);
        made->all.ids = calloc(2 * tokens, sizeof *made->all.ids);
        made->all.shared = calloc(2 * tokens, sizeof *made->all.shared);
        made->plain = calloc(2 * words, sizeof *made->plain);
        made->plain_characters = calloc(tokens, sizeof *made->plain_characters);
        made->followers = calloc((size_t)sequences, sizeof *made->followers);
    }
    base_status status = made != NULL && made->offsets != NULL && made->all.ids != NULL &&
                                 made->all.shared != NULL && made->plain != NULL &&
                                 made->plain_characters != NULL && made->followers != NULL
                             ? BASE_OK
                             : base_fail(reterr, BASE_ERR_MEMORY,
                                         "no memory for grammars of %d sequences", sequences);
    if (status == BASE_OK) {
        made->others =
            (token_list){.ids = made->all.ids + tokens, .shared = made->all.shared + tokens};
        made->allowed = made->plain + words;
        status = read_bytes(tokenizer, made, reterr);
    }
    if (status == BASE_OK) {
        list_tokens(made);
    } else {
        rank_grammars_destroy(made);
        *grammars = NULL;
    }
    return status;
}

void rank_grammars_destroy(rank_grammars *grammars)
{
    if (grammars != NULL) {
        free(grammars->bytes);
        free(grammars->offsets);
        free(grammars->all.ids);
        free(grammars->all.shared);
        free(grammars->plain);
        free(grammars->plain_characters);
        free(grammars->followers);
        free(grammars);
    }
}

base_status rank_grammars_check(const rank_grammars *grammars, const rank_request *request,
                                base_error *reterr)
{
    bool ends = false;
    if (request->grammar_count == 0) {
        return BASE_OK;
    }
    if (grammars == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "no grammar can be followed here");
    }
    for (int32_t i = 0; i < request->stop_count; i++) {
        ends = ends || request->stops[i] < grammars->vocab_size;
    }
    if (!ends) {
        return base_fail(reterr, BASE_ERR_INVALID, "needs a token that ends the answer%s",
                         request->stop_count == 0 ? ", which ignore_eos takes away" : "");
    }
    for (int64_t i = 0; i < request->grammar_count; i++) {
        const proto_grammar_step *step = &request->grammar[i];
        bool any = step->kind != PROTO_GRAMMAR_RANGE && step->kind != PROTO_GRAMMAR_PLAIN;
        for (int byte = 0; !any && byte <= UINT8_MAX; byte++) {
            any = grammars->single[byte] != NO_TOKEN &&
                  proto_grammar_take(step, 0, (uint8_t)byte) >= 0;
        }
        if (!any) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "the model has no token of the byte %d alone", step->low);
        }
    }
    return BASE_OK;
}

/* ---- masks ---- */

/* Follows a token's bytes. False: the grammar does not take them. */
static bool follow(rank_grammars *grammars, const proto_grammar_step *steps, int32_t token,
                   rank_grammar_state *state)
{
    const uint32_t size = size_of(grammars, token);
    const uint8_t *bytes = bytes_of(grammars, token);
    for (uint32_t i = 0; i < size; i++) {
        if (!rank_grammar_take(steps, state, bytes[i], &grammars->states[0])) {
            return false;
        }
        *state = grammars->states[0];
    }
    return size > 0;
}

/* The state in front of the row's token; NULL: the text has left the grammar. */
static const rank_grammar_state *find_state(rank_grammars *grammars, const rank_grammar_text *where)
{
    const rank_adjust_text *text = where->text;
    follower *of = &grammars->followers[where->sequence];
    if (of->request_id != where->request->id) {
        of->request_id = where->request->id;
        of->count = where->request->prompt_count;
        of->broken = false;
        rank_grammar_begin(where->steps, &of->state);
    }
    for (; of->count < where->known; of->count++) {
        of->broken =
            of->broken || !follow(grammars, where->steps, text->tokens[of->count], &of->state);
    }
    if (of->broken || text->count <= where->known) {
        return of->broken ? NULL : &of->state;
    }
    grammars->drafted = of->state;
    for (int32_t i = where->known; i < text->count; i++) {
        if (!follow(grammars, where->steps, text->tokens[i], &grammars->drafted)) {
            return NULL;
        }
    }
    return &grammars->drafted;
}

/* The next token, from i on, that shares no more bytes than so many with the one before it. */
static int32_t next_other(const token_list *list, int32_t i, uint32_t bytes)
{
    if (bytes == 0 && i < list->count) { /* most tokens are left out by their first byte */
        const uint8_t *at = memchr(list->shared + i, 0, (size_t)(list->count - i));
        return at != NULL ? (int32_t)(at - list->shared) : list->count;
    }
    while (i < list->count && list->shared[i] > bytes) {
        i++;
    }
    return i;
}

/* Keeps the state at an index, if there is room and it is new. Returns where it is. */
static int keep_state(rank_grammars *grammars, int at)
{
    int same = 0;
    while (same < grammars->kept &&
           !rank_grammar_is_same(&grammars->states[same], &grammars->states[at])) {
        same++;
    }
    if (same == grammars->kept && at == grammars->kept) {
        for (int byte = 0; byte <= UINT8_MAX; byte++) {
            grammars->next[at][byte] = NOT_KNOWN;
        }
        grammars->kept++;
    }
    return same < STATES_KEPT ? same : at;
}

/* The state behind one more byte of a token, which is then so long; NOT_TAKEN: there is none. */
static int find_next(rank_grammars *grammars, const proto_grammar_step *steps, int from,
                     const uint8_t *bytes, uint32_t length)
{
    const uint8_t byte = bytes[length - 1];
    if (from < STATES_KEPT && grammars->next[from][byte] != NOT_KNOWN) {
        return grammars->next[from][byte];
    }
    int to = grammars->kept < STATES_KEPT ? grammars->kept : STATES_KEPT + (int)length;
    const bool taken =
        rank_grammar_take(steps, &grammars->states[from], byte, &grammars->states[to]);
    grammars->work += grammars->states[to].work;
    to = taken ? keep_state(grammars, to) : NOT_TAKEN;
    if (from < STATES_KEPT && to < STATES_KEPT) {
        grammars->next[from][byte] = (int16_t)to;
    }
    return to;
}

/* Sets the bits of the tokens that the grammar takes. What tokens share is walked once. Where that takes too long, only
 * those of one byte are left, so that some token always is. */
static void allow(rank_grammars *grammars, const proto_grammar_step *steps,
                  const rank_grammar_state *state, const token_list *list)
{
    int behind[TOKEN_BYTES_MAX + 1] = {0}; /* so many bytes: the state's index */
    uint32_t walked = 0;                   /* bytes of the token before that were taken */
    grammars->states[0] = *state;
    grammars->kept = 0;
    grammars->work = 0;
    (void)keep_state(grammars, 0);
    for (int32_t i = 0; i < list->count && grammars->work < WORK_MAX;) {
        const int32_t token = list->ids[i];
        const uint32_t size = size_of(grammars, token);
        const uint8_t *bytes = bytes_of(grammars, token);
        bool taken = true;
        walked = list->shared[i] < walked ? list->shared[i] : walked;
        while (taken && walked < size) {
            const int to = find_next(grammars, steps, behind[walked], bytes, walked + 1);
            taken = to != NOT_TAKEN;
            walked += taken ? 1 : 0;
            behind[walked] = taken ? to : behind[walked];
        }
        if (taken) {
            set_bit(grammars->allowed, token);
        }
        i = taken ? i + 1 : next_other(list, i + 1, walked);
    }
    for (int byte = 0; grammars->work >= WORK_MAX && byte <= UINT8_MAX; byte++) {
        const int32_t token = grammars->single[byte];
        if (token != NO_TOKEN && !has_bit(grammars->allowed, token) &&
            rank_grammar_take(steps, state, (uint8_t)byte, &grammars->states[0])) {
            set_bit(grammars->allowed, token);
        }
    }
}

/* Sets the bits of the tokens that have so many plain characters at most, and no other bits. */
static void allow_plain(rank_grammars *grammars, int run)
{
    const size_t words = ((size_t)grammars->vocab_size + WORD_BITS - 1) / WORD_BITS;
    memcpy(grammars->allowed, grammars->plain, words * sizeof *grammars->allowed);
    for (int32_t i = 0; run < TOKEN_BYTES_MAX && i < grammars->vocab_size; i++) {
        grammars->allowed[i / WORD_BITS] &=
            ~((uint64_t)(grammars->plain_characters[i] > run) << (i % WORD_BITS));
    }
}

/* Allows the tokens that end the text, or forbids them. */
static void mark_stops(rank_grammars *grammars, const rank_request *request, bool allowed)
{
    for (int32_t i = 0; i < request->stop_count; i++) {
        const int32_t stop = request->stops[i];
        if (stop < grammars->vocab_size) {
            grammars->allowed[stop / WORD_BITS] &= ~(UINT64_C(1) << (stop % WORD_BITS));
            grammars->allowed[stop / WORD_BITS] |= (uint64_t)allowed << (stop % WORD_BITS);
        }
    }
}

/* Makes the logits -infinity whose tokens have no bit. */
static void forbid(const uint64_t *allowed, const rank_adjust_row *row)
{
    for (int32_t i = 0; i < row->count;) {
        const int32_t at = row->first + i;
        const uint64_t word = allowed[at / WORD_BITS] >> (at % WORD_BITS);
        const int32_t left = WORD_BITS - at % WORD_BITS;
        const int32_t count = left < row->count - i ? left : row->count - i;
        float *logits = row->logits + i;
        for (int32_t k = 0; word != UINT64_MAX && k < count; k++) {
            const bool stays = (word >> k & 1) != 0 || !(logits[k] <= FLT_MAX); /* is refused */
            logits[k] = stays ? logits[k] : -INFINITY;
        }
        i += count;
    }
}

void rank_grammars_mask(rank_grammars *grammars, const rank_grammar_text *where,
                        const rank_adjust_row *row)
{
    const size_t words = ((size_t)grammars->vocab_size + WORD_BITS - 1) / WORD_BITS;
    const rank_request *request = where->request;
    const proto_grammar_step *steps = where->steps;
    const rank_grammar_state *state = find_state(grammars, where);
    if (state == NULL) {
        return;
    }
    const int run = rank_grammar_plain_run(steps, state, TOKEN_BYTES_MAX);
    if (run > 0) {
        allow_plain(grammars, run);
    } else {
        memset(grammars->allowed, 0, words * sizeof *grammars->allowed);
    }
    allow(grammars, steps, state, run > 0 ? &grammars->others : &grammars->all);
    mark_stops(grammars, request, false); /* one may have bytes */
    if (state->ends != 0 || !any_bit(grammars->allowed, words)) {
        mark_stops(grammars, request, true);
    }
    forbid(grammars->allowed, row);
}
