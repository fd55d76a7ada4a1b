/* Tests: what stands behind `is`. Found by calls.c. */
#include <math.h>

#include "row_tables.h"
#include "run.h"
#include "write.h"

static jinja_value test_defined(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind != JINJA_UNDEFINED);
}

static jinja_value test_undefined(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_UNDEFINED);
}

static jinja_value test_none(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_NONE);
}

static jinja_value test_string(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_STRING);
}

static jinja_value test_mapping(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_DICT);
}

static jinja_value test_iterable(jinja_run *run, const jinja_call *call)
{
    const jinja_kind kind = call->subject.kind;
    (void)run;
    return jinja_bool(kind == JINJA_STRING || kind == JINJA_LIST || kind == JINJA_DICT ||
                      kind == JINJA_UNDEFINED || kind == JINJA_LOOP);
}

static jinja_value test_sequence(jinja_run *run, const jinja_call *call)
{
    const jinja_value value = call->subject;
    (void)run;
    return jinja_bool(value.kind == JINJA_STRING || value.kind == JINJA_DICT ||
                      value.kind == JINJA_UNDEFINED ||
                      (value.kind == JINJA_LIST && value.list->form <= JINJA_FORM_RANGE));
}

static jinja_value test_number(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(jinja_is_number(call->subject));
}

static jinja_value test_integer(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_INT);
}

static jinja_value test_float(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_REAL);
}

static jinja_value test_boolean(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_BOOL);
}

static jinja_value test_true(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_BOOL && call->subject.flag);
}

static jinja_value test_false(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_BOOL && !call->subject.flag);
}

static jinja_value test_callable(jinja_run *run, const jinja_call *call)
{
    const jinja_kind kind = call->subject.kind;
    (void)run;
    return jinja_bool(kind == JINJA_FUNCTION || kind == JINJA_METHOD || kind == JINJA_MACRO ||
                      kind == JINJA_UNDEFINED || kind == JINJA_LOOP);
}

static jinja_value test_equal(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_compare(run, JINJA_EQUAL, call->subject, call->slots[0]));
}

static jinja_value test_not_equal(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_compare(run, JINJA_NOT_EQUAL, call->subject, call->slots[0]));
}

static jinja_value test_less(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_compare(run, JINJA_LESS, call->subject, call->slots[0]));
}

static jinja_value test_less_equal(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_compare(run, JINJA_LESS_EQUAL, call->subject, call->slots[0]));
}

static jinja_value test_greater(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_compare(run, JINJA_GREATER, call->subject, call->slots[0]));
}

static jinja_value test_greater_equal(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_compare(run, JINJA_GREATER_EQUAL, call->subject, call->slots[0]));
}

static jinja_value test_in(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_contains(run->work, call->slots[0], call->subject));
}

/* Whether they are one object, or the same plain value. */
static jinja_value test_sameas(jinja_run *run, const jinja_call *call)
{
    const jinja_value left = call->subject;
    const jinja_value right = call->slots[0];
    if (left.kind != right.kind) {
        return jinja_bool(false);
    }
    switch (left.kind) {
    case JINJA_STRING:
        return jinja_bool(left.string == right.string);
    case JINJA_LIST:
        return jinja_bool(left.list == right.list);
    case JINJA_DICT:
        return jinja_bool(left.dict == right.dict);
    default:
        return jinja_bool(jinja_equal(run->work, left, right));
    }
}

/* The rest of the subject by a number. */
static jinja_value rest_by(jinja_run *run, const jinja_call *call, jinja_value divisor)
{
    return jinja_operate(run, JINJA_MODULO, call->subject, divisor);
}

static jinja_value test_even(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_as_real(rest_by(run, call, jinja_int(2))) == 0);
}

static jinja_value test_odd(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_as_real(rest_by(run, call, jinja_int(2))) == 1);
}

static jinja_value test_divisibleby(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_as_real(rest_by(run, call, call->slots[0])) == 0);
}

/* Whether there are letters of one kind, and none of the other. */
static jinja_value all_letters(jinja_run *run, const jinja_call *call, bool upper)
{
    const jinja_string *string = jinja_to_string(run->work, call->subject);
    bool any = false;
    int32_t point = 0;
    jinja_step_bytes(run->work, string->bytes);
    for (size_t at = 0; at < string->bytes;) {
        at += jinja_point_at(string, at, &point);
        if (upper ? jinja_is_lower(point) : jinja_is_upper(point)) {
            return jinja_bool(false);
        }
        any = any || (upper ? jinja_is_upper(point) : jinja_is_lower(point));
    }
    return jinja_bool(any);
}

static jinja_value test_lower(jinja_run *run, const jinja_call *call)
{
    return all_letters(run, call, false);
}

static jinja_value test_upper(jinja_run *run, const jinja_call *call)
{
    return all_letters(run, call, true);
}

const jinja_row jinja_tests[] = {
    {.name = "defined", .function = test_defined},
    {.name = "undefined", .function = test_undefined},
    {.name = "none", .function = test_none},
    {.name = "string", .function = test_string},
    {.name = "mapping", .function = test_mapping},
    {.name = "iterable", .function = test_iterable},
    {.name = "sequence", .function = test_sequence},
    {.name = "number", .function = test_number},
    {.name = "integer", .function = test_integer},
    {.name = "float", .function = test_float},
    {.name = "boolean", .function = test_boolean},
    {.name = "true", .function = test_true},
    {.name = "false", .function = test_false},
    {.name = "callable", .function = test_callable},
    {.name = "equalto", .function = test_equal, .params = {"other"}, .needed = 1},
    {.name = "eq", .function = test_equal, .params = {"other"}, .needed = 1},
    {.name = "==", .function = test_equal, .params = {"other"}, .needed = 1},
    {.name = "ne", .function = test_not_equal, .params = {"other"}, .needed = 1},
    {.name = "!=", .function = test_not_equal, .params = {"other"}, .needed = 1},
    {.name = "lt", .function = test_less, .params = {"other"}, .needed = 1},
    {.name = "<", .function = test_less, .params = {"other"}, .needed = 1},
    {.name = "lessthan", .function = test_less, .params = {"other"}, .needed = 1},
    {.name = "le", .function = test_less_equal, .params = {"other"}, .needed = 1},
    {.name = "<=", .function = test_less_equal, .params = {"other"}, .needed = 1},
    {.name = "gt", .function = test_greater, .params = {"other"}, .needed = 1},
    {.name = ">", .function = test_greater, .params = {"other"}, .needed = 1},
    {.name = "greaterthan", .function = test_greater, .params = {"other"}, .needed = 1},
    {.name = "ge", .function = test_greater_equal, .params = {"other"}, .needed = 1},
    {.name = ">=", .function = test_greater_equal, .params = {"other"}, .needed = 1},
    {.name = "in", .function = test_in, .params = {"seq"}, .needed = 1},
    {.name = "sameas", .function = test_sameas, .params = {"other"}, .needed = 1},
    {.name = "even", .function = test_even},
    {.name = "odd", .function = test_odd},
    {.name = "divisibleby", .function = test_divisibleby, .params = {"num"}, .needed = 1},
    {.name = "lower", .function = test_lower},
    {.name = "upper", .function = test_upper},
    {.name = NULL},
};
