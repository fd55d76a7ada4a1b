/* Device memory for the host: copies through pinned staging, and digests of it. Called through
 * cuda.c's table. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/queue.h"
#include "base/bytes.h"
#include "base/status.h"

/* Calls with each piece of device memory, which lies in pinned memory for the time of the call. */
typedef void (*use_piece)(void *user, const void *piece, size_t offset, size_t size_bytes);

static bool read_pieces(rank_queue *queue, const void *device, size_t size_bytes, use_piece use,
                        void *user)
{
    for (size_t done = 0; done < size_bytes; done += CUDA_STAGING_BYTES) {
        const size_t piece = base_min_size(size_bytes - done, CUDA_STAGING_BYTES);
        if (!cuda_check(queue,
                        cudaMemcpyAsync(queue->staging, (const char *)device + done, piece,
                                        cudaMemcpyDefault, queue->stream),
                        "copying to the host") ||
            !cuda_await(queue)) {
            return false;
        }
        use(user, queue->staging, done, piece);
    }
    return true;
}

static void write_pieces(rank_queue *queue, void *device, const void *host, size_t size_bytes)
{
    for (size_t done = 0; done < size_bytes; done += CUDA_STAGING_BYTES) {
        const size_t piece = base_min_size(size_bytes - done, CUDA_STAGING_BYTES);
        memcpy(queue->staging, (const char *)host + done, piece);
        if (!cuda_check(queue,
                        cudaMemcpyAsync((char *)device + done, queue->staging, piece,
                                        cudaMemcpyDefault, queue->stream),
                        "copying to the device") ||
            !cuda_await(queue)) {
            return;
        }
    }
}

static void keep_piece(void *user, const void *piece, size_t offset, size_t size_bytes)
{
    memcpy((char *)user + offset, piece, size_bytes);
}

static base_status fill(rank_queue *queue, cuda_mapping *made, base_error *reterr)
{
    const cuda_block *block = cuda_find_block(queue, made->device);
    if (block != NULL && block->host) {
        made->host = made->device;
        return cuda_sync(queue, reterr);
    }
    made->copied = true;
    made->host = malloc(made->size_bytes > 0 ? made->size_bytes : 1);
    if (made->host == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to map %zu bytes", made->size_bytes);
    }
    const base_status status = cuda_sync(queue, reterr);
    if (status == BASE_OK &&
        !read_pieces(queue, made->device, made->size_bytes, keep_piece, made->host)) {
        return cuda_sync(queue, reterr);
    }
    return status;
}

base_status cuda_map(rank_queue *queue, void *memory, size_t size_bytes, bool write, void **host,
                     base_error *reterr)
{
    *host = NULL;
    cuda_mapping *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a mapping");
    }
    made->device = memory;
    made->size_bytes = size_bytes;
    made->write = write;
    const base_status status = fill(queue, made, reterr);
    if (status != BASE_OK) {
        free(made->copied ? made->host : NULL);
        free(made);
        return status;
    }
    made->next = queue->mappings;
    queue->mappings = made;
    *host = made->host;
    return BASE_OK;
}

void cuda_unmap(rank_queue *queue, void *host)
{
    for (cuda_mapping **at = &queue->mappings; *at != NULL; at = &(*at)->next) {
        cuda_mapping *found = *at;
        if (found->host != host) {
            continue;
        }
        *at = found->next;
        if (found->copied) {
            if (found->write && queue->failed == BASE_OK) {
                write_pieces(queue, found->device, host, found->size_bytes);
            }
            free(host);
        }
        free(found);
        return;
    }
}

static void hash_piece(void *user, const void *piece, size_t offset, size_t size_bytes)
{
    (void)offset;
    (void)crypto_generichash_update(user, piece, size_bytes);
}

/* BLAKE2b is one chain over the bytes, which a processor runs faster than a GPU. */
void cuda_digest(rank_queue *queue, const rank_digest *args)
{
    crypto_generichash_state state;
    if (queue->failed == BASE_OK && queue->capturing != NULL) {
        cuda_fail(queue, BASE_ERR_STATE, "a digest cannot be captured");
    }
    if (queue->failed != BASE_OK) {
        return;
    }
    (void)crypto_generichash_init(&state, NULL, 0, RANK_DIGEST_BYTES);
    if (read_pieces(queue, args->at, args->size_bytes, hash_piece, &state)) {
        (void)crypto_generichash_final(&state, args->digest, RANK_DIGEST_BYTES);
    }
}
