/* Which calls of NCCL make up an operation. Called by nccl_op.c, inside a group of NCCL's. */
#include "nccl/nccl_core.h"

#pragma weak ncclAlltoAll /* since 2.28 */

static ncclDataType_t type_of(coll_type type)
{
    static const ncclDataType_t types[] = {
        [COLL_FLOAT32] = ncclFloat32, [COLL_FLOAT64] = ncclFloat64,   [COLL_INT32] = ncclInt32,
        [COLL_INT64] = ncclInt64,     [COLL_UINT8] = ncclUint8,       [COLL_FLOAT16] = ncclFloat16,
        [COLL_INT8] = ncclInt8,       [COLL_BFLOAT16] = ncclBfloat16, [COLL_UINT64] = ncclUint64,
        [COLL_UINT32] = ncclUint32,
    };
    return types[type];
}

static ncclRedOp_t reduce_of(coll_reduce_op reduce)
{
    static const ncclRedOp_t reduces[] = {
        [COLL_SUM] = ncclSum,      [COLL_MIN] = ncclMin,     [COLL_MAX] = ncclMax,
        [COLL_PRODUCT] = ncclProd, [COLL_AVERAGE] = ncclAvg,
    };
    return reduces[reduce];
}

bool coll_nccl_is_direct(const coll_nccl_op *op)
{
    /* one rank has nothing to add up, and the same bits either way */
    return op->desc.algorithm == COLL_ALGORITHM_DIRECT && op->comm->size > 1;
}

bool coll_nccl_is_staged(const coll_nccl_op *op)
{
    return op->desc.kind == COLL_ALL_TO_ALL && op->desc.send == op->desc.recv && op->comm->size > 1;
}

void coll_nccl_buffers(const coll_nccl_op *op, size_t *send_bytes, size_t *recv_bytes)
{
    const bool root = op->comm->rank == op->desc.root;
    const size_t part = op->desc.count * op->element_bytes;
    const size_t whole = part * (size_t)op->comm->size;
    *send_bytes = part;
    *recv_bytes = part;
    switch (op->desc.kind) {
    case COLL_BROADCAST:
        *send_bytes = root ? part : 0;
        *recv_bytes = root && op->desc.recv == NULL ? 0 : part;
        break;
    case COLL_ALL_GATHER:
        *recv_bytes = whole;
        break;
    case COLL_REDUCE:
        *recv_bytes = root ? part : 0;
        break;
    case COLL_REDUCE_SCATTER:
        *send_bytes = whole;
        break;
    case COLL_GATHER:
        *recv_bytes = root ? whole : 0;
        break;
    case COLL_SCATTER:
        *send_bytes = root ? whole : 0;
        break;
    case COLL_ALL_TO_ALL:
        *send_bytes = whole;
        *recv_bytes = whole;
        break;
    case COLL_BARRIER:
        *send_bytes = 0;
        *recv_bytes = 0;
        break;
    default: /* all-reduce */
        break;
    }
}

coll_nccl_piece coll_nccl_piece_of(const coll_nccl_op *op, int rank)
{
    const size_t ranks = (size_t)op->comm->size;
    const size_t index = (size_t)rank;
    if (op->desc.kind == COLL_REDUCE_SCATTER) {
        return (coll_nccl_piece){.offset = index * op->desc.count, .count = op->desc.count};
    }
    const size_t share = op->desc.count / ranks;
    const size_t longer = op->desc.count % ranks; /* the first have one element more */
    return (coll_nccl_piece){.offset = share * index + (index < longer ? index : longer),
                             .count = share + (index < longer ? 1 : 0)};
}

static const uint8_t *send_of(const coll_nccl_op *op)
{
    return op->warming ? op->warm_send : op->desc.send;
}

static uint8_t *recv_of(const coll_nccl_op *op)
{
    return op->warming ? op->warm_recv : op->desc.recv;
}

void *coll_nccl_combined(const coll_nccl_op *op)
{
    const coll_nccl_piece mine = coll_nccl_piece_of(op, op->comm->rank);
    if (op->desc.kind == COLL_REDUCE_SCATTER) {
        return recv_of(op);
    }
    if (op->desc.kind == COLL_REDUCE && op->comm->rank != op->desc.root) {
        return (uint8_t *)op->parts + (size_t)op->comm->size * mine.count * op->element_bytes;
    }
    return recv_of(op) + mine.offset * op->element_bytes;
}

/* The first error; "in progress" is none. */
static ncclResult_t worse(ncclResult_t a, ncclResult_t b)
{
    return a == ncclSuccess || a == ncclInProgress ? b : a;
}

static ncclResult_t send_to(const coll_nccl_op *op, const void *data, size_t count, int peer)
{
    return count == 0
               ? ncclSuccess
               : ncclSend(data, count, type_of(op->desc.type), peer, op->comm->comm, op->stream);
}

static ncclResult_t receive_from(const coll_nccl_op *op, void *data, size_t count, int peer)
{
    return count == 0
               ? ncclSuccess
               : ncclRecv(data, count, type_of(op->desc.type), peer, op->comm->comm, op->stream);
}

