/* Makes all lines of the corpus from the grammar, and splits off the held-out ones. Called by
 * corpus-gen's main.c. */
#include "generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "dress.h"

enum {
    LINES_FIRST = 4096,
    HELD_OUT_LINES = 1, /* for each held-out verb and frame */
    ATTEMPTS = 8,       /* tries with other seeds before an error row is skipped for a verb */
    DRESSED_ONE_IN = 8, /* training lines with capitals and a full stop */
    NONE_ONE_IN = 10,   /* training lines that are right from the start */
};

#define SEED_HELD_OUT UINT64_C(0x68656c64)
#define SEED_LINES    UINT64_C(0x6c696e65)
#define SEED_ORDER    UINT64_C(0x6f726472)

static uint64_t pair_hash(uint64_t seed, const corpus_verb *verb, const corpus_frame *frame)
{
    return corpus_hash(corpus_hash(seed, verb->label), frame->name);
}

/* The frame with the smallest hash among those the verb is used in, leaving out one form. */
static const corpus_frame *first_frame(const corpus_grammar *grammar, const corpus_verb *verb,
                                       const char *form_left_out)
{
    const corpus_frame *first = NULL;
    for (int i = 0; i < grammar->frame_count; i++) {
        const corpus_frame *frame = &grammar->frames[i];
        if (!corpus_frame_takes(frame, verb) ||
            (form_left_out != NULL && strcmp(frame->form, form_left_out) == 0)) {
            continue;
        }
        if (first == NULL ||
            pair_hash(SEED_HELD_OUT, verb, frame) < pair_hash(SEED_HELD_OUT, verb, first)) {
            first = frame;
        }
    }
    return first;
}

/* Whether the verb is kept out of training in the frame. */
static bool is_held_out(const corpus_grammar *grammar, const corpus_verb *verb,
                        const corpus_frame *frame)
{
    const corpus_frame *first = first_frame(grammar, verb, NULL);
    if (first == NULL || frame == first) {
        return first != NULL;
    }
    return verb->kind != CORPUS_BE && frame == first_frame(grammar, verb, first->form);
}

