/* Operations of the CPU backend that have no code for an instruction set of its own. Called through
 * cpu.c's table. */
#include <math.h>
#include <string.h>

#include "backend/cpu/queue.h"
#include "backend/turn.h"
#include "proto/digest.h"

_Static_assert((int)RANK_DIGEST_BYTES == (int)PROTO_DIGEST_BYTES, "one kind of digest");

/* In this order each row moves down or stays. */
void cpu_gather_rows(rank_queue *queue, const rank_move_rows *args)
{
    const size_t width = args->width;
    for (size_t i = 0; i < args->count; i++) {
        memmove(args->at + i * width, args->at + (size_t)args->rows[i] * width,
                width * sizeof *args->at);
    }
    queue_book(queue, RANK_PART_OTHER);
}

/* From the last row on, so that each moves up or stays. */
void cpu_spread_rows(rank_queue *queue, const rank_move_rows *args)
{
    const size_t width = args->width;
    float *at = args->at;
    size_t end = args->total;
    for (size_t i = args->count; i-- > 0;) {
        const size_t to = (size_t)args->rows[i];
        memset(at + (to + 1) * width, 0, (end - to - 1) * width * sizeof *at);
        memmove(at + to * width, at + i * width, width * sizeof *at);
        end = to;
    }
    memset(at, 0, end * width * sizeof *at);
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_add_bias(rank_queue *queue, const rank_add_bias *args)
{
    for (size_t row = 0; row < args->rows; row++) {
        float *at = args->at + row * args->at_row;
        for (int part = 0; part < RANK_BIAS_PARTS; part++) {
            const float *bias = args->bias[part];
            const size_t columns = args->columns[part];
            for (size_t i = 0; i < columns; i++) {
                at[i] = at[i] + bias[i];
            }
            at += columns;
        }
    }
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_rope_table(rank_queue *queue, const rank_rope_table *args)
{
    for (size_t row = 0; row < args->rows; row++) {
        float *cosines = args->table + row * 2 * args->pairs;
        for (size_t i = 0; i < args->pairs; i++) {
            const float angle = (float)args->positions[row] * args->frequency[i];
            const rank_turn turn = rank_turn_by((double)angle);
            cosines[i] = (float)turn.cosine * args->scale;
            cosines[args->pairs + i] = (float)turn.sine * args->scale;
        }
    }
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_rope(rank_queue *queue, const rank_rope *args)
{
    const size_t pairs = args->pairs;
    for (size_t row = 0; row < args->rows; row++) {
        const float *cosines = args->table + row * 2 * pairs;
        const float *sines = cosines + pairs;
        for (size_t head = 0; head < args->heads; head++) {
            float *first = args->at + row * args->at_row + head * args->head_width;
            float *second = first + pairs;
            for (size_t i = 0; i < pairs; i++) {
                const float x = first[i];
                const float y = second[i];
                const float sine = args->back ? -sines[i] : sines[i];
                first[i] = x * cosines[i] - y * sine;
                second[i] = y * cosines[i] + x * sine;
            }
        }
    }
    queue_book(queue, RANK_PART_OTHER);
}

/* Values first, and heads from the last on: what is overwritten is no longer needed. */
void cpu_copy_heads(rank_queue *queue, const rank_shared_heads *args)
{
    const size_t width = args->head_width;
    const size_t shared = args->heads / args->kv_heads;
    for (size_t row = 0; row < args->rows; row++) {
        float *keys = args->at + (3 * row + 1) * args->heads * width;
        float *values = keys + args->kv_heads * width;
        for (size_t head = args->heads; head-- > 0;) {
            memcpy(keys + (args->heads + head) * width, values + head / shared * width,
                   width * sizeof *keys);
        }
        for (size_t head = args->heads; head-- > 1;) { /* the first is in its place */
            memcpy(keys + head * width, keys + head / shared * width, width * sizeof *keys);
        }
    }
    queue_book(queue, RANK_PART_OTHER);
}

/* The sums of heads `from`, which may begin at `to`. */
static void sum_shared(const rank_shared_heads *args, const float *from, float *to)
{
    const size_t width = args->head_width;
    const size_t shared = args->heads / args->kv_heads;
    for (size_t head = 0; head < args->kv_heads; head++) {
        for (size_t i = 0; i < width; i++) {
            float sum = from[head * shared * width + i];
            for (size_t j = 1; j < shared; j++) {
                sum = sum + from[(head * shared + j) * width + i];
            }
            to[head * width + i] = sum;
        }
    }
}

void cpu_sum_heads(rank_queue *queue, const rank_shared_heads *args)
{
    const size_t queries = args->heads * args->head_width;
    for (size_t row = 0; row < args->rows; row++) {
        float *keys = args->at + (3 * row + 1) * queries;
        sum_shared(args, keys, keys);
        sum_shared(args, keys + queries, keys + args->kv_heads * args->head_width);
    }
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_sum_squares(rank_queue *queue, const rank_sum_squares *args)
{
    const rank_kernels *kernels = queue->kernels;
    int32_t largest = 0;
    rank_squares sum = {0};
    kernels->largest(&(rank_largest){args->values, args->count, &largest});
    kernels->add_squares(&(rank_add_squares){args->values, args->count, &largest, &sum});
    *args->sum = rank_squares_value(&sum, largest);
    queue_book(queue, RANK_PART_OPTIMIZER);
}

void cpu_grad_scale(rank_queue *queue, const rank_grad_scale *args)
{
    const double tokens = *args->tokens;
    const double norm = sqrt(*args->sum_squares) / tokens;
    const double clip = args->norm_max / (norm + 1e-6);
    *args->norm = norm;
    *args->scale = (float)(args->norm_max > 0.0 && clip < 1.0 ? clip / tokens : 1.0 / tokens);
    queue_book(queue, RANK_PART_OPTIMIZER);
}

void cpu_column_sums(rank_queue *queue, const rank_column_sums *args)
{
    for (size_t i = 0; i < args->rows; i++) {
        const float *row = args->from + i * rank_sums_row(args);
        for (size_t j = 0; j < args->columns; j++) {
            args->sums[j] = args->sums[j] + row[j];
        }
    }
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_add(rank_queue *queue, const rank_add *args)
{
    const float *from = args->from;
    float *to = args->to;
    for (size_t i = 0; i < args->count; i++) {
        to[i] = to[i] + from[i];
    }
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_scale(rank_queue *queue, const rank_scale *args)
{
    for (size_t i = 0; i < args->count; i++) {
        args->at[i] *= args->factor;
    }
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_measure_loads(rank_queue *queue, const rank_measure_loads *args)
{
    const rank_routing *routing = args->routing;
    for (size_t e = 0; e < args->experts; e++) {
        double scores = 0.0;
        for (size_t row = 0; row < args->rows; row++) {
            scores += (double)routing->scores[row * args->experts + e];
        }
        args->loads[e] =
            (rank_load){.rows = routing->begins[e + 1] - routing->begins[e], .scores = scores};
    }
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_router_loss(rank_queue *queue, const rank_router_loss *args)
{
    const double rows = (double)args->rows;
    const double experts = (double)args->experts;
    double sum = 0.0;
    for (size_t e = 0; e < args->experts; e++) {
        rank_load all = {.rows = 0.0};
        for (size_t layer = 0; layer < args->layers; layer++) {
            all.rows += args->loads[layer * args->experts + e].rows;
            all.scores += args->loads[layer * args->experts + e].scores;
        }
        sum += all.rows / rows * (all.scores / rows);
        args->dscores[e] =
            (float)(args->factor * (double)args->targets * experts * (all.rows / rows) / rows);
    }
    *args->loss = (double)args->targets * experts * sum;
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_digest(rank_queue *queue, const rank_digest *args)
{
    proto_blake2b256(args->at, args->size_bytes, args->digest);
    queue_book(queue, RANK_PART_OTHER);
}

void cpu_difference(rank_queue *queue, const rank_difference *args)
{
    double largest = 0.0;
    const bool equal = memcmp(args->a, args->b, args->count * sizeof *args->a) == 0;
    for (size_t i = 0; !equal && i < args->count; i++) {
        const double difference = fabs((double)args->a[i] - (double)args->b[i]);
        largest = difference > largest || isnan(difference) ? difference : largest;
    }
    *args->equal = equal;
    *args->largest = largest;
    queue_book(queue, RANK_PART_OTHER);
}
