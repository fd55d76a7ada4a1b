/* Prints a trace as a table of ranks and blocks, a part for each round. Called by coll-simulate's
 * main.c. */
#include <string.h>

#include "common/kinds.h"
#include "trace.h"

enum { CHAIN_RANKS_MIN = 4 /* a shorter chain is written in full */ };

static void append(char *text, const char *word)
{
    const size_t used = strlen(text);
    (void)snprintf(text + used, TRACE_LINE_BYTES - used, "%s", word);
}

static void append_rank(char *text, const char *before, int rank)
{
    char word[32];
    (void)snprintf(word, sizeof word, "%s%d", before, rank);
    append(text, word);
}

static void append_block(char *text, int block)
{
    append(text, (const char[]){(char)('A' + block), '\0'});
}

/* "AB": the blocks of a message; or the value, where the sender holds another one as well. */
void trace_append_blocks(char *text, const trace_message *message)
{
    if (message->aside) {
        append(text, "[");
        append(text, message->values[0].text);
        append(text, "]");
        return;
    }
    for (int i = 0; i < message->block_count; i++) {
        append_block(text, message->block + i);
    }
}

static bool carry_the_same(const trace_message *a, const trace_message *b)
{
    return a->block == b->block && a->block_count == b->block_count && a->aside == b->aside;
}

/* "A to 1 2, B to 3": what the rank sends in the round, or takes. */
static void put_messages(const trace_result *played, int round, int rank, bool sends, char *text)
{
    const trace_message *last = NULL;
    for (int i = 0; i < played->message_count; i++) {
        const trace_message *message = &played->messages[i];
        const int at = sends ? message->sent_round : message->taken_round;
        if (at != round || (sends ? message->from : message->to) != rank) {
            continue;
        }
        if (last == NULL || !carry_the_same(last, message)) {
            append(text, last == NULL ? "" : ", ");
            trace_append_blocks(text, message);
            append(text, sends ? " to" : " from");
        }
        append_rank(text, " ", sends ? message->to : message->from);
        last = message;
    }
}

/* Whether every block has one sum in the end. */
static bool has_one_sum(const trace_result *played)
{
    return coll_kind_reduces(played->plan.kind) && !coll_kind_is_scan(played->plan.kind);
}

bool trace_is_complete(const trace_result *played, const trace_value *value)
{
    return has_one_sum(played) && value->ranks == (1U << played->plan.ranks) - 1;
}

/* How many ranks a value has, if each follows the one before, ((A1+A2)+A3)+A4, and there are enough
 * of them to leave some out; else 0. *first is the first of them. */
static int chain_of(const trace_result *played, const trace_value *value, int block, int *first)
{
    const char *at = strchr(value->text, 'A' + block);
    trace_value chain;
    int count = 0;
    for (unsigned left = value->ranks; left != 0; left &= left - 1) {
        count++;
    }
    if (count < CHAIN_RANKS_MIN || at == NULL) {
        return 0;
    }
    *first = at[1] - '0';
    trace_operand(*first, block, &chain);
    for (int i = 1; i < count; i++) {
        trace_value next;
        trace_operand((*first + i) % played->plan.ranks, block, &next);
        trace_add(&chain, &next, &chain);
    }
    return strcmp(chain.text, value->text) == 0 ? count : 0;
}

/* A complete sum is the block's letter alone. Long chains would make the table too wide. */
static void put_cell(const trace_result *played, const trace_cell *cell, int block, char *text)
{
    int first = 0;
    const int chain = chain_of(played, &cell->held, block, &first);
    if (trace_is_complete(played, &cell->held)) {
        append_block(text, block);
    } else if (chain > 0) {
        append_block(text, block);
        append_rank(text, "", first);
        append(text, "+..+");
        append_block(text, block);
        append_rank(text, "", (first + chain - 1) % played->plan.ranks);
    } else {
        append(text, cell->held.text[0] != '\0' ? cell->held.text : "-");
    }
    if (cell->aside.text[0] != '\0') {
        append(text, " [");
        append(text, cell->aside.text);
        append(text, "]");
    }
}

void trace_line_make(const trace_result *played, int row, int rank, trace_line *made)
{
    memset(made, 0, sizeof *made);
    append_rank(made->text[0], "  rank ", rank);
    put_messages(played, row - 1, rank, true, made->text[1]);
    put_messages(played, row - 1, rank, false, made->text[2]);
    for (int block = 0; block < played->block_count; block++) {
        put_cell(played, &played->cells[row][rank][block], block, made->text[3 + block]);
    }
}

