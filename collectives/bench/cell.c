/* One cell of coll-bench: allocates the buffers of a collective at one size, runs it, and checks
 * the result. Made by rank.c, timed by measure.c. */
#include "cell.h"

#include <string.h>

#include "common/kinds.h"

enum { RUBBISH = 0xa5 };

/* What the compiler cannot know to be 0. */
static volatile uint64_t nothing;

/* The buffers that lie inside the other one where the operation is in place. */
static void place_in(bench_cell *cell, uint8_t **send, uint8_t **recv, int rank)
{
    const size_t own = (size_t)rank * cell->layout.count * cell->element_bytes;
    const bool at_root = cell->desc.root == rank;
    switch (cell->desc.kind) {
    case COLL_ALL_GATHER:
        *send = *recv + own;
        break;
    case COLL_REDUCE_SCATTER:
        *recv = *send + own;
        break;
    case COLL_GATHER:
        *send = at_root ? *recv + own : *send;
        break;
    case COLL_SCATTER:
        *recv = at_root ? *send + own : *recv;
        break;
    case COLL_REDUCE:
        *send = at_root ? *recv : *send;
        break;
    default:
        *send = *recv;
    }
}

bench_cell bench_cell_make(coll_comm *comm, coll_kind kind, const bench_row *row,
                           const bench_data *data, bool in_place, const bench_buffers *buffers)
{
    const int rank = coll_comm_rank(comm);
    const int ranks = coll_comm_size(comm);
    const bool at_root = row->root == rank;
    const size_t element_bytes = coll_type_size_bytes(row->type);
    uint8_t *from = buffers->send;
    uint8_t *to = buffers->recv;
    bench_cell cell = {.comm = comm,
                       .data = data,
                       .desc = {.size = sizeof(coll_op_desc),
                                .kind = kind,
                                .type = row->type,
                                .reduce = row->reduce,
                                .root = row->root < 0 ? 0 : row->root},
                       .layout = bench_layout_make(kind, ranks, row->size_bytes, element_bytes),
                       .element_bytes = element_bytes,
                       .sends = (kind != COLL_BROADCAST && kind != COLL_SCATTER) || at_root,
                       .receives = kind == COLL_BROADCAST                       ? !at_root
                                   : kind == COLL_REDUCE || kind == COLL_GATHER ? at_root
                                                                                : true,
                       .checkable = kind != COLL_SEND || !in_place};
    if (in_place) {
        place_in(&cell, &from, &to, rank);
    }
    cell.desc.count = cell.layout.count;
    cell.desc.send = cell.sends ? from : NULL;
    cell.desc.recv = cell.receives || (kind == COLL_BROADCAST && in_place) ? to : NULL;
    if (kind == COLL_SEND) {
        cell.receive = cell.desc;
        cell.receive.kind = COLL_RECEIVE;
        cell.receive.send = NULL;
        cell.receive.root = (rank + ranks - 1) % ranks;
        cell.desc.root = (rank + 1) % ranks;
        cell.desc.recv = NULL;
    }
    cell.input = (void *)cell.desc.send;
    cell.output = kind == COLL_SEND ? cell.receive.recv : cell.desc.recv;
    return cell;
}

void bench_cell_vary(bench_cell *cell)
{
    for (int r = 0; r < coll_comm_size(cell->comm); r++) {
        cell->counts[r] = cell->layout.count;
    }
    cell->desc.counts = cell->counts;
    cell->desc.recv_counts = cell->desc.kind == COLL_ALL_TO_ALL ? cell->counts : NULL;
}

/* The device's address for one of the host's. */
static void *moved(const bench_buffers *buffers, const void *host)
{
    const uint8_t *at = host;
    if (at == NULL) {
        return NULL;
    }
    const bool in_send = at >= buffers->send && at < buffers->send + buffers->each_bytes;
    return in_send ? buffers->device_send + (at - buffers->send)
                   : buffers->device_recv + (at - buffers->recv);
}

coll_status bench_cell_open(bench_cell *cell, const bench_device *device,
                            const bench_buffers *buffers, coll_error *reterr)
{
    if (device == NULL) {
        return COLL_OK;
    }
    cell->device = device;
    cell->desc.send = moved(buffers, cell->input);
    cell->desc.recv = moved(buffers, cell->output);
    cell->desc.stream = device->stream;
    return coll_op_create(cell->comm, &cell->desc, &cell->op, reterr);
}

void bench_cell_close(bench_cell *cell)
{
    coll_op_destroy(cell->op);
    cell->op = NULL;
}

static coll_status copy(const bench_cell *cell, void *to, const void *from, size_t count,
                        coll_error *reterr)
{
    return count == 0 ? COLL_OK
                      : cell->device->copy(cell->device->user, to, from,
                                           count * cell->element_bytes, reterr);
}

