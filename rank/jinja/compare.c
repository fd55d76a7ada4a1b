/* Which values are equal, which is less, and which contains which. Called by operators, tests, filters. */
#include <math.h>
#include <string.h>

#include "text.h"
#include "value.h"

/* -1, 0, 1; 2: one is no number. Exact, also where a double has not all digits of an integer. */
static int order_numbers(jinja_value left, jinja_value right)
{
    if (left.kind != JINJA_REAL && right.kind != JINJA_REAL) {
        const int64_t a = left.kind == JINJA_INT ? left.integer : (int64_t)left.flag;
        const int64_t b = right.kind == JINJA_INT ? right.integer : (int64_t)right.flag;
        return a < b ? -1 : a > b;
    }
    const long double a =
        left.kind == JINJA_INT ? (long double)left.integer : (long double)jinja_as_real(left);
    const long double b =
        right.kind == JINJA_INT ? (long double)right.integer : (long double)jinja_as_real(right);
    if (isnan(a) || isnan(b)) {
        return 2;
    }
    return a < b ? -1 : a > b;
}

static bool lists_equal(jinja_work *work, const jinja_list *left, const jinja_list *right)
{
    if (left->form != right->form || left->form == JINJA_FORM_ITERATOR) {
        return left == right;
    }
    if (left->count != right->count) {
        return false;
    }
    for (size_t i = 0; i < left->count; i++) {
        if (!jinja_equal(work, left->at[i], right->at[i])) {
            return false;
        }
    }
    return true;
}

static bool dicts_equal(jinja_work *work, const jinja_dict *left, const jinja_dict *right)
{
    if (left->count != right->count) {
        return false;
    }
    for (size_t i = 0; i < left->count; i++) {
        const jinja_value *other = jinja_dict_find(work, right, left->at[i].key);
        if (other == NULL || !jinja_equal(work, left->at[i].value, *other)) {
            return false;
        }
    }
    return true;
}

static bool same_kind_equal(jinja_work *work, jinja_value left, jinja_value right)
{
    switch (left.kind) {
    case JINJA_STRING:
        return jinja_string_equal(left.string, right.string);
    case JINJA_LIST:
        return lists_equal(work, left.list, right.list);
    case JINJA_DICT:
        return dicts_equal(work, left.dict, right.dict);
    case JINJA_NAMESPACE:
        return left.dict == right.dict;
    case JINJA_LOOP:
        return left.loop == right.loop;
    case JINJA_MACRO:
        return left.macro == right.macro;
    case JINJA_FUNCTION:
        return left.function == right.function;
    case JINJA_METHOD:
        return left.method->row == right.method->row &&
               jinja_equal(work, left.method->object, right.method->object);
    default:
        return true; /* undefined, none */
    }
}

bool jinja_equal(jinja_work *work, jinja_value left, jinja_value right)
{
    jinja_enter(work);
    const bool equal = jinja_is_number(left) && jinja_is_number(right)
                           ? order_numbers(left, right) == 0
                           : left.kind == right.kind && same_kind_equal(work, left, right);
    jinja_leave(work);
    return equal;
}

static bool string_is_less(const jinja_string *left, const jinja_string *right)
{
    const size_t bytes = left->bytes < right->bytes ? left->bytes : right->bytes;
    const int order = bytes > 0 ? memcmp(left->at, right->at, bytes) : 0;
    return order != 0 ? order < 0 : left->bytes < right->bytes;
}

static bool list_is_less(jinja_work *work, const jinja_list *left, const jinja_list *right)
{
    for (size_t i = 0; i < left->count && i < right->count; i++) {
        if (!jinja_equal(work, left->at[i], right->at[i])) {
            return jinja_is_less(work, left->at[i], right->at[i]);
        }
    }
    return left->count < right->count;
}

bool jinja_is_less(jinja_work *work, jinja_value left, jinja_value right)
{
    bool less = false;
    jinja_enter(work);
    if (jinja_is_number(left) && jinja_is_number(right)) {
        less = order_numbers(left, right) == -1;
    } else if (left.kind == JINJA_STRING && right.kind == JINJA_STRING) {
        less = string_is_less(left.string, right.string);
    } else if (left.kind == JINJA_LIST && right.kind == JINJA_LIST &&
               left.list->form == right.list->form && left.list->form <= JINJA_FORM_TUPLE) {
        less = list_is_less(work, left.list, right.list);
    } else {
        jinja_need_defined(work, left);
        jinja_need_defined(work, right);
        jinja_fail(work, BASE_ERR_INVALID, "a %s and a %s have no order", jinja_type_name(left),
                   jinja_type_name(right));
    }
    jinja_leave(work);
    return less;
}

bool jinja_contains(jinja_work *work, jinja_value whole, jinja_value part)
{
    if (whole.kind == JINJA_STRING) {
        if (part.kind != JINJA_STRING) {
            jinja_need_defined(work, part);
            jinja_fail(work, BASE_ERR_INVALID, "a %s cannot be in a str", jinja_type_name(part));
        }
        return jinja_find(work, whole.string, part.string, 0) != SIZE_MAX;
    }
    if (whole.kind == JINJA_DICT) {
        jinja_need_key(work, part);
        return jinja_dict_find(work, whole.dict, part) != NULL;
    }
    const jinja_list *items = jinja_items_of(work, whole);
    for (size_t i = 0; i < items->count; i++) {
        if (jinja_equal(work, items->at[i], part)) {
            return true;
        }
    }
    return false;
}
