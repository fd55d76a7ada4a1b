/* Looks NCCL's functions up and calls them. Called by all_reduce.c and several.c. */
#include "nccl_calls.h"

#include <dlfcn.h>

enum { FLOAT32 = 7, SUM = 0 }; /* as in nccl.h */

base_status measure_nccl_find(measure_nccl *nccl, void *handle, base_error *reterr)
{
    *nccl = (measure_nccl){.comm = NULL};
    *(void **)&nccl->get_id = dlsym(handle, "ncclGetUniqueId"); /* as POSIX has it */
    *(void **)&nccl->init = dlsym(handle, "ncclCommInitRank");
    *(void **)&nccl->all_reduce = dlsym(handle, "ncclAllReduce");
    *(void **)&nccl->destroy = dlsym(handle, "ncclCommDestroy");
    return nccl->get_id != NULL && nccl->init != NULL && nccl->all_reduce != NULL &&
                   nccl->destroy != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED, "the plugin shows no NCCL");
}

base_status measure_nccl_make_id(const measure_nccl *nccl, measure_nccl_id *id, base_error *reterr)
{
    return nccl->get_id(id) == 0 ? BASE_OK
                                 : base_fail(reterr, BASE_ERR_IO, "ncclGetUniqueId failed");
}

base_status measure_nccl_begin(measure_nccl *nccl, int ranks, const measure_nccl_id *id, int rank,
                               base_error *reterr)
{
    return nccl->init(&nccl->comm, ranks, *id, rank) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_IO, "NCCL does not begin");
}

base_status measure_nccl_all_reduce(const measure_nccl *nccl, const float *send, float *recv,
                                    size_t count, void *stream, base_error *reterr)
{
    return nccl->all_reduce(send, recv, count, FLOAT32, SUM, nccl->comm, stream) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_IO, "ncclAllReduce failed");
}

void measure_nccl_end(measure_nccl *nccl)
{
    if (nccl->comm != NULL) {
        (void)nccl->destroy(nccl->comm);
        nccl->comm = NULL;
    }
}
