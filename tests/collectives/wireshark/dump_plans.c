/* Prints names, and what every rank sends by every plan, for dissector.sh to compare with what the Lua of
 * collectives/wireshark says of the same. Run by ctest. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"
#include "common/kinds.h"
#include "plan/plan.h"

enum { SENDS_MAX = 1024 };

typedef struct sent {
    int order;
    coll_step step;
} sent;

static int compare(const void *left, const void *right)
{
    const sent *a = left;
    const sent *b = right;
    if (a->step.peer != b->step.peer) {
        return a->step.peer - b->step.peer;
    }
    return a->step.channel != b->step.channel ? a->step.channel - b->step.channel
                                              : a->order - b->order;
}

/* A line for the case, and one for each send, sorted by their streams. */
static void dump(const coll_plan *plan)
{
    static sent sends[SENDS_MAX];
    int count = 0;
    const int tracks = coll_plan_track_count(plan);
    for (int track = 0; track < tracks; track++) {
        coll_step step;
        for (int i = 0; coll_plan_step(plan, track, i, &step) && count < SENDS_MAX; i++) {
            if (step.action == COLL_ACTION_SEND) {
                sends[count] = (sent){.order = count, .step = step};
                count++;
            }
        }
    }
    qsort(sends, (size_t)count, sizeof sends[0], compare);
    printf("plan %d %d %d %d %d %d %s\n", (int)plan->kind, (int)plan->algorithm, plan->ranks,
           plan->rank, plan->root, coll_plan_block_count(plan),
           coll_plan_is_canonical(plan) ? "canonical" : "own");
    for (int i = 0; i < count; i++) {
        const coll_step *step = &sends[i].step;
        printf("send %d %d %d %d\n", step->peer, step->channel, step->block, step->block_count);
    }
}

static void dump_all(coll_algorithm algorithm, coll_kind kind, int ranks)
{
    const int roots = coll_kind_has_root(kind) ? ranks : 1;
    const bool is_known = coll_plan_form(algorithm, kind) != COLL_FORM_TWO_LEVEL;
    for (int root = 0; is_known && root < roots; root++) {
        for (int rank = 0; rank < ranks; rank++) {
            dump(&(coll_plan){
                .algorithm = algorithm, .kind = kind, .ranks = ranks, .rank = rank, .root = root});
        }
    }
}

static void dump_names(void)
{
    for (int kind = 1; kind <= (int)COLL_KIND_LAST; kind++) {
        printf("name kinds %d %s\n", kind, coll_kind_name((coll_kind)kind));
    }
    for (int type = 1; type <= (int)COLL_TYPE_LAST; type++) {
        printf("name types %d %s\n", type, coll_type_name((coll_type)type));
        printf("name type_bytes %d %zu\n", type, coll_type_size_bytes((coll_type)type));
    }
    for (int reduce = 1; reduce <= (int)COLL_REDUCE_OP_LAST; reduce++) {
        printf("name reductions %d %s\n", reduce, coll_reduce_op_name((coll_reduce_op)reduce));
    }
    for (int algorithm = 0; algorithm <= (int)COLL_ALGORITHM_LAST; algorithm++) {
        printf("name algorithms %d %s\n", algorithm,
               coll_algorithm_name((coll_algorithm)algorithm));
    }
    for (int auth = 0; auth <= (int)COLL_TCP_AUTH_OFF; auth++) {
        printf("name auths %d %s\n", auth, coll_tcp_auth_name((coll_tcp_auth)auth));
    }
    for (int status = 0; status >= (int)COLL_ERR_NOTFOUND; status--) {
        printf("name statuses %d %s\n", status, coll_status_name((coll_status)status));
    }
}

int main(void)
{
    static const int ranks[] = {2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 21};
    dump_names();
    for (int algorithm = 1; algorithm <= (int)COLL_ALGORITHM_LAST; algorithm++) {
        for (int kind = 1; kind <= (int)COLL_KIND_LAST; kind++) {
            for (size_t i = 0;
                 coll_kind_has_plans((coll_kind)kind) && i < sizeof ranks / sizeof ranks[0]; i++) {
                dump_all((coll_algorithm)algorithm, (coll_kind)kind, ranks[i]);
            }
        }
    }
    return 0;
}
