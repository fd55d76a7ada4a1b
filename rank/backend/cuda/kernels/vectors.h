/* Vectors of 16 bytes, as float32: of weights and of the cache, which decoding reads once in each
 * step. Included by kernels. */
#ifndef RANK_BACKEND_CUDA_KERNELS_VECTORS_H
#define RANK_BACKEND_CUDA_KERNELS_VECTORS_H

#include "element.h"

/* Elements that are read together. */
template <int COUNT> struct vector {
    float at[COUNT];
};

/* 16 bytes as they stand in memory: 4 floats, or 8 elements of bfloat16. */
__device__ inline vector<4> widen(uint4 all, const vector<4> *)
{
    return vector<4>{{__uint_as_float(all.x), __uint_as_float(all.y), __uint_as_float(all.z),
                      __uint_as_float(all.w)}};
}

__device__ inline vector<8> widen(uint4 all, const vector<8> *)
{
    return vector<8>{{__uint_as_float(all.x << 16), __uint_as_float(all.x & 0xffff0000u),
                      __uint_as_float(all.y << 16), __uint_as_float(all.y & 0xffff0000u),
                      __uint_as_float(all.z << 16), __uint_as_float(all.z & 0xffff0000u),
                      __uint_as_float(all.w << 16), __uint_as_float(all.w & 0xffff0000u)}};
}

template <typename ELEMENT> __device__ inline uint4 load_vector(const ELEMENT *from)
{
    return load_once(reinterpret_cast<const uint4 *>(from));
}

/* The second argument only says how many. */
template <typename ELEMENT, int COUNT>
__device__ inline vector<COUNT> bring_once(const ELEMENT *from, const vector<COUNT> *how_many)
{
    return widen(load_vector(from), how_many);
}

/* Of activations, which other warps read too. */
__device__ inline vector<4> bring(const float *from, const vector<4> *)
{
    const float4 all = *reinterpret_cast<const float4 *>(from);
    return vector<4>{{all.x, all.y, all.z, all.w}};
}

__device__ inline vector<8> bring(const float *from, const vector<8> *)
{
    const float4 low = reinterpret_cast<const float4 *>(from)[0];
    const float4 high = reinterpret_cast<const float4 *>(from)[1];
    return vector<8>{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

#endif