coll_status bench_cell_dirty(const bench_cell *cell, coll_error *reterr)
{
    coll_status status = COLL_OK;
    if (cell->receives && cell->output != cell->input) {
        memset(cell->output, RUBBISH, cell->layout.recv_count * cell->element_bytes);
    }
    if (cell->sends) {
        bench_data_fill(cell->data, coll_comm_rank(cell->comm), 0, cell->layout.send_count,
                        cell->input);
    }
    if (cell->device != NULL && cell->receives) {
        status = copy(cell, cell->desc.recv, cell->output, cell->layout.recv_count, reterr);
    }
    if (status == COLL_OK && cell->device != NULL && cell->sends) {
        status = copy(cell, (void *)cell->desc.send, cell->input, cell->layout.send_count, reterr);
    }
    return status;
}

coll_status bench_cell_fetch(const bench_cell *cell, coll_error *reterr)
{
    return cell->device != NULL && cell->receives
               ? copy(cell, cell->output, cell->desc.recv, cell->layout.recv_count, reterr)
               : COLL_OK;
}

bool bench_cell_chains(const bench_cell *cell)
{
    return (cell->layout.size_bytes <= BENCH_LOOP_BYTES_MAX || cell->device != NULL) &&
           cell->layout.count > 0 &&
           (cell->desc.kind == COLL_ALL_REDUCE || cell->desc.kind == COLL_ALL_GATHER ||
            cell->desc.kind == COLL_REDUCE_SCATTER || cell->desc.kind == COLL_ALL_TO_ALL ||
            coll_kind_is_scan(cell->desc.kind));
}

void bench_cell_chain(const bench_cell *cell)
{
    const uint8_t *output = cell->output;
    uint8_t *input = cell->input;
    const size_t output_bytes = cell->layout.recv_count * cell->element_bytes;
    const size_t input_bytes = cell->layout.send_count * cell->element_bytes;
    uint8_t values[BENCH_LOOP_BYTES_MAX + sizeof(uint64_t)] = {0};
    uint64_t seen = 0;
    if (cell->device != NULL) {
        return;
    }
    for (size_t at = 0; at < output_bytes; at += sizeof seen) {
        uint64_t word = 0;
        memcpy(&word, output + at,
               output_bytes - at < sizeof word ? output_bytes - at : sizeof word);
        seen |= word;
    }
    seen &= nothing;
    bench_data_fill(cell->data, coll_comm_rank(cell->comm), 0, cell->layout.send_count, values);
    for (size_t at = 0; at < input_bytes; at += sizeof seen) {
        uint64_t word = 0;
        memcpy(&word, values + at, sizeof word);
        word |= seen;
        memcpy(input + at, &word, input_bytes - at < sizeof word ? input_bytes - at : sizeof word);
    }
}

static coll_status send_and_receive(const bench_cell *cell, coll_error *reterr)
{
    coll_request *requests[2] = {NULL, NULL};
    coll_status status = coll_start(cell->comm, &cell->receive, &requests[0], reterr);
    if (status == COLL_OK) {
        status = coll_start(cell->comm, &cell->desc, &requests[1], reterr);
    }
    const coll_status waited =
        coll_request_wait_all(requests, 2, status == COLL_OK ? reterr : NULL);
    return status == COLL_OK ? waited : status;
}

coll_status bench_cell_run(const bench_cell *cell, coll_error *reterr)
{
    if (cell->device != NULL) {
        return coll_op_start(cell->op, reterr);
    }
    return cell->desc.kind == COLL_SEND ? send_and_receive(cell, reterr)
                                        : coll_run(cell->comm, &cell->desc, reterr);
}

coll_status bench_cell_wait(const bench_cell *cell, coll_error *reterr)
{
    return cell->device != NULL ? coll_op_wait(cell->op, reterr) : COLL_OK;
}

void bench_cell_spoil(const bench_cell *cell)
{
    uint8_t *output = cell->output;
    if (cell->receives && cell->layout.recv_count > 0) {
        output[cell->layout.recv_count * cell->element_bytes - 1] ^= 1U;
    }
}

size_t bench_cell_wrong(const bench_cell *cell)
{
    const int rank = coll_comm_rank(cell->comm);
    const size_t count = cell->layout.count;
    const size_t own = (size_t)rank * count;
    const uint8_t *output = cell->output;
    size_t wrong = 0;
    if (!cell->receives) {
        return 0;
    }
    switch (cell->desc.kind) {
    case COLL_ALL_REDUCE:
    case COLL_REDUCE:
    case COLL_SCAN:
    case COLL_EXSCAN:
        return bench_data_wrong(cell->data, BENCH_REDUCED, 0, count, output);
    case COLL_REDUCE_SCATTER:
        return bench_data_wrong(cell->data, BENCH_REDUCED, own, count, output);
    case COLL_BROADCAST:
        return bench_data_wrong(cell->data, cell->desc.root, 0, count, output);
    case COLL_SCATTER:
        return bench_data_wrong(cell->data, cell->desc.root, own, count, output);
    case COLL_SEND:
        return bench_data_wrong(cell->data, cell->receive.root, 0, count, output);
    default:
        for (int r = 0; r < coll_comm_size(cell->comm); r++) {
            wrong += bench_data_wrong(cell->data, r, cell->desc.kind == COLL_ALL_TO_ALL ? own : 0,
                                      count, output + (size_t)r * count * cell->element_bytes);
        }
        return wrong;
    }
}
