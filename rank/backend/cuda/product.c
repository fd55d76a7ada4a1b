/* Matrix products. Called through cuda.c's table.
 *
 * Who computes a product:
 *   - the backend `cuda-exact`: our own kernel, always. Its bits are the CPU's.
 *   - the backends `cuda` and `cuda-tf32`: cublasLt, but our kernel where b is packed, because
 *     cublasLt has no panels; and a kernel of its own for a few rows times a matrix
 *     (columns, depth), as in decoding. Leaves make no difference to either.
 *
 * cublasLt's algorithm is the first that its heuristic names for the shape. It is never chosen by
 * timing, so one card with one version of the library has one algorithm for one shape. Splits of
 * the depth that add up in the output are excluded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/kernels/kernels.h"
#include "backend/cuda/queue.h"
#include "base/status.h"

/* cublasLt assumes that much where it is not told. */
enum { ALIGNMENT_MAX = 256 };

static base_status explain_lt(cublasStatus_t found, const char *what, base_error *reterr)
{
    return base_fail(reterr, found == CUBLAS_STATUS_ALLOC_FAILED ? BASE_ERR_MEMORY : BASE_ERR_IO,
                     "cublasLt: %s: status %d", what, (int)found);
}

base_status cuda_lt_open(rank_queue *queue, base_error *reterr)
{
    queue->plans = calloc(CUDA_LT_PLANS, sizeof *queue->plans);
    if (queue->plans == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for plans of products");
    }
    const cudaError_t error = cudaMalloc(&queue->lt_workspace, CUDA_LT_WORKSPACE_BYTES);
    if (error != cudaSuccess) {
        queue->lt_workspace = NULL;
        return cuda_explain(error, "allocating cublasLt's workspace", reterr);
    }
    cuda_count_memory(RANK_MEMORY_QUEUES, CUDA_LT_WORKSPACE_BYTES);
    const cublasStatus_t found = cublasLtCreate(&queue->lt);
    return found == CUBLAS_STATUS_SUCCESS ? BASE_OK : explain_lt(found, "opening it", reterr);
}

static void plan_free(cuda_lt_plan *plan)
{
    if (plan->desc != NULL) {
        (void)cublasLtMatmulDescDestroy(plan->desc);
    }
    const cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->c};
    for (int i = 0; i < 3; i++) {
        if (layouts[i] != NULL) {
            (void)cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
    *plan = (cuda_lt_plan){.desc = NULL};
}

void cuda_lt_close(rank_queue *queue)
{
    for (size_t i = 0; i < queue->plan_count; i++) {
        plan_free(&queue->plans[i]);
    }
    if (queue->lt != NULL) {
        (void)cublasLtDestroy(queue->lt);
    }
    if (queue->lt_workspace != NULL) {
        cuda_count_memory(RANK_MEMORY_QUEUES, -(int64_t)CUDA_LT_WORKSPACE_BYTES);
    }
    (void)cudaFree(queue->lt_workspace);
    free(queue->plans);
}

static bool same_shape(const rank_product *a, const rank_product *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->depth == b->depth &&
           a->a_row == b->a_row && a->a_depth == b->a_depth && a->b_row == b->b_row &&
           a->b_transposed == b->b_transposed && a->c_row == b->c_row &&
           a->accumulate == b->accumulate && a->a_type == b->a_type && a->b_type == b->b_type &&
           a->c_type == b->c_type;
}

static cudaDataType_t type_of(rank_type type)
{
    return type == RANK_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* cublasLt's matrices are column by column. Row-major c = a·b is then cᵀ = bᵀ·aᵀ: its A is our b,
 * its B our a, and a matrix that we call transposed is one that it does not. */
static cublasStatus_t describe(cuda_lt_plan *plan, cublasComputeType_t compute)
{
    const rank_product *shape = &plan->shape;
    const bool a_transposed = shape->a_depth != 1;
    const cublasOperation_t op_a = shape->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint64_t rows = shape->rows;
    const uint64_t columns = shape->columns;
    const uint64_t depth = shape->depth;
    cublasStatus_t found = cublasLtMatmulDescCreate(&plan->desc, compute, CUDA_R_32F);
    if (found == CUBLAS_STATUS_SUCCESS) {
        found = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a,
                                               sizeof op_a);
    }
    if (found == CUBLAS_STATUS_SUCCESS) {
        found = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b,
                                               sizeof op_b);
    }
    if (found == CUBLAS_STATUS_SUCCESS) {
        found = cublasLtMatrixLayoutCreate(
            &plan->a, type_of(shape->b_type), shape->b_transposed ? depth : columns,
            shape->b_transposed ? columns : depth, (int64_t)shape->b_row);
    }
    if (found == CUBLAS_STATUS_SUCCESS) {
        found = cublasLtMatrixLayoutCreate(&plan->b, type_of(shape->a_type),
                                           a_transposed ? rows : depth, a_transposed ? depth : rows,
                                           (int64_t)(a_transposed ? shape->a_depth : shape->a_row));
    }
    if (found == CUBLAS_STATUS_SUCCESS) {
        found = cublasLtMatrixLayoutCreate(&plan->c, type_of(shape->c_type), columns, rows,
                                           (int64_t)shape->c_row);
    }
    return found;
}

