/* What operators make of two values, as Python's. Called by eval.c and filters. */
#include <math.h>
#include <string.h>

#include "limits.h"
#include "run.h"
#include "write.h"

static const char *const SIGNS[] = {
    [JINJA_ADD] = "+",    [JINJA_SUBTRACT] = "-",      [JINJA_MULTIPLY] = "*",
    [JINJA_DIVIDE] = "/", [JINJA_FLOOR_DIVIDE] = "//", [JINJA_MODULO] = "%",
    [JINJA_POWER] = "**", [JINJA_JOIN] = "~"};

BASE_NORETURN static void too_great(jinja_run *run)
{
    jinja_fail(run->work, BASE_ERR_LIMIT, "an integer is too great");
}

static int64_t floor_divide(jinja_run *run, int64_t left, int64_t right)
{
    if (right == -1) {
        int64_t negated = 0;
        if (__builtin_sub_overflow((int64_t)0, left, &negated)) {
            too_great(run);
        }
        return negated;
    }
    const int64_t quotient = left / right;
    return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

static int64_t modulo(int64_t left, int64_t right)
{
    if (right == -1) {
        return 0;
    }
    const int64_t rest = left % right;
    return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

static int64_t power(jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (base == 0 || base == 1) {
        return exponent == 0 ? 1 : base;
    }
    if (base == -1) {
        return exponent % 2 == 0 ? 1 : -1;
    }
    for (; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(result, base, &result)) {
            too_great(run);
        }
    }
    return result;
}

static jinja_value operate_integers(jinja_run *run, jinja_operator op, int64_t left, int64_t right)
{
    int64_t result = 0;
    bool overflows = false;
    switch (op) {
    case JINJA_ADD:
        overflows = __builtin_add_overflow(left, right, &result);
        break;
    case JINJA_SUBTRACT:
        overflows = __builtin_sub_overflow(left, right, &result);
        break;
    case JINJA_MULTIPLY:
        overflows = __builtin_mul_overflow(left, right, &result);
        break;
    case JINJA_FLOOR_DIVIDE:
        result = floor_divide(run, left, right);
        break;
    case JINJA_MODULO:
        result = modulo(left, right);
        break;
    default:
        result = power(run, left, right);
        break;
    }
    if (overflows) {
        too_great(run);
    }
    return jinja_int(result);
}

static double real_modulo(double left, double right)
{
    const double rest = fmod(left, right);
    if (rest == 0) {
        return copysign(0.0, right);
    }
    return (rest < 0) != (right < 0) ? rest + right : rest;
}

static double real_floor_divide(double left, double right)
{
    const double quotient =
        (left - real_modulo(left, right)) / right; /* an integer, but for rounding */
    return quotient == 0 ? copysign(0.0, left / right) : floor(quotient + 0.5);
}

static jinja_value operate_reals(jinja_run *run, jinja_operator op, double left, double right)
{
    switch (op) {
    case JINJA_ADD:
        return jinja_real(left + right);
    case JINJA_SUBTRACT:
        return jinja_real(left - right);
    case JINJA_MULTIPLY:
        return jinja_real(left * right);
    case JINJA_DIVIDE:
        return jinja_real(left / right);
    case JINJA_MODULO:
        return jinja_real(real_modulo(left, right));
    case JINJA_FLOOR_DIVIDE:
        return jinja_real(real_floor_divide(left, right));
    default:
        break;
    }
    if (left < 0 && right != floor(right)) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "complex numbers are not known here");
    }
    return jinja_real(pow(left, right));
}

static jinja_value operate_numbers(jinja_run *run, jinja_operator op, jinja_value left,
                                   jinja_value right)
{
    const bool divides = op == JINJA_DIVIDE || op == JINJA_FLOOR_DIVIDE || op == JINJA_MODULO;
    const bool real = left.kind == JINJA_REAL || right.kind == JINJA_REAL || op == JINJA_DIVIDE ||
                      (op == JINJA_POWER && jinja_as_real(right) < 0);
    const bool by_zero = divides || (op == JINJA_POWER && jinja_as_real(right) < 0);
    if (by_zero && jinja_as_real(divides ? right : left) == 0) {
        jinja_fail(run->work, BASE_ERR_INVALID, "a division by zero");
    }
    return real ? operate_reals(run, op, jinja_as_real(left), jinja_as_real(right))
                : operate_integers(run, op, jinja_as_int(run->work, left),
                                   jinja_as_int(run->work, right));
}

static jinja_value join(jinja_run *run, jinja_value left, jinja_value right)
{
    jinja_text text = {.work = run->work};
    jinja_write(&text, left);
    jinja_write(&text, right);
    return jinja_text_end(&text);
}

