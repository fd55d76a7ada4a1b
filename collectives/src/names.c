#include "names.h"

#include <string.h>

static const char *const algorithm_names[] = {"auto", "ring", "tree", "direct"};
static const char *const transport_names[] = {"auto", "shm", "zmq"};
static const char *const type_names[] = {"?", "float32", "float64", "int32", "int64", "uint8"};
static const char *const reduce_names[] = {"?", "sum", "min", "max"};
static const size_t type_sizes[] = {0, 4, 8, 4, 8, 1};

#define NAME_OF(names, value)                                                                      \
    ((value) < 0 || (size_t)(value) >= sizeof(names) / sizeof(names)[0] ? "?" : (names)[value])

const char *coll_type_name(int type)
{
    return NAME_OF(type_names, type);
}

const char *coll_reduce_name(int reduce)
{
    return NAME_OF(reduce_names, reduce);
}

const char *coll_algorithm_name(coll_algorithm algorithm)
{
    return NAME_OF(algorithm_names, (int)algorithm);
}

const char *coll_transport_name(coll_transport transport)
{
    return NAME_OF(transport_names, (int)transport);
}

size_t coll_type_size_bytes(coll_type type)
{
    return type < COLL_FLOAT32 || type > COLL_UINT8 ? 0 : type_sizes[type];
}

base_status coll_algorithm_parse(const char *name, coll_algorithm *algorithm, base_error *reterr)
{
    for (int i = COLL_ALGORITHM_AUTO; i <= COLL_ALGORITHM_DIRECT; i++) {
        if (strcmp(name, algorithm_names[i]) == 0) {
            *algorithm = (coll_algorithm)i;
            return BASE_OK;
        }
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "unknown algorithm '%.64s' (known: auto, ring, tree, direct)", name);
}

base_status coll_transport_parse(const char *name, coll_transport *transport, base_error *reterr)
{
    for (int i = COLL_TRANSPORT_AUTO; i <= COLL_TRANSPORT_ZMQ; i++) {
        if (strcmp(name, transport_names[i]) == 0) {
            *transport = (coll_transport)i;
            return BASE_OK;
        }
    }
    return base_fail(reterr, BASE_ERR_INVALID, "unknown transport '%.64s' (known: auto, shm, zmq)",
                     name);
}