/* Bytes: what all three addresses are multiples of. */
static uint32_t alignment_of(const rank_product *args)
{
    const uintptr_t all =
        (uintptr_t)args->a | (uintptr_t)args->b | (uintptr_t)args->c | (uintptr_t)ALIGNMENT_MAX;
    return (uint32_t)(all & -all);
}

static cublasStatus_t limit(cublasLtMatmulPreference_t preference, uint32_t alignment)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const size_t workspace_bytes = CUDA_LT_WORKSPACE_BYTES;
    const uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasStatus_t found =
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof workspace_bytes);
    for (size_t i = 0; found == CUBLAS_STATUS_SUCCESS && i < 4; i++) {
        found = cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &alignment,
                                                     sizeof alignment);
    }
    return found == CUBLAS_STATUS_SUCCESS
               ? cublasLtMatmulPreferenceSetAttribute(preference,
                                                      CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &schemes, sizeof schemes)
               : found;
}

static cublasStatus_t choose(rank_queue *queue, cuda_lt_plan *plan)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result;
    int count = 0;
    cublasStatus_t found = cublasLtMatmulPreferenceCreate(&preference);
    if (found == CUBLAS_STATUS_SUCCESS) {
        found = limit(preference, plan->alignment);
    }
    if (found == CUBLAS_STATUS_SUCCESS) {
        found = cublasLtMatmulAlgoGetHeuristic(queue->lt, plan->desc, plan->a, plan->b, plan->c,
                                               plan->c, preference, 1, &result, &count);
    }
    if (found == CUBLAS_STATUS_SUCCESS && count < 1) {
        found = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (found == CUBLAS_STATUS_SUCCESS) {
        plan->algorithm = result.algo;
    }
    if (preference != NULL) {
        (void)cublasLtMatmulPreferenceDestroy(preference);
    }
    return found;
}

/* The types of a product, as the record has them: those of a and b, and c's if it is another. */
static const char *name_types(const rank_queue *queue, const rank_product *shape)
{
    if (shape->a_type == RANK_BFLOAT16) {
        return shape->c_type == RANK_BFLOAT16 ? " bfloat16" : " bfloat16 to float32";
    }
    return queue->tf32 ? " tf32" : "";
}

/* Whether the last line, which begins at `line`, stands among those before it. */
static bool was_noted(const char *lines, const char *line)
{
    const char *at = strstr(lines, line);
    while (at != lines && at[-1] != '\n') { /* the end of a longer one */
        at = strstr(at + 1, line);
    }
    return at < line;
}

/* Notes which algorithm the shape has: for the record. A number that cublasLt does not give is -1. */
static void note(rank_queue *queue, const cuda_lt_plan *plan)
{
    static const cublasLtMatmulAlgoConfigAttributes_t asked[] = {
        CUBLASLT_ALGO_CONFIG_ID, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_STAGES_ID,
        CUBLASLT_ALGO_CONFIG_SPLITK_NUM};
    int32_t found[] = {-1, -1, -1, -1};
    const rank_product *shape = &plan->shape;
    const size_t room = sizeof queue->products - queue->products_bytes;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        size_t written = 0;
        if (cublasLtMatmulAlgoConfigGetAttribute(&plan->algorithm, asked[i], &found[i],
                                                 sizeof found[i],
                                                 &written) != CUBLAS_STATUS_SUCCESS) {
            found[i] = -1;
        }
    }
    char *line = queue->products + queue->products_bytes;
    const int length =
        snprintf(line, room,
                 "%zu x %zu x %zu %c%c%s%s, aligned to %u: algorithm %d, tile %d, "
                 "stages %d, split %d\n",
                 shape->rows, shape->columns, shape->depth, shape->a_depth != 1 ? 't' : 'n',
                 shape->b_transposed ? 't' : 'n', shape->accumulate ? " added" : "",
                 name_types(queue, shape), plan->alignment, found[0], found[1], found[2], found[3]);
    const bool whole = length > 0 && (size_t)length < room;
    if (whole && !was_noted(queue->products, line)) {
        queue->products_bytes += (size_t)length;
    }
    queue->products[queue->products_bytes] = '\0';
}