static void make_head(const trace_result *played, trace_line *made)
{
    memset(made, 0, sizeof *made);
    append(made->text[1], "sends");
    append(made->text[2], "receives");
    for (int block = 0; block < played->block_count; block++) {
        append_block(made->text[3 + block], block);
    }
}

static void widen(const trace_line *made, int widths[TRACE_COLUMNS])
{
    for (int i = 0; i < TRACE_COLUMNS; i++) {
        const int width = (int)strlen(made->text[i]);
        widths[i] = width > widths[i] ? width : widths[i];
    }
}

static void put_line(const trace_result *played, const trace_line *made,
                     const int widths[TRACE_COLUMNS], FILE *out)
{
    int last = 2 + played->block_count;
    while (last > 0 && made->text[last][0] == '\0') {
        last--;
    }
    for (int i = 0; i < last; i++) {
        (void)fprintf(out, "%-*s   ", widths[i], made->text[i]);
    }
    (void)fprintf(out, "%s\n", made->text[last]);
}

/* Whether a message carries what came aside, and whether a cell has a long chain. */
static void look_for(const trace_result *played, bool *aside, bool *chains)
{
    for (int i = 0; i < played->message_count; i++) {
        *aside = *aside || played->messages[i].aside;
    }
    for (int row = 0; row <= played->round_count; row++) {
        for (int rank = 0; rank < played->plan.ranks; rank++) {
            for (int block = 0; block < played->block_count; block++) {
                const trace_value *held = &played->cells[row][rank][block].held;
                int first = 0;
                *chains = *chains || (!trace_is_complete(played, held) &&
                                      chain_of(played, held, block, &first) > 0);
            }
        }
    }
}

void trace_title(const trace_result *played, char text[TRACE_LINE_BYTES])
{
    const coll_plan *plan = &played->plan;
    char hosts[32] = "";
    char root[32] = "";
    if (plan->hosts != NULL && plan->hosts->count > 1) {
        (void)snprintf(hosts, sizeof hosts, " on %d hosts", plan->hosts->count);
    }
    if (coll_kind_has_root(plan->kind)) {
        (void)snprintf(root, sizeof root, ", root %d", plan->root);
    }
    (void)snprintf(text, TRACE_LINE_BYTES, "%s by %s: %d ranks%s%s, %d block%s, %d round%s",
                   coll_kind_name(plan->kind), coll_algorithm_name(plan->algorithm), plan->ranks,
                   hosts, root, played->block_count, played->block_count == 1 ? "" : "s",
                   played->round_count, played->round_count == 1 ? "" : "s");
}

void trace_print_key(const trace_result *played, FILE *out)
{
    bool aside = false;
    bool chains = false;
    look_for(played, &aside, &chains);
    (void)fprintf(out, "A0 is what rank 0 has of block A in the beginning%s",
                  has_one_sum(played)                ? ", A alone the sum of all ranks"
                  : played->plan.kind == COLL_EXSCAN ? ", 0 the neutral element"
                                                     : "");
    (void)fprintf(out, ",\n\"C to 1\" means that what it holds in column C goes to rank 1");
    (void)fprintf(out, "%s%s.\n",
                  !aside                ? ""
                  : has_one_sum(played) ? ",\n[A0] a value that is added later"
                                        : ",\n[A0] the sum of a group of ranks, which goes on",
                  chains ? ",\nA1+..+A4 is ((A1+A2)+A3)+A4" : "");
}

static void print_ranks(const char *before, unsigned ranks, FILE *out)
{
    const bool one = (ranks & (ranks - 1)) == 0;
    (void)fprintf(out, "%s rank%s", before, one ? "" : "s");
    for (int rank = 0; rank < TRACE_RANKS_MAX; rank++) {
        if ((ranks >> rank & 1) != 0) {
            (void)fprintf(out, " %d", rank);
        }
    }
}

/* The ranks that hold the block's sum in this order, and which of them computed it themselves. */
static void print_order(const trace_result *played, int block, const char *order, FILE *out)
{
    unsigned computed = 0;
    unsigned copied = 0;
    for (int rank = 0; rank < played->plan.ranks; rank++) {
        const trace_value *held = &played->cells[played->round_count][rank][block].held;
        if (strcmp(held->text, order) == 0) {
            computed |= played->computed[rank][block] ? 1U << rank : 0;
            copied |= played->computed[rank][block] ? 0 : 1U << rank;
        }
    }
    (void)fprintf(out, "  %c = %s", 'A' + block, order);
    if (computed != 0) {
        print_ranks("   computed on", computed, out);
    }
    if (copied != 0) {
        print_ranks(computed != 0 ? ", copied to" : "   copied to", copied, out);
    }
    (void)fputc('\n', out);
}

