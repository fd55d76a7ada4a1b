/* Tests: what stands behind `is`. Found by calls.c. */

#include "row_tables.h"
#include "run.h"
#include "write.h"

static jinja_value test_kind(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool((1 << call->subject.kind & call->how) != 0);
}

static jinja_value test_sequence(jinja_run *run, const jinja_call *call)
{
    const jinja_value value = call->subject;
    return value.kind == JINJA_LIST ? jinja_bool(value.list->form <= JINJA_FORM_RANGE)
                                    : test_kind(run, call);
}

static jinja_value test_flag(jinja_run *run, const jinja_call *call)
{
    (void)run;
    return jinja_bool(call->subject.kind == JINJA_BOOL && call->subject.flag == call->how);
}

static jinja_value compare(jinja_run *run, const jinja_call *call)
{
    return jinja_bool(jinja_compare(run, (jinja_operator)call->how, call->subject, call->slots[0]));
}

/* An integer of which Python has one object. */
static bool is_small(jinja_value value)
{
    return value.kind == JINJA_INT && value.integer >= -5 && value.integer <= 256;
}

/* Whether they are one object. */
static jinja_value test_sameas(jinja_run *run, const jinja_call *call)
{
    const jinja_value left = call->subject;
    const jinja_value right = call->slots[0];
    if (left.kind != right.kind) {
        return jinja_bool(false);
    }
    switch (left.kind) {
    case JINJA_UNDEFINED:
    case JINJA_INT:
    case JINJA_REAL:
    case JINJA_STRING:
        if (jinja_equal(run->work, left, right) && !is_small(left)) {
            jinja_fail(run->work, BASE_ERR_UNSUPPORTED,
                       "whether two equal values are one object is not known here: compare them");
        }
        return jinja_bool(jinja_equal(run->work, left, right));
    case JINJA_LIST:
        return jinja_bool(left.list == right.list);
    case JINJA_DICT:
        return jinja_bool(left.dict == right.dict);
    default:
        return jinja_bool(jinja_equal(run->work, left, right));
    }
}

/* The rest of the subject, by two if no number is given. */
static jinja_value test_rest(jinja_run *run, const jinja_call *call)
{
    const jinja_value divisor = jinja_is_given(call->slots[0]) ? call->slots[0] : jinja_int(2);
    const jinja_value rest = jinja_operate(run, JINJA_MODULO, call->subject, divisor);
    return jinja_bool(jinja_as_real(rest) == call->how);
}

/* Whether there are letters of one kind, and none of the other. */
static jinja_value test_letters(jinja_run *run, const jinja_call *call)
{
    const bool upper = call->how == JINJA_UPPER;
    const jinja_string *string = jinja_to_string(run->work, call->subject);
    bool any = false;
    int32_t point = 0;
    jinja_step_bytes(run->work, string->bytes);
    for (size_t at = 0; at < string->bytes;) {
        at += jinja_point_at(string, at, &point);
        const bool fits = upper ? jinja_is_upper(point) : jinja_is_lower(point);
        if (jinja_is_cased(point) && !fits) {
            return jinja_bool(false);
        }
        any = any || fits;
    }
    return jinja_bool(any);
}

enum {
    NUMBERS = 1 << JINJA_BOOL | 1 << JINJA_INT | 1 << JINJA_REAL,
    ITEMS = 1 << JINJA_STRING | 1 << JINJA_DICT | 1 << JINJA_UNDEFINED,
    ITERABLE = ITEMS | 1 << JINJA_LIST | 1 << JINJA_LOOP,
    CALLABLE = 1 << JINJA_FUNCTION | 1 << JINJA_METHOD | 1 << JINJA_MACRO | 1 << JINJA_UNDEFINED |
               1 << JINJA_LOOP,
};

const jinja_row jinja_tests[] = {
    {.name = "defined", .function = test_kind, .how = ~(1 << JINJA_UNDEFINED)},
    {.name = "undefined", .function = test_kind, .how = 1 << JINJA_UNDEFINED},
    {.name = "none", .function = test_kind, .how = 1 << JINJA_NONE},
    {.name = "string", .function = test_kind, .how = 1 << JINJA_STRING},
    {.name = "mapping", .function = test_kind, .how = 1 << JINJA_DICT},
    {.name = "iterable", .function = test_kind, .how = ITERABLE},
    {.name = "sequence", .function = test_sequence, .how = ITEMS},
    {.name = "number", .function = test_kind, .how = NUMBERS},
    {.name = "integer", .function = test_kind, .how = 1 << JINJA_INT},
    {.name = "float", .function = test_kind, .how = 1 << JINJA_REAL},
    {.name = "boolean", .function = test_kind, .how = 1 << JINJA_BOOL},
    {.name = "true", .function = test_flag, .how = true},
    {.name = "false", .function = test_flag, .how = false},
    {.name = "callable", .function = test_kind, .how = CALLABLE},
    {.name = "equalto", .function = compare, .how = JINJA_EQUAL, .params = {"other"}, .needed = 1},
    {.name = "eq", .function = compare, .how = JINJA_EQUAL, .params = {"other"}, .needed = 1},
    {.name = "==", .function = compare, .how = JINJA_EQUAL, .params = {"other"}, .needed = 1},
    {.name = "ne", .function = compare, .how = JINJA_NOT_EQUAL, .params = {"other"}, .needed = 1},
    {.name = "!=", .function = compare, .how = JINJA_NOT_EQUAL, .params = {"other"}, .needed = 1},
    {.name = "lt", .function = compare, .how = JINJA_LESS, .params = {"other"}, .needed = 1},
    {.name = "<", .function = compare, .how = JINJA_LESS, .params = {"other"}, .needed = 1},
    {.name = "lessthan", .function = compare, .how = JINJA_LESS, .params = {"other"}, .needed = 1},
    {.name = "le", .function = compare, .how = JINJA_LESS_EQUAL, .params = {"other"}, .needed = 1},
    {.name = "<=", .function = compare, .how = JINJA_LESS_EQUAL, .params = {"other"}, .needed = 1},
    {.name = "gt", .function = compare, .how = JINJA_GREATER, .params = {"other"}, .needed = 1},
    {.name = ">", .function = compare, .how = JINJA_GREATER, .params = {"other"}, .needed = 1},
    {.name = "greaterthan",
     .function = compare,
     .how = JINJA_GREATER,
     .params = {"other"},
     .needed = 1},
    {.name = "ge",
     .function = compare,
     .how = JINJA_GREATER_EQUAL,
     .params = {"other"},
     .needed = 1},
    {.name = ">=",
     .function = compare,
     .how = JINJA_GREATER_EQUAL,
     .params = {"other"},
     .needed = 1},
    {.name = "in", .function = compare, .how = JINJA_IN, .params = {"seq"}, .needed = 1},
    {.name = "sameas", .function = test_sameas, .params = {"other"}, .needed = 1},
    {.name = "even", .function = test_rest, .how = 0},
    {.name = "odd", .function = test_rest, .how = 1},
    {.name = "divisibleby", .function = test_rest, .how = 0, .params = {"num"}, .needed = 1},
    {.name = "lower", .function = test_letters, .how = JINJA_LOWER},
    {.name = "upper", .function = test_letters, .how = JINJA_UPPER},
    {.name = NULL},
};