/* Room for a plan: when the table is full, the oldest one's. A plan of zeros is no shape's. */
static cuda_lt_plan *take_place(rank_queue *queue)
{
    if (queue->plan_count < CUDA_LT_PLANS) {
        return &queue->plans[queue->plan_count++];
    }
    cuda_lt_plan *plan = &queue->plans[queue->plan_oldest++ % CUDA_LT_PLANS];
    plan_free(plan);
    return plan;
}

/* The shape's plan, made at its first use. NULL after an error. Batches of other lengths have other
 * shapes. */
static const cuda_lt_plan *find_plan(rank_queue *queue, const rank_product *args)
{
    const uint32_t alignment = alignment_of(args);
    for (size_t i = 0; i < queue->plan_count; i++) {
        if (same_shape(&queue->plans[i].shape, args) && queue->plans[i].alignment == alignment) {
            return &queue->plans[i];
        }
    }
    cuda_lt_plan *plan = take_place(queue);
    *plan = (cuda_lt_plan){.shape = *args, .alignment = alignment};
    cublasStatus_t found =
        describe(plan, queue->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
    if (found == CUBLAS_STATUS_SUCCESS) {
        found = choose(queue, plan);
    }
    if (found != CUBLAS_STATUS_SUCCESS) {
        plan_free(plan);
        queue->failed = explain_lt(found, "choosing an algorithm", &queue->error);
        return NULL;
    }
    note(queue, plan);
    return plan;
}

static void multiply_lt(rank_queue *queue, const rank_product *args)
{
    const float one = 1.0f;
    const float beta = args->accumulate ? 1.0f : 0.0f;
    const cuda_lt_plan *plan = find_plan(queue, args);
    if (plan == NULL) {
        return;
    }
    const cublasStatus_t found =
        cublasLtMatmul(queue->lt, plan->desc, &one, args->b, plan->a, args->a, plan->b, &beta,
                       args->c, plan->c, args->c, plan->c, &plan->algorithm, queue->lt_workspace,
                       CUDA_LT_WORKSPACE_BYTES, queue->stream);
    if (found != CUBLAS_STATUS_SUCCESS) {
        queue->failed = explain_lt(found, "product", &queue->error);
    } else {
        cuda_pace_keep(queue);
    }
}

static bool is_float32(const rank_product *args)
{
    return args->a_type == RANK_FLOAT32 && args->b_type == RANK_FLOAT32 &&
           args->c_type == RANK_FLOAT32;
}

/* The time of such a product is that of reading b, which the kernel does once. */
static bool is_few_rows(const rank_product *args)
{
    return args->rows <= CUDA_FEW_ROWS && args->b_transposed && args->a_depth == 1 &&
           !args->accumulate && args->a_type == RANK_FLOAT32 && args->c_type == RANK_FLOAT32;
}

/* Many rows in float32, with weights in bfloat16: cublasLt wants both in one type. */
static void round_rows(rank_queue *queue, const rank_product *args, rank_product *rounded)
{
    *rounded = *args;
    if (args->a_type != RANK_FLOAT32 || !args->b_transposed || args->accumulate ||
        args->scratch == NULL || args->a_row != args->depth || args->a_depth != 1) {
        cuda_fail(queue, BASE_ERR_UNSUPPORTED, "product: two types in a way that is not made");
        return;
    }
    cuda_cast(queue, &(rank_cast){args->rows * args->depth, args->a, args->scratch});
    rounded->a = args->scratch;
    rounded->a_type = RANK_BFLOAT16;
}

static bool is_for_lt(const rank_queue *queue, const rank_product *args)
{
    const bool has_types = args->a_type == RANK_FLOAT32 || !queue->tf32;
    return queue->lt != NULL && args->b_row > 0 && args->depth > 0 && has_types;
}

void cuda_product(rank_queue *queue, const rank_product *args)
{
    if (queue->failed != BASE_OK || args->rows == 0 || args->columns == 0) {
        return;
    }
    const bool fast = is_for_lt(queue, args);
    if (fast && is_few_rows(args)) {
        cuda_launch_few_rows(args, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "product of few rows");
        return; /* GELU is made on the way */
    }
    if (fast && args->a_type != args->b_type) {
        rank_product rounded;
        round_rows(queue, args, &rounded);
        if (queue->failed == BASE_OK) {
            multiply_lt(queue, &rounded);
        }
    } else if (fast) {
        multiply_lt(queue, args);
    } else if (!is_float32(args)) {
        cuda_fail(queue, BASE_ERR_UNSUPPORTED, "product: bfloat16 is for cublasLt's products");
    } else {
        cuda_launch_product(args, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "product");
    }
    if (args->gelu_bias != NULL) {
        cuda_fast_gelu(queue, &(rank_gelu){.rows = args->rows,
                                           .width = args->columns,
                                           .bias = args->gelu_bias,
                                           .x = args->c,
                                           .out = args->c});
    }
}