static bool has_markup(const jinja_string *string)
{
    for (size_t i = 0; i < string->bytes; i++) {
        if (memchr("&<>'\"", string->at[i], 5) != NULL) {
            return true;
        }
    }
    return false;
}

static jinja_value add_strings(jinja_run *run, jinja_value left, jinja_value right)
{
    const bool left_is = left.string->is_markup;
    if (left_is != right.string->is_markup && has_markup((left_is ? right : left).string)) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED,
                   "the + of a str and one that is safe or escaped is not known here: join them "
                   "by ~");
    }
    jinja_string sum = *join(run, left, right).string;
    sum.is_markup = left_is || right.string->is_markup;
    return jinja_string_value(run->work, sum);
}

static jinja_value add_lists(jinja_run *run, const jinja_list *left, const jinja_list *right)
{
    jinja_value *items = jinja_values(run->work, left->count + right->count);
    if (left->count > 0) {
        memcpy(items, left->at, left->count * sizeof *items);
    }
    if (right->count > 0) {
        memcpy(items + left->count, right->at, right->count * sizeof *items);
    }
    return jinja_list_of(run->work, items, left->count + right->count, left->form);
}

static bool is_list(jinja_value value)
{
    return value.kind == JINJA_LIST && value.list->form <= JINJA_FORM_TUPLE;
}

/* A string or a list, so many times. */
static jinja_value repeat(jinja_run *run, jinja_value what, jinja_value times)
{
    const int64_t given = jinja_as_int(run->work, times);
    const size_t count = given > 0 ? (size_t)given : 0;
    const size_t each = what.kind == JINJA_STRING ? what.string->bytes : what.list->count;
    if (each > 0 && count > RANK_JINJA_TEXT_BYTES_MAX / each) {
        jinja_fail(run->work, BASE_ERR_LIMIT, "a %s is repeated too often", jinja_type_name(what));
    }
    if (what.kind == JINJA_STRING) {
        jinja_text text = {.work = run->work};
        for (size_t i = 0; each > 0 && i < count; i++) {
            jinja_text_put(&text, what.string);
            jinja_step(run->work, 1);
        }
        return jinja_text_end(&text);
    }
    jinja_value *items = jinja_values(run->work, each * count);
    for (size_t i = 0; i < each * count; i++) {
        items[i] = what.list->at[i % each];
    }
    return jinja_list_of(run->work, items, each * count, what.list->form);
}

jinja_value jinja_operate(jinja_run *run, jinja_operator op, jinja_value left, jinja_value right)
{
    if (op == JINJA_JOIN) {
        return join(run, left, right);
    }
    jinja_need_defined(run->work, left);
    jinja_need_defined(run->work, right);
    if (jinja_is_number(left) && jinja_is_number(right)) {
        return operate_numbers(run, op, left, right);
    }
    if (op == JINJA_ADD && left.kind == JINJA_STRING && right.kind == JINJA_STRING) {
        return add_strings(run, left, right);
    }
    if (op == JINJA_ADD && is_list(left) && is_list(right) && left.list->form == right.list->form) {
        return add_lists(run, left.list, right.list);
    }
    if (op == JINJA_MULTIPLY && (left.kind == JINJA_STRING || is_list(left)) &&
        jinja_is_number(right)) {
        return repeat(run, left, right);
    }
    if (op == JINJA_MULTIPLY && (right.kind == JINJA_STRING || is_list(right)) &&
        jinja_is_number(left)) {
        return repeat(run, right, left);
    }
    if (op == JINJA_MODULO && left.kind == JINJA_STRING) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "the %% of a str is not known here");
    }
    jinja_fail(run->work, BASE_ERR_INVALID, "there is no %s of a %s and a %s", SIGNS[op],
               jinja_type_name(left), jinja_type_name(right));
}

bool jinja_compare(jinja_run *run, jinja_operator op, jinja_value left, jinja_value right)
{
    jinja_work *work = run->work;
    switch (op) {
    case JINJA_EQUAL:
        return jinja_equal(work, left, right);
    case JINJA_NOT_EQUAL:
        return !jinja_equal(work, left, right);
    case JINJA_LESS:
        return jinja_is_less(work, left, right);
    case JINJA_LESS_EQUAL:
        return jinja_is_less(work, left, right) || jinja_equal(work, left, right);
    case JINJA_GREATER:
        return jinja_is_less(work, right, left);
    case JINJA_GREATER_EQUAL:
        return jinja_is_less(work, right, left) || jinja_equal(work, left, right);
    case JINJA_IN:
        return jinja_contains(work, right, left);
    default:
        return !jinja_contains(work, right, left);
    }
}
