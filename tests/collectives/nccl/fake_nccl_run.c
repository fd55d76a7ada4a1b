/* What a group of calls to the fake NCCL does on its stream. Enqueued by fake_nccl.c. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fake_nccl.h"

/* How many parts of `count` elements a call gives on this rank. */
static int parts_given(const fake_call *call, int rank, int size)
{
    switch (call->kind) {
    case FAKE_CALL_REDUCE_SCATTER:
    case FAKE_CALL_ALL_TO_ALL:
        return size;
    case FAKE_CALL_SEND:
    case FAKE_CALL_RECEIVE:
        return 0;
    case FAKE_CALL_BROADCAST:
        return rank == call->peer ? 1 : 0;
    default:
        return 1;
    }
}

static void reduce(const fake_world *world, int size, int index, size_t offset, uint8_t *to)
{
    const fake_call *first = &world->lists[0]->calls[index];
    const size_t bytes = first->count * first->element_bytes;
    uint8_t *sum = malloc(bytes);
    BASE_ASSERT(sum != NULL &&
                (size == 1 || first->op == ncclSum)); /* of one rank all are the same */
    memcpy(sum, first->sent + offset, bytes);
    for (int rank = 1; rank < size; rank++) {
        fake_add_up(sum, world->lists[rank]->calls[index].sent + offset, first->count, first->type);
    }
    memcpy(to, sum, bytes);
    free(sum);
}

static void do_call(const fake_world *world, int rank, int size, int index)
{
    const fake_call *call = &world->lists[rank]->calls[index];
    const size_t bytes = call->count * call->element_bytes;
    switch (call->kind) {
    case FAKE_CALL_ALL_REDUCE:
        reduce(world, size, index, 0, call->recv);
        break;
    case FAKE_CALL_REDUCE:
        if (rank == call->peer) {
            reduce(world, size, index, 0, call->recv);
        }
        break;
    case FAKE_CALL_REDUCE_SCATTER:
        reduce(world, size, index, (size_t)rank * bytes, call->recv);
        break;
    case FAKE_CALL_BROADCAST:
        memcpy(call->recv, world->lists[call->peer]->calls[index].sent, bytes);
        break;
    case FAKE_CALL_ALL_GATHER:
        for (int r = 0; r < size; r++) {
            memcpy(call->recv + (size_t)r * bytes, world->lists[r]->calls[index].sent, bytes);
        }
        break;
    case FAKE_CALL_ALL_TO_ALL:
        for (int r = 0; r < size; r++) {
            memcpy(call->recv + (size_t)r * bytes,
                   world->lists[r]->calls[index].sent + (size_t)rank * bytes, bytes);
        }
        break;
    case FAKE_CALL_RECEIVE:
    case FAKE_CALL_SEND:
        break;
    }
}

/* What each rank gives is copied first: buffers may be in place. */
static void do_all(fake_world *world, int size)
{
    for (int pass = 0; pass < 3; pass++) {
        for (int rank = 0; rank < size; rank++) {
            for (int i = 0; i < world->lists[rank]->count; i++) {
                fake_call *call = &world->lists[rank]->calls[i];
                call->sent_bytes =
                    (size_t)parts_given(call, rank, size) * call->count * call->element_bytes;
                if (pass == 0) {
                    call->sent = malloc(call->sent_bytes + 1);
                    BASE_ASSERT(call->sent != NULL);
                    if (call->sent_bytes > 0) {
                        memcpy(call->sent, call->send, call->sent_bytes);
                    }
                } else if (pass == 1) {
                    do_call(world, rank, size, i);
                } else {
                    free(call->sent);
                }
            }
        }
    }
}

/* NCCL has no order between a group's sends and receives, so none may write what another reads. What a
 * rank sends to itself NCCL copies by itself. */
static void check_apart(const fake_call *send, const fake_call_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const fake_call *receive = &list->calls[i];
        const size_t sent = send->count * send->element_bytes;
        const size_t received = receive->count * receive->element_bytes;
        const uint8_t *from = send->send;
        const uint8_t *to = receive->recv;
        BASE_ASSERT(receive->kind != FAKE_CALL_RECEIVE || from + sent <= to ||
                    to + received <= from ||
                    (send->peer == list->comm->rank && receive->peer == list->comm->rank));
    }
}

/* Sends go at once, as far as the sender can tell. */
static void post_sends(const fake_call_list *list)
{
    const struct fake_nccl_comm *comm = list->comm;
    for (int i = 0; i < list->count; i++) {
        const fake_call *call = &list->calls[i];
        const size_t bytes = call->count * call->element_bytes;
        if (call->kind != FAKE_CALL_SEND) {
            continue;
        }
        check_apart(call, list);
        fake_letter *letter = malloc(sizeof *letter + bytes);
        BASE_ASSERT(letter != NULL);
        letter->next = NULL;
        memcpy(letter->bytes, call->send, bytes);
        fake_letter **end = &comm->world->mail[comm->rank][call->peer];
        while (*end != NULL) {
            end = &(*end)->next;
        }
        *end = letter;
    }
    (void)pthread_cond_broadcast(&comm->world->changed);
}

static void await_receives(const fake_call_list *list)
{
    const struct fake_nccl_comm *comm = list->comm;
    fake_world *world = comm->world;
    for (int i = 0; i < list->count; i++) {
        const fake_call *call = &list->calls[i];
        if (call->kind != FAKE_CALL_RECEIVE) {
            continue;
        }
        fake_letter **first = &world->mail[call->peer][comm->rank];
        while (*first == NULL && !atomic_load(&comm->aborted)) {
            (void)pthread_cond_wait(&world->changed, &world->lock);
        }
        fake_letter *letter = *first;
        if (letter != NULL) {
            memcpy(call->recv, letter->bytes, call->count * call->element_bytes);
            *first = letter->next;
            free(letter);
        }
    }
}

static bool has_collectives(const fake_call_list *list)
{
    bool has = false;
    for (int i = 0; i < list->count; i++) {
        has = has ||
              (list->calls[i].kind != FAKE_CALL_SEND && list->calls[i].kind != FAKE_CALL_RECEIVE);
    }
    return has;
}

static void meet(fake_call_list *list)
{
    const struct fake_nccl_comm *comm = list->comm;
    fake_world *world = comm->world;
    const unsigned round = world->round;
    world->lists[comm->rank] = list;
    if (++world->arrived == comm->size && !world->broken) {
        do_all(world, comm->size);
        world->arrived = 0;
        world->round++;
        (void)pthread_cond_broadcast(&world->changed);
    }
    while (world->round == round && !atomic_load(&comm->aborted)) {
        (void)pthread_cond_wait(&world->changed, &world->lock);
    }
}

/* A rank that has neither of the two in a group takes no part in it. */
void fake_nccl_run_group(void *argument)
{
    fake_call_list *list = argument;
    const struct fake_nccl_comm *comm = list->comm;
    fake_world *world = comm->world;
    (void)pthread_mutex_lock(&world->lock);
    while (list->hangs && !atomic_load(&comm->aborted)) {
        (void)pthread_cond_wait(&world->changed, &world->lock);
    }
    if (!atomic_load(&comm->aborted)) {
        post_sends(list);
        if (has_collectives(list)) {
            meet(list);
        }
        await_receives(list);
    }
    (void)pthread_mutex_unlock(&world->lock);
}
