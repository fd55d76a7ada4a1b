/* libcoll in a program that an MPI's mpirun or Slurm starts, without any MPI library: the all-gather
 * with which the ranks find each other goes through PMI-1, the lines of text by which MPICH, Intel
 * MPI and Slurm talk to what they start. A request and its answer are one line each.
 *
 *   cc sum_pmi.c $(pkg-config --cflags --libs libcoll) -o sum_pmi
 *   mpirun -n 4 ./sum_pmi
 *   srun -n 4 --mpi=pmi2 ./sum_pmi
 *
 * Between hosts it takes the network between them as an argument: ./sum_pmi 10.0.0.0/8 */
#define _POSIX_C_SOURCE 200809L /* fdopen, also with -std=c11 */
#include <coll/coll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A value of PMI-1 has at most 1023 bytes. Ours are in hex. */
enum { LINE_BYTES = 2048, PIECE_BYTES = 400 };

typedef struct {
    FILE *requests; /* both are PMI_FD */
    FILE *answers;
    int rank;
    int world_size;
    int gathers;
    char store[256];
    char line[LINE_BYTES]; /* the last answer */
} pmi;

/* Sends a request, and reads the answer, which must begin with "cmd=NAME ". */
static int ask(pmi *p, const char *name, const char *request)
{
    char begin[64];
    snprintf(begin, sizeof begin, "cmd=%s", name);
    return fputs(request, p->requests) >= 0 && fflush(p->requests) == 0 &&
           fgets(p->line, sizeof p->line, p->answers) != NULL &&
           strncmp(p->line, begin, strlen(begin)) == 0 && strstr(p->line, "rc=-") == NULL;
}

/* What follows NAME= in the answer. */
static int field(const pmi *p, const char *name, char *value, size_t size_bytes)
{
    const char *at = strstr(p->line, name);
    size_t length = 0;
    if (at == NULL) {
        return 0;
    }
    at += strlen(name);
    length = strcspn(at, " \n");
    if (length >= size_bytes) {
        return 0;
    }
    memcpy(value, at, length);
    value[length] = '\0';
    return 1;
}

static int put(pmi *p, size_t piece, const unsigned char *bytes, size_t count)
{
    char request[LINE_BYTES];
    int used =
        snprintf(request, sizeof request, "cmd=put kvsname=%s key=coll-%d-%d-%zu value=", p->store,
                 p->gathers, p->rank, piece);
    for (size_t i = 0; i < count; i++) {
        used += snprintf(request + used, sizeof request - (size_t)used, "%02x", bytes[i]);
    }
    snprintf(request + used, sizeof request - (size_t)used, "\n");
    return ask(p, "put_result", request);
}

static int get(pmi *p, int rank, size_t piece, unsigned char *bytes, size_t count)
{
    char request[LINE_BYTES];
    char hex[2 * PIECE_BYTES + 1];
    snprintf(request, sizeof request, "cmd=get kvsname=%s key=coll-%d-%d-%zu\n", p->store,
             p->gathers, rank, piece);
    if (!ask(p, "get_result", request) || !field(p, "value=", hex, sizeof hex) ||
        strlen(hex) != 2 * count) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const char digits[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return 1;
}

static size_t piece_bytes(size_t size_bytes, size_t at)
{
    return size_bytes - at < PIECE_BYTES ? size_bytes - at : PIECE_BYTES;
}

/* Ignores the deadline, which a barrier of PMI-1 has none of. */
static coll_status gather(void *user, const void *mine, void *all, size_t size_bytes,
                          int64_t deadline_ns, coll_error *reterr)
{
    pmi *p = user;
    int ok = 1;
    (void)deadline_ns;
    for (size_t at = 0; ok && at < size_bytes; at += PIECE_BYTES) {
        ok = put(p, at, (const unsigned char *)mine + at, piece_bytes(size_bytes, at));
    }
    ok = ok && ask(p, "barrier_out", "cmd=barrier_in\n");
    for (int rank = 0; ok && rank < p->world_size; rank++) {
        unsigned char *theirs = (unsigned char *)all + (size_t)rank * size_bytes;
        for (size_t at = 0; ok && at < size_bytes; at += PIECE_BYTES) {
            ok = get(p, rank, at, theirs + at, piece_bytes(size_bytes, at));
        }
    }
    p->gathers++;
    if (!ok && reterr != NULL) {
        *reterr = (coll_error){.status = COLL_ERR_PEER, .message = "the engine breaks off PMI-1"};
    }
    return ok ? COLL_OK : COLL_ERR_PEER;
}

static int open_pmi(pmi *p)
{
    const char *fd = getenv("PMI_FD");
    const char *rank = getenv("PMI_RANK");
    const char *size = getenv("PMI_SIZE");
    if (fd == NULL || rank == NULL || size == NULL) {
        fprintf(stderr, "sum_pmi: neither mpirun of MPICH nor srun --mpi=pmi2 has started this\n");
        return 0;
    }
    p->rank = (int)strtol(rank, NULL, 10);
    p->world_size = (int)strtol(size, NULL, 10);
    p->answers = fdopen((int)strtol(fd, NULL, 10), "r");
    p->requests = p->answers != NULL ? fdopen(dup(fileno(p->answers)), "w") : NULL;
    return p->requests != NULL &&
           ask(p, "response_to_init", "cmd=init pmi_version=1 pmi_subversion=1\n") &&
           ask(p, "my_kvsname", "cmd=get_my_kvsname\n") &&
           field(p, "kvsname=", p->store, sizeof p->store);
}

static coll_status add_up(coll_context *context, coll_error *error)
{
    coll_comm *world = coll_context_world(context);
    double sum = 0;
    const double mine = coll_comm_rank(world) + 1;
    const coll_status status =
        coll_all_reduce(world, &mine, &sum, 1, COLL_FLOAT64, COLL_SUM, error);
    if (status == COLL_OK) {
        printf("1 + … + %d = %g\n", coll_comm_size(world), sum);
    }
    return status;
}

int main(int argc, char **argv)
{
    static pmi engine;
    coll_context *context = NULL;
    coll_error error = {.message = ""};
    if (!open_pmi(&engine)) {
        return 1;
    }
    const coll_context_options options = {.size = sizeof(coll_context_options),
                                          .rank = engine.rank,
                                          .world_size = engine.world_size,
                                          .interface = argc > 1 ? argv[1] : NULL,
                                          .exchange = gather,
                                          .exchange_user = &engine};
    coll_status status = coll_context_create(&options, &context, &error);
    if (status == COLL_OK) {
        status = add_up(context, &error);
    }
    coll_context_destroy(context);
    if (status != COLL_OK) {
        fprintf(stderr, "rank %d: %s\n", engine.rank, error.message);
        return 1; /* without a finalize, the engine ends the others */
    }
    return ask(&engine, "finalize_ack", "cmd=finalize\n") ? 0 : 1;
}
