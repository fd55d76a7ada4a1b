/* Heat in a square plate whose upper edge is hot (Jacobi's method). Each process has a block of the
 * plate. Before each step it needs the edges of its neighbours' blocks: it starts to exchange them,
 * computes the cells that need none, waits, and computes the rest. At the end each compares its block
 * with the plate that it computes alone: they are equal to the bit.
 *
 *   cc halo.c $(pkg-config --cflags --libs libcoll-launched) -lm -o halo
 *   launcher --ranks 4 -- ./halo */
#include <coll/launched.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 96, STEPS = 300, TOP = 0, BOTTOM, LEFT, RIGHT, SIDES };

typedef struct side {
    int length; /* cells */
    double out[N];
    double in[N];
    coll_op *send; /* NULL: the edge of the plate */
    coll_op *receive;
} side;

typedef struct block {
    int rows;
    int columns;
    int row; /* of its first cell, in the plate */
    int column;
    double *now; /* (rows + 2) x (columns + 2): its cells, and one around them */
    double *next;
    side sides[SIDES];
} block;

/* Cell i of a side: that of the block (inside 1), or the one beyond it (0). */
static double *cell(const block *b, int at, int i, int inside)
{
    const int width = b->columns + 2;
    switch (at) {
    case TOP:
        return b->now + inside * width + 1 + i;
    case BOTTOM:
        return b->now + (b->rows + 1 - inside) * width + 1 + i;
    case LEFT:
        return b->now + (1 + i) * width + inside;
    default:
        return b->now + (1 + i) * width + b->columns + 1 - inside;
    }
}

/* Computes the cells of the rows and columns given, the last ones included; from 1. */
static void compute(const block *b, int top, int bottom, int left, int right)
{
    const int width = b->columns + 2;
    for (int i = top; i <= bottom; i++) {
        for (int j = left; j <= right; j++) {
            const double *c = b->now + i * width + j;
            b->next[i * width + j] = (c[-width] + c[width] + c[-1] + c[1]) / 4;
        }
    }
}

static coll_status begin_exchange(block *b, coll_error *error)
{
    coll_status status = COLL_OK;
    for (int at = 0; at < SIDES && status == COLL_OK; at++) {
        side *s = &b->sides[at];
        for (int i = 0; s->send != NULL && i < s->length; i++) {
            s->out[i] = *cell(b, at, i, 1);
        }
        if (s->send != NULL) {
            status = coll_op_start(s->receive, error);
        }
        if (s->send != NULL && status == COLL_OK) {
            status = coll_op_start(s->send, error);
        }
    }
    return status;
}

static coll_status end_exchange(block *b, coll_error *error)
{
    coll_status status = COLL_OK;
    for (int at = 0; at < SIDES && status == COLL_OK; at++) {
        side *s = &b->sides[at];
        if (s->send != NULL) {
            status = coll_op_wait(s->receive, error);
        }
        if (s->send != NULL && status == COLL_OK) {
            status = coll_op_wait(s->send, error);
        }
        for (int i = 0; s->send != NULL && i < s->length; i++) {
            *cell(b, at, i, 0) = s->in[i];
        }
    }
    return status;
}

static coll_status step(block *b, coll_error *error)
{
    coll_status status = begin_exchange(b, error);
    compute(b, 2, b->rows - 1, 2, b->columns - 1);
    if (status == COLL_OK) {
        status = end_exchange(b, error);
    }
    compute(b, 1, 1, 1, b->columns);
    compute(b, b->rows, b->rows, 1, b->columns);
    compute(b, 2, b->rows - 1, 1, 1);
    compute(b, 2, b->rows - 1, b->columns, b->columns);
    double *before = b->now;
    b->now = b->next;
    b->next = before;
    return status;
}