static bool unless_holds(const corpus_error *error, const corpus_verb *verb)
{
    for (int i = 0; i < error->unless_count; i++) {
        if (strcmp(verb->forms[error->unless[i].a], verb->forms[error->unless[i].b]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the sentence has a word that some dictionary accepts as the verb's. */
static bool has_accepted_word(const corpus_verb *verb, const char *sentence)
{
    for (int i = 0; i < verb->also_count; i++) {
        const size_t bytes = strlen(verb->also[i]);
        for (const char *at = sentence; (at = strstr(at, verb->also[i])) != NULL; at += bytes) {
            const bool starts = at == sentence || at[-1] == ' ';
            if (starts && (at[bytes] == ' ' || at[bytes] == '?' || at[bytes] == '\0')) {
                return true;
            }
        }
    }
    return false;
}

/* The parts of a line. */
typedef struct line_plan {
    const corpus_grammar *grammar;
    const corpus_verb *verb;
    const corpus_frame *frame;
    const corpus_error *error;
    uint64_t seed;
} line_plan;

/* Makes one line; *made is false where the error does not fit the verb or this subject. */
static base_status make_line(const line_plan *plan, corpus_line *line, bool *made,
                             base_error *reterr)
{
    static const char reason[] = "unknown placeholder or too long a sentence";
    const corpus_grammar *grammar = plan->grammar;
    const corpus_error *error = plan->error;
    corpus_fill fill = {.grammar = grammar, .verb = plan->verb, .seed = plan->seed};
    *made = false;
    fill.subject = corpus_pick_subject(grammar, error->wrong, plan->seed);
    if (fill.subject == NULL || unless_holds(error, plan->verb)) {
        return BASE_OK;
    }
    const corpus_filled right = corpus_pattern_fill(&fill, plan->frame->right, line->right);
    const corpus_filled wrong = corpus_pattern_fill(&fill, error->wrong, line->wrong);
    if (right > CORPUS_NOT_FOR_THIS) {
        return corpus_table_refuse(&grammar->table_frames, plan->frame->row, reason,
                                   plan->frame->right, reterr);
    }
    if (wrong > CORPUS_NOT_FOR_THIS) {
        return corpus_table_refuse(&grammar->table_errors, error->row, reason, error->wrong,
                                   reterr);
    }
    line->rule = error->rule;
    line->verb = plan->verb->label;
    line->frame = plan->frame->name;
    *made = right == CORPUS_FILLED && wrong == CORPUS_FILLED &&
            strcmp(line->wrong, line->right) != 0 && !has_accepted_word(plan->verb, line->wrong);
    return BASE_OK;
}

static base_status append(corpus_lines *lines, const corpus_line *line, base_error *reterr)
{
    corpus_line *larger =
        base_grow(lines->lines, lines->count, &lines->capacity, LINES_FIRST, sizeof *larger);
    if (larger == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu lines", lines->count + 1);
    }
    lines->lines = larger;
    lines->lines[lines->count++] = *line;
    return BASE_OK;
}

/* Makes the lines of one verb in one frame. Its error rows take turns, from one that the hash
 * chooses. */
static base_status generate_pair(const corpus_grammar *grammar, const corpus_verb *verb,
                                 const corpus_frame *frame, corpus_lines *lines, base_error *reterr)
{
    const uint64_t seed = pair_hash(SEED_LINES, verb, frame);
    const bool held_out = is_held_out(grammar, verb, frame);
    const int wanted = held_out ? HELD_OUT_LINES : corpus_frame_lines(frame, verb);
    int count = 0;
    for (int i = 0; i < frame->error_count * ATTEMPTS && count < wanted; i++) {
        corpus_line line = {.held_out = held_out};
        bool made = false;
        const uint64_t turn = seed + (uint64_t)i;
        const line_plan plan = {.grammar = grammar,
                                .verb = verb,
                                .frame = frame,
                                .error = &frame->errors[turn % (uint64_t)frame->error_count],
                                .seed = corpus_mix(turn)};
        base_status status = make_line(&plan, &line, &made, reterr);
        if (status == BASE_OK && made) {
            if (!held_out && corpus_hash(plan.seed, "none") % NONE_ONE_IN == 0) {
                memcpy(line.wrong, line.right, sizeof line.wrong);
                line.rule = "none";
            }
            if (!held_out && corpus_hash(plan.seed, "dress") % DRESSED_ONE_IN == 0) {
                corpus_dress(grammar, line.wrong);
                corpus_dress(grammar, line.right);
            }
            status = append(lines, &line, reterr);
            count++;
        }
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

static int compare_wrong(const void *a, const void *b)
{
    const corpus_line *left = *(corpus_line *const *)a;
    const corpus_line *right = *(corpus_line *const *)b;
    const int wrong = strcmp(left->wrong, right->wrong);
    return wrong != 0 ? wrong : strcmp(left->right, right->right);
}

static bool same_wrong(const corpus_line *a, const corpus_line *b)
{
    return strcmp(a->wrong, b->wrong) == 0;
}

/* The first line whose wrong sentence this is, or NULL. */
static const corpus_line *find_wrong(corpus_line *const *sorted, size_t count, const char *sentence)
{
    size_t low = 0;
    for (size_t high = count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(sorted[middle]->wrong, sentence) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && strcmp(sorted[low]->wrong, sentence) == 0 ? sorted[low] : NULL;
}

/* Refuses a wrong sentence with two corrections, or one that is right in another line. */
static base_status check_lines(corpus_line *const *sorted, size_t count, base_error *reterr)
{
    for (size_t i = 1; i < count; i++) {
        const corpus_line *one = sorted[i - 1];
        const corpus_line *other = sorted[i];
        if (same_wrong(sorted[i - 1], sorted[i]) && strcmp(one->right, other->right) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "\"%s\" has two corrections, \"%s\" (%s) and \"%s\" (%s)", one->wrong,
                             one->right, one->frame, other->right, other->frame);
        }
    }
    for (size_t i = 0; i < count; i++) {
        const corpus_line *line = sorted[i];
        const corpus_line *elsewhere = find_wrong(sorted, count, line->right);
        if (elsewhere != NULL && strcmp(elsewhere->right, line->right) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID, "\"%s\" is right in %s and wrong in %s",
                             line->right, line->frame, elsewhere->frame);
        }
    }
    return BASE_OK;
}

/* Checks all lines, and removes repeated ones. */
static base_status check_and_prune(corpus_lines *lines, base_error *reterr)
{
    corpus_line **sorted = calloc(lines->count + 1, sizeof *sorted);
    if (sorted == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu lines", lines->count);
    }
    for (size_t i = 0; i < lines->count; i++) {
        sorted[i] = &lines->lines[i];
    }
    qsort(sorted, lines->count, sizeof *sorted, compare_wrong);
    const base_status status = check_lines(sorted, lines->count, reterr);
    for (size_t i = lines->count; i-- > 1;) {
        if (same_wrong(sorted[i], sorted[i - 1])) {
            sorted[i]->wrong[0] = '\0';
        }
    }
    free(sorted);
    size_t kept = 0;
    for (size_t i = 0; i < lines->count; i++) {
        if (lines->lines[i].wrong[0] != '\0') {
            lines->lines[kept++] = lines->lines[i];
        }
    }
    lines->count = kept;
    return status;
}

static void shuffle(corpus_lines *lines)
{
    for (size_t i = lines->count; i > 1; i--) {
        const size_t other = corpus_mix(SEED_ORDER + i) % i;
        const corpus_line line = lines->lines[i - 1];
        lines->lines[i - 1] = lines->lines[other];
        lines->lines[other] = line;
    }
}

base_status corpus_generate(const corpus_grammar *grammar, corpus_lines *lines, base_error *reterr)
{
    base_status status = BASE_OK;
    memset(lines, 0, sizeof *lines);
    for (int v = 0; v < grammar->verb_count && status == BASE_OK; v++) {
        for (int f = 0; f < grammar->frame_count && status == BASE_OK; f++) {
            if (corpus_frame_takes(&grammar->frames[f], &grammar->verbs[v])) {
                status =
                    generate_pair(grammar, &grammar->verbs[v], &grammar->frames[f], lines, reterr);
            }
        }
    }
    if (status == BASE_OK) {
        status = check_and_prune(lines, reterr);
    }
    if (status != BASE_OK) {
        corpus_lines_fini(lines);
        return status;
    }
    shuffle(lines);
    return BASE_OK;
}

void corpus_lines_fini(corpus_lines *lines)
{
    free(lines->lines);
    memset(lines, 0, sizeof *lines);
}