/* Rank r gets `from` + the offset of its piece, from everybody, one behind the other in `to`. */
static ncclResult_t spread_pieces(const coll_nccl_op *op, const uint8_t *from, uint8_t *to)
{
    const coll_nccl_comm *comm = op->comm;
    const coll_nccl_piece mine = coll_nccl_piece_of(op, comm->rank);
    const bool even =
        op->desc.kind == COLL_REDUCE_SCATTER || op->desc.count % (size_t)comm->size == 0;
    if (even && ncclAlltoAll != NULL) {
        return ncclAlltoAll(from, to, mine.count, type_of(op->desc.type), comm->comm, op->stream);
    }
    ncclResult_t result = ncclSuccess;
    for (int rank = 0; rank < comm->size; rank++) {
        const coll_nccl_piece theirs = coll_nccl_piece_of(op, rank);
        result = worse(result,
                       send_to(op, from + theirs.offset * op->element_bytes, theirs.count, rank));
        result = worse(result, receive_from(op, to + (size_t)rank * mine.count * op->element_bytes,
                                            mine.count, rank));
    }
    return result;
}

/* Every rank's combined piece to all, or to the root. */
static ncclResult_t gather_pieces(const coll_nccl_op *op)
{
    const coll_nccl_comm *comm = op->comm;
    const coll_nccl_piece mine = coll_nccl_piece_of(op, comm->rank);
    const bool all = op->desc.kind == COLL_ALL_REDUCE;
    uint8_t *recv = recv_of(op);
    void *own = coll_nccl_combined(op);
    ncclResult_t result = ncclSuccess;
    if (op->desc.kind == COLL_REDUCE_SCATTER) {
        return ncclSuccess;
    }
    if (all && op->desc.count % (size_t)comm->size == 0) {
        return ncclAllGather(own, recv, mine.count, type_of(op->desc.type), comm->comm, op->stream);
    }
    for (int rank = 0; rank < comm->size; rank++) {
        const coll_nccl_piece theirs = coll_nccl_piece_of(op, rank);
        if (rank != comm->rank && (all || rank == op->desc.root)) {
            result = worse(result, send_to(op, own, mine.count, rank));
        }
        if (rank != comm->rank && (all || comm->rank == op->desc.root)) {
            result = worse(result, receive_from(op, recv + theirs.offset * op->element_bytes,
                                                theirs.count, rank));
        }
    }
    return result;
}

/* all-to-all, gather and scatter: who gives, and who takes, `count` elements. */
static ncclResult_t exchange_parts(const coll_nccl_op *op)
{
    const coll_nccl_comm *comm = op->comm;
    const coll_kind kind = op->desc.kind;
    const bool root = comm->rank == op->desc.root;
    const size_t part_bytes = op->desc.count * op->element_bytes;
    const uint8_t *send = coll_nccl_is_staged(op) ? op->parts : send_of(op);
    ncclResult_t result = ncclSuccess;
    for (int rank = 0; rank < comm->size; rank++) {
        const bool gives = kind == COLL_ALL_TO_ALL || (kind == COLL_SCATTER && root) ||
                           (kind == COLL_GATHER && rank == op->desc.root);
        const bool takes = kind == COLL_ALL_TO_ALL || (kind == COLL_GATHER && root) ||
                           (kind == COLL_SCATTER && rank == op->desc.root);
        const size_t from = kind == COLL_GATHER ? 0 : (size_t)rank * part_bytes;
        const size_t to = kind == COLL_SCATTER ? 0 : (size_t)rank * part_bytes;
        if (gives) {
            result = worse(result, send_to(op, send + from, op->desc.count, rank));
        }
        if (takes) {
            result = worse(result, receive_from(op, recv_of(op) + to, op->desc.count, rank));
        }
    }
    return result;
}

static ncclResult_t call_native(const coll_nccl_op *op)
{
    const coll_op_desc *desc = &op->desc;
    const ncclComm_t comm = op->comm->comm;
    const ncclDataType_t type = type_of(desc->type);
    const void *send = send_of(op);
    void *recv = recv_of(op);
    switch (desc->kind) {
    case COLL_ALL_REDUCE:
        return ncclAllReduce(send, recv, desc->count, type, reduce_of(desc->reduce), comm,
                             op->stream);
    case COLL_REDUCE:
        return ncclReduce(send, recv, desc->count, type, reduce_of(desc->reduce), desc->root, comm,
                          op->stream);
    case COLL_REDUCE_SCATTER:
        return ncclReduceScatter(send, recv, desc->count, type, reduce_of(desc->reduce), comm,
                                 op->stream);
    case COLL_ALL_GATHER:
        return ncclAllGather(send, recv, desc->count, type, comm, op->stream);
    case COLL_BROADCAST: { /* its root may have no recv, and others no send */
        const bool root = op->comm->rank == desc->root;
        void *target = recv != NULL ? recv : (void *)(uintptr_t)send;
        return ncclBroadcast(root ? send : target, target, desc->count, type, desc->root, comm,
                             op->stream);
    }
    case COLL_BARRIER:
        return ncclAllReduce(&op->comm->notes.numbers->token, &op->comm->notes.numbers->token, 1,
                             ncclInt32, ncclSum, comm, op->stream);
    default:
        return exchange_parts(op);
    }
}

ncclResult_t coll_nccl_call(const coll_nccl_op *op, int phase)
{
    if (!coll_nccl_is_direct(op)) {
        return phase == 0 ? call_native(op) : ncclSuccess;
    }
    return phase == 0 ? spread_pieces(op, send_of(op), op->parts) : gather_pieces(op);
}
