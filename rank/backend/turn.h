/* Sine and cosine whose bits are the same on every machine, compiler and device: IEEE additions and
 * multiplications of doubles in a fixed order, no libm, no contraction. For backends' rope_table.
 *
 * x = n · π/2 + r with |r| <= π/4, with π/2 in two parts (those of fdlibm's e_rem_pio2.c): the upper
 * one has 33 bits, so that its product with n < 2^20 is exact. Then the series of both in r. The
 * error is below 1e-15 for |x| <= 2^20 (tests/rank/backend/cpu/test_kernels.c). */
#ifndef RANK_BACKEND_TURN_H
#define RANK_BACKEND_TURN_H

#ifdef __CUDACC__
#define RANK_TURN_INLINE __host__ __device__ static inline
#else
#define RANK_TURN_INLINE static inline
#endif

typedef struct rank_turn {
    double cosine;
    double sine;
} rank_turn;

/* 0 <= x <= 2^20 */
RANK_TURN_INLINE rank_turn rank_turn_by(double x)
{
    const double round_magic = 0x1.8p52; /* adding it rounds to an integer */
    const double n = (x * 0.63661977236758134308 + round_magic) - round_magic;
    const double r = (x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
    const double z = r * r;
    double sine = -1.0 / 1307674368000;
    sine = sine * z + 1.0 / 6227020800;
    sine = sine * z - 1.0 / 39916800;
    sine = sine * z + 1.0 / 362880;
    sine = sine * z - 1.0 / 5040;
    sine = sine * z + 1.0 / 120;
    sine = sine * z - 1.0 / 6;
    sine = sine * z * r + r;
    double cosine = 1.0 / 20922789888000;
    cosine = cosine * z - 1.0 / 87178291200;
    cosine = cosine * z + 1.0 / 479001600;
    cosine = cosine * z - 1.0 / 3628800;
    cosine = cosine * z + 1.0 / 40320;
    cosine = cosine * z - 1.0 / 720;
    cosine = cosine * z + 1.0 / 24;
    cosine = cosine * z - 0.5;
    cosine = cosine * z + 1.0;
    switch ((int)n % 4) { /* how many quarters of a turn */
    case 0:
        return (rank_turn){cosine, sine};
    case 1:
        return (rank_turn){-sine, cosine};
    case 2:
        return (rank_turn){-cosine, -sine};
    default:
        return (rank_turn){sine, -cosine};
    }
}

#endif
