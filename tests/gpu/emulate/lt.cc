// The emulator's cublasLt: matrices column by column, as its documentation has them. A sum goes from
// the end of the depth to its start, so that it has other bits than our own products. TF32 rounds
// operands to ten bits behind the point. Called by product.c.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cstring>

#include "emulate/control.h"

struct cublasLtContext {
    int unused;
};

struct cublasLtMatmulDescOpaque {
    cublasOperation_t op_a, op_b;
    bool tf32;
};

struct cublasLtMatrixLayoutOpaque {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t leading;
};

struct cublasLtMatmulPreferenceOpaque {
    uint64_t workspace_bytes;
    uint32_t schemes;
    uint32_t aligned[4] = {256, 256, 256, 256}; // A, B, C, D
};

namespace
{

template <typename T> cublasStatus_t make(T **object)
{
    *object = new T();
    emulate_counted.objects++;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> cublasStatus_t destroy(T *object)
{
    emulate_counted.objects--;
    delete object;
    return CUBLAS_STATUS_SUCCESS;
}

uint64_t op_rows(cublasOperation_t op, cublasLtMatrixLayout_t of)
{
    return op == CUBLAS_OP_N ? of->rows : of->columns;
}

uint64_t op_columns(cublasOperation_t op, cublasLtMatrixLayout_t of)
{
    return op == CUBLAS_OP_N ? of->columns : of->rows;
}

bool is_sound(cublasLtMatrixLayout_t layout)
{
    return layout->leading >= (int64_t)layout->rows;
}

bool fit(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
         cublasLtMatrixLayout_t c)
{
    const bool typed = a->type == b->type && (c->type == a->type || c->type == CUDA_R_32F) &&
                       !(desc->tf32 && a->type != CUDA_R_32F);
    return typed && is_sound(a) && is_sound(b) && is_sound(c) &&
           op_rows(desc->op_a, a) == c->rows && op_columns(desc->op_b, b) == c->columns &&
           op_columns(desc->op_a, a) == op_rows(desc->op_b, b);
}

float load(const void *at, cudaDataType_t type, uint64_t index)
{
    return type == CUDA_R_16BF ? __bfloat162float(static_cast<const __nv_bfloat16 *>(at)[index])
                               : static_cast<const float *>(at)[index];
}

void store(void *at, cudaDataType_t type, uint64_t index, float value)
{
    if (type == CUDA_R_16BF) {
        static_cast<__nv_bfloat16 *>(at)[index] = __float2bfloat16_rn(value);
    } else {
        static_cast<float *>(at)[index] = value;
    }
}

// To nearest, ties away from zero, as PTX's cvt.rna does.
float round_to_tf32(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u) {
        bits = (bits + 0x1000u) & ~0x1fffu;
    }
    std::memcpy(&value, &bits, sizeof bits);
    return value;
}

float element(const void *at, cublasOperation_t op, const cublasLtMatrixLayoutOpaque &of,
              uint64_t row, uint64_t column)
{
    return load(at, of.type,
                op == CUBLAS_OP_N ? column * (uint64_t)of.leading + row
                                  : row * (uint64_t)of.leading + column);
}

struct operands {
    cublasLtMatmulDescOpaque desc;
    cublasLtMatrixLayoutOpaque a, b, c;
    const void *a_at, *b_at;
    void *c_at;
    float alpha, beta;
};

void multiply(const operands &x)
{
    const uint64_t depth = x.desc.op_a == CUBLAS_OP_N ? x.a.columns : x.a.rows;
    for (uint64_t column = 0; column < x.c.columns; column++) {
        for (uint64_t row = 0; row < x.c.rows; row++) {
            float sum = 0.0f;
            for (uint64_t k = depth; k-- > 0;) {
                const float a = element(x.a_at, x.desc.op_a, x.a, row, k);
                const float b = element(x.b_at, x.desc.op_b, x.b, k, column);
                sum += x.desc.tf32 ? round_to_tf32(a) * round_to_tf32(b) : a * b;
            }
            const uint64_t c = column * (uint64_t)x.c.leading + row;
            const float old = x.beta != 0.0f ? x.beta * load(x.c_at, x.c.type, c) : 0.0f;
            store(x.c_at, x.c.type, c, x.alpha * sum + old);
        }
    }
}

} // namespace

extern "C" {

size_t cublasLtGetVersion(void)
{
    return 0;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    return make(handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroy(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if ((compute != CUBLAS_COMPUTE_32F && !tf32) || scale != CUDA_R_32F) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const cublasStatus_t status = make(desc);
    (*desc)->tf32 = tf32;
    return status;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroy(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size_bytes)
{
    cublasOperation_t *op = attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &desc->op_a : &desc->op_b;
    if (size_bytes != sizeof *op) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    std::memcpy(op, value, sizeof *op);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t leading)
{
    const cublasStatus_t status = make(layout);
    **layout = {type, rows, columns, leading};
    return status;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    return make(preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size_bytes)
{
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
        size_bytes == sizeof preference->workspace_bytes) {
        std::memcpy(&preference->workspace_bytes, value, size_bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
        size_bytes == sizeof preference->schemes) {
        std::memcpy(&preference->schemes, value, size_bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
        attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && size_bytes == sizeof(uint32_t)) {
        std::memcpy(&preference->aligned[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                    value, size_bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    *count = 0;
    if (handle == nullptr || d->leading != c->leading || wanted < 1 || !fit(desc, a, b, c) ||
        (preference->schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    emulate_counted.choices++;
    results[0] = {};
    results[0].algo.data[0] = 1;
    for (int i = 0; i < 4; i++) {
        results[0].algo.data[1 + i] = preference->aligned[i];
    }
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

// The emulator has one algorithm, 1, which is neither tiled nor split.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t size_bytes,
                                                    size_t *written_bytes)
{
    const int32_t found =
        attribute == CUBLASLT_ALGO_CONFIG_ID ? static_cast<int32_t>(algorithm->data[0]) : 0;
    if (attribute == CUBLASLT_ALGO_CONFIG_STAGES_ID || size_bytes != sizeof found) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    std::memcpy(value, &found, sizeof found);
    *written_bytes = sizeof found;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    if (handle == nullptr || algorithm->data[0] != 1 || c != d || c_layout != d_layout ||
        workspace == nullptr || workspace_bytes == 0 || !fit(desc, a_layout, b_layout, c_layout)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const void *const addresses[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        if (reinterpret_cast<uintptr_t>(addresses[i]) % algorithm->data[1 + i] != 0) {
            return CUBLAS_STATUS_INVALID_VALUE; // on a GPU: a misaligned address, later
        }
    }
    const operands x = {*desc,
                        *a_layout,
                        *b_layout,
                        *c_layout,
                        a,
                        b,
                        d,
                        *static_cast<const float *>(alpha),
                        *static_cast<const float *>(beta)};
    emulate_counted.products++;
    return emulate_run_on(stream, [x] { multiply(x); }) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // extern "C"