/* Block (i, j) of down x across; nobody's neighbour yet. */
static void make(block *b, int i, int down, int j, int across)
{
    memset(b, 0, sizeof *b);
    b->row = N * i / down;
    b->column = N * j / across;
    b->rows = N * (i + 1) / down - b->row;
    b->columns = N * (j + 1) / across - b->column;
    const size_t cells = (size_t)(b->rows + 2) * (size_t)(b->columns + 2);
    b->now = calloc(cells, sizeof(double));
    b->next = calloc(cells, sizeof(double));
    if (b->now == NULL || b->next == NULL) {
        abort();
    }
    for (int k = 0; i == 0 && k < b->columns + 2; k++) { /* hot */
        b->now[k] = 1;
        b->next[k] = 1;
    }
}

static coll_status join(coll_comm *world, block *b, int at, int peer, coll_error *error)
{
    side *s = &b->sides[at];
    s->length = at == TOP || at == BOTTOM ? b->columns : b->rows;
    coll_op_desc desc = {.size = sizeof desc,
                         .kind = COLL_RECEIVE,
                         .recv = s->in,
                         .count = (size_t)s->length,
                         .type = COLL_FLOAT64,
                         .root = peer};
    const coll_status status = coll_op_create(world, &desc, &s->receive, error);
    desc.kind = COLL_SEND;
    desc.send = s->out;
    return status == COLL_OK ? coll_op_create(world, &desc, &s->send, error) : status;
}

static void destroy(block *b)
{
    for (int at = 0; at < SIDES; at++) {
        coll_op_destroy(b->sides[at].send);
        coll_op_destroy(b->sides[at].receive);
    }
    free(b->now);
    free(b->next);
}

/* How many cells of the block differ from those of the plate that one process computes. */
static int64_t compare(const block *b)
{
    block plate;
    int64_t different = 0;
    make(&plate, 0, 1, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        (void)step(&plate, NULL);
    }
    for (int i = 1; i <= b->rows; i++) {
        const double *mine = b->now + i * (b->columns + 2) + 1;
        const double *alone = plate.now + (b->row + i) * (N + 2) + b->column + 1;
        for (int j = 0; j < b->columns; j++) {
            different += mine[j] != alone[j];
        }
    }
    destroy(&plate);
    return different;
}

static coll_status heat(coll_launched *launched, coll_error *error)
{
    coll_comm *world = coll_context_world(coll_launched_context(launched));
    const int rank = coll_comm_rank(world);
    const int size = coll_comm_size(world);
    int down = (int)sqrt(size);
    while (size % down != 0) {
        down--;
    }
    const int across = size / down;
    const int i = rank / across;
    const int j = rank % across;
    const int peers[SIDES] = {i > 0 ? rank - across : -1, i < down - 1 ? rank + across : -1,
                              j > 0 ? rank - 1 : -1, j < across - 1 ? rank + 1 : -1};
    block b;
    coll_status status = COLL_OK;
    make(&b, i, down, j, across);
    for (int at = 0; at < SIDES && status == COLL_OK; at++) {
        status = peers[at] >= 0 ? join(world, &b, at, peers[at], error) : COLL_OK;
    }
    for (int k = 0; k < STEPS && status == COLL_OK; k++) {
        status = step(&b, error);
    }
    int64_t different = status == COLL_OK ? compare(&b) : 0;
    if (status == COLL_OK) {
        status = coll_all_reduce(world, &different, &different, 1, COLL_INT64, COLL_SUM, error);
    }
    if (status == COLL_OK) {
        printf("%d x %d blocks, %d steps: %d cells differ from those of one process\n", down,
               across, STEPS, (int)different);
    }
    destroy(&b);
    return status;
}

int main(void)
{
    coll_error error;
    coll_launched *launched = NULL;
    if (coll_launched_open(&launched, &error) != COLL_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    if (heat(launched, &error) != COLL_OK) {
        coll_launched_fail(launched, &error);
    }
    return coll_launched_close(launched, &error) == COLL_OK ? 0 : 1;
}