/* Each order in which a rank has the sum, once; whether all are the canonical one. */
static bool print_orders(const trace_result *played, int block, FILE *out)
{
    const trace_cell(*cells)[TRACE_BLOCKS_MAX] = played->cells[played->round_count];
    trace_value canonical[TRACE_RANKS_MAX];
    bool all_canonical = true;
    for (int rank = 0; rank < played->plan.ranks; rank++) {
        trace_operand(rank, block, &canonical[rank]);
    }
    trace_canonical(canonical, played->plan.ranks, &canonical[0]);
    for (int rank = 0; rank < played->plan.ranks; rank++) {
        const trace_value *held = &cells[rank][block].held;
        bool known = !trace_is_complete(played, held);
        for (int other = 0; other < rank; other++) {
            known = known || strcmp(cells[other][block].held.text, held->text) == 0;
        }
        if (!known) {
            print_order(played, block, held->text, out);
            all_canonical = all_canonical && strcmp(held->text, canonical[0].text) == 0;
        }
    }
    return all_canonical;
}

static void print_end(const trace_result *played, FILE *out)
{
    trace_value operands[TRACE_RANKS_MAX];
    bool canonical = true;
    (void)fputs("how each block was added up\n", out);
    for (int block = 0; block < played->block_count; block++) {
        canonical = print_orders(played, block, out) && canonical;
    }
    for (int rank = 0; rank < played->plan.ranks; rank++) {
        trace_operand(rank, 0, &operands[rank]);
    }
    trace_canonical(operands, played->plan.ranks, &operands[0]);
    if (canonical) {
        (void)fputs("This is the canonical order.\n", out);
    } else {
        (void)fprintf(out, "The canonical order is another one: A = %s\n", operands[0].text);
    }
}

/* Scans: whether each prefix was added up as its ranks alone would do it. */
static void print_prefixes(const trace_result *played, FILE *out)
{
    bool canonical = true;
    for (int rank = 0; rank < played->plan.ranks; rank++) {
        const int count = played->plan.kind == COLL_SCAN ? rank + 1 : rank;
        trace_value values[TRACE_RANKS_MAX] = {{.text = "0"}};
        for (int i = 0; i < count; i++) {
            trace_operand(i, 0, &values[i]);
        }
        trace_canonical(values, count, &values[0]);
        canonical = canonical && strcmp(played->cells[played->round_count][rank][0].held.text,
                                        values[0].text) == 0;
    }
    (void)fprintf(out, "Each prefix is added up in %s.\n",
                  canonical ? "the canonical order of its ranks"
                            : "the order of ranks, from the left, which is not the canonical one");
}

void trace_print_sums(const trace_result *played, FILE *out)
{
    if (has_one_sum(played)) {
        print_end(played, out);
    } else if (coll_kind_is_scan(played->plan.kind)) {
        print_prefixes(played, out);
    }
}

void trace_print(const trace_result *played, FILE *out)
{
    int widths[TRACE_COLUMNS] = {0};
    char title[TRACE_LINE_BYTES];
    trace_line made;
    for (int row = 0; row <= played->round_count; row++) {
        for (int rank = 0; rank < played->plan.ranks; rank++) {
            trace_line_make(played, row, rank, &made);
            widen(&made, widths);
        }
    }
    trace_title(played, title);
    (void)fprintf(out, "%s\n", title);
    trace_print_key(played, out);
    (void)fputc('\n', out);
    make_head(played, &made);
    widen(&made, widths);
    put_line(played, &made, widths, out);
    for (int row = 0; row <= played->round_count; row++) {
        (void)(row == 0 ? fputs("start\n", out) : fprintf(out, "round %d\n", row - 1));
        for (int rank = 0; rank < played->plan.ranks; rank++) {
            trace_line_make(played, row, rank, &made);
            put_line(played, &made, widths, out);
        }
    }
    if (coll_kind_reduces(played->plan.kind)) {
        (void)fputc('\n', out);
        trace_print_sums(played, out);
    }
}
