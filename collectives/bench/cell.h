/* One thing to measure: a collective of one size, type and operation, out of place or in place, on
 * this rank. Knows where input and output lie, dirties and checks them, and does it once. */
#ifndef COLL_BENCH_CELL_H
#define COLL_BENCH_CELL_H

#include "bench.h"
#include "bench/on_device.h"
#include "data.h"

typedef struct bench_cell {
    coll_comm *comm;
    const bench_data *data;
    coll_op_desc desc;    /* sendrecv: the send */
    coll_op_desc receive; /* sendrecv only */
    bench_layout layout;
    size_t counts[FORKED_RANKS_MAX]; /* of bench_cell_vary */
    size_t element_bytes;
    bool sends; /* this rank has an input, and an output */
    bool receives;
    bool checkable;
    void *input; /* in host memory: where it is made, and checked */
    void *output;
    const bench_device *device; /* NULL: on CPUs; else desc has addresses of the device's */
    coll_op *op;
} bench_cell;

typedef struct bench_buffers {
    uint8_t *send;
    uint8_t *recv;
    uint8_t *device_send; /* with a device: as long, and the same places in them */
    uint8_t *device_recv;
    size_t each_bytes;
} bench_buffers;

/* send and recv: room for the layout's counts each. row: type, reduce and root are read. */
bench_cell bench_cell_make(coll_comm *comm, coll_kind kind, const bench_row *row,
                           const bench_data *data, bool in_place, const bench_buffers *buffers);

/* Makes it the variable form, with the counts that it has. The cell must stay where it is. */
void bench_cell_vary(bench_cell *cell);

/* Moves a cell to the device, and makes its operation there. Collective. Closed by the caller, also
 * after a failure. */
COLL_MUST_CHECK coll_status bench_cell_open(bench_cell *cell, const bench_device *device,
                                            const bench_buffers *buffers, coll_error *reterr);
void bench_cell_close(bench_cell *cell);

/* Writes the input anew, and rubbish where output is to come. */
COLL_MUST_CHECK coll_status bench_cell_dirty(const bench_cell *cell, coll_error *reterr);

/* Makes the input from the last output: the same values, at a time when the output must be there.
 * Only where bench_cell_chains. Nothing on a device, where operations follow each other anyway. */
void bench_cell_chain(const bench_cell *cell);
bool bench_cell_chains(const bench_cell *cell);

/* Does it once. On a device: starts it; bench_cell_wait waits for all that was started. */
COLL_MUST_CHECK coll_status bench_cell_run(const bench_cell *cell, coll_error *reterr);
COLL_MUST_CHECK coll_status bench_cell_wait(const bench_cell *cell, coll_error *reterr);

/* Brings the device's output to where it is checked. */
COLL_MUST_CHECK coll_status bench_cell_fetch(const bench_cell *cell, coll_error *reterr);

/* Flips a bit of the output: for tests of the check. */
void bench_cell_spoil(const bench_cell *cell);

/* Elements of the output that are not what they must be; 0 on ranks that have none. */
size_t bench_cell_wrong(const bench_cell *cell);

#endif
