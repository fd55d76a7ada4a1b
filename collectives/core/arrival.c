/* Which peers have come to an operation, as their flags show. Called while it is moved on. */
#include "core/arrival.h"

#include <string.h>

#include "core/inline.h"
#include "core/report.h"

bool coll_op_sees(coll_op *op, int peer)
{
    const coll_flag *flag = &op->comm->peers[peer].flags[op->sequence % COLL_FLAG_COUNT];
    const uint64_t word = atomic_load(&flag->word);
    if (word != op->word && coll_flag_ahead(word, op->sequence) >= 0) {
        (void)coll_report_flag(op->comm, &op->descriptor, op->sequence, peer, flag, word);
    }
    if (word != op->word || !op->pairwise || peer == op->comm->rank) {
        return word == op->word;
    }
    coll_pair theirs;
    memcpy(&theirs, coll_payload(op->comm, peer, op->sequence), sizeof theirs);
    return coll_report_pair(op, peer, &theirs);
}

bool coll_op_all_arrived(coll_op *op, bool *moved)
{
    for (; op->arrived < op->comm->size; op->arrived++) {
        if (!coll_op_sees(op, op->arrived)) {
            return false;
        }
        *moved = true;
    }
    return true;
}

bool coll_op_needed_arrived(coll_op *op, bool *moved)
{
    if (coll_op_all_arrived(op, moved) || op->shape.take == COLL_TAKE_ALL) {
        return op->arrived == op->comm->size;
    }
    bool enough = true;
    for (int peer = op->arrived; peer < op->comm->size; peer++) {
        enough = (coll_op_sees(op, peer) || !coll_shape_awaits(op, peer)) && enough;
    }
    return enough && !op->comm->failed;
}
