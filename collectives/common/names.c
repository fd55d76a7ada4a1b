/* Names of kinds, types and so on, as on command lines and in messages. Collectives, types and
 * operations are spelled as in nccl-tests. Called by programs and by everything that writes
 * messages. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "coll/coll.h"
#include "ringfence/coll_error.h"

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])

static const char *const kind_names[] = {
    "?",      "all_reduce", "broadcast", "all_gather", "barrier", "reduce", "reduce_scatter",
    "gather", "scatter",    "alltoall",  "send",       "receive", "scan",   "exscan",
};
_Static_assert(LENGTH(kind_names) == COLL_KIND_LAST + 1, "a name for each kind");
static const char *const type_names[] = {"?",    "float",    "double", "int32",  "int64", "uint8",
                                         "half", "bfloat16", "int8",   "uint64", "uint32"};
static const size_t type_sizes[] = {0, 4, 8, 4, 8, 1, 2, 2, 1, 8, 4};
static const char *const reduce_names[] = {"?",   "sum", "min", "max", "prod",
                                           "avg", "and", "or",  "xor"};
_Static_assert(LENGTH(type_names) == COLL_TYPE_LAST + 1 && LENGTH(type_sizes) == COLL_TYPE_LAST + 1,
               "a name and a size for each type");
_Static_assert(LENGTH(reduce_names) == COLL_REDUCE_OP_LAST + 1, "a name for each reduction");
static const char *const algorithm_names[] = {"auto",
                                              "ring",
                                              "tree",
                                              "direct",
                                              "recursive_doubling",
                                              "halving_doubling",
                                              "two_level",
                                              [COLL_ALGORITHM_NATIVE] = "native"};
_Static_assert((int)COLL_ALGORITHM_LAST < (int)COLL_ALGORITHM_NATIVE,
               "those of the CPU end before");
_Static_assert((int)COLL_ALGORITHM_NATIVE <= UINT8_MAX, "flight.c keeps 8 bits");
static const char *const transport_names[] = {"auto", "shm", "zmq", "tcp"};
static const char *const auth_names[] = {"mac", "encrypt", "off"};

static const char *name_of(const char *const *names, size_t count, int value)
{
    return value < 0 || (size_t)value >= count || names[value] == NULL ? "?" : names[value];
}

/* The place of name in names; "?" is no name. */
static coll_status parse(const char *what, const char *name, const char *const *names, size_t count,
                         int *value, coll_error *reterr)
{
    char known[192] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (names[i] == NULL || names[i][0] == '?') {
            continue;
        }
        if (strcmp(name, names[i]) == 0) {
            *value = (int)i;
            return COLL_OK;
        }
        const int added =
            snprintf(known + used, sizeof known - used, "%s%s", used == 0 ? "" : ", ", names[i]);
        used += added > 0 && (size_t)added < sizeof known - used ? (size_t)added : 0;
    }
    return coll_fail(reterr, COLL_ERR_INVALID, "unknown %s '%.64s' (known: %s)", what, name, known);
}

const char *coll_kind_name(coll_kind kind)
{
    return name_of(kind_names, LENGTH(kind_names), (int)kind);
}

const char *coll_type_name(coll_type type)
{
    return name_of(type_names, LENGTH(type_names), (int)type);
}

const char *coll_reduce_op_name(coll_reduce_op op)
{
    return name_of(reduce_names, LENGTH(reduce_names), (int)op);
}

const char *coll_algorithm_name(coll_algorithm algorithm)
{
    return name_of(algorithm_names, LENGTH(algorithm_names), (int)algorithm);
}

const char *coll_transport_name(coll_transport transport)
{
    return name_of(transport_names, LENGTH(transport_names), (int)transport);
}

const char *coll_tcp_auth_name(coll_tcp_auth auth)
{
    return name_of(auth_names, LENGTH(auth_names), (int)auth);
}

size_t coll_type_size_bytes(coll_type type)
{
    return type < COLL_FLOAT32 || (size_t)type >= LENGTH(type_sizes) ? 0 : type_sizes[type];
}

/* A parser of one enum. */
#define PARSE(type, what, names)                                                                   \
    coll_status type##_parse(const char *name, type *found, coll_error *reterr)                    \
    {                                                                                              \
        int value = 0;                                                                             \
        const coll_status status = parse(what, name, names, LENGTH(names), &value, reterr);        \
        *found = status == COLL_OK ? (type)value : *found;                                         \
        return status;                                                                             \
    }

PARSE(coll_kind, "collective", kind_names)
PARSE(coll_type, "type", type_names)
PARSE(coll_reduce_op, "operation", reduce_names)
PARSE(coll_algorithm, "algorithm", algorithm_names)
PARSE(coll_transport, "transport", transport_names)
PARSE(coll_tcp_auth, "tcp authentication", auth_names)

const char *coll_status_name(coll_status status)
{
    return base_status_name((base_status)status);
}
