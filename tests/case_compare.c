/* Compares the outcome of a case with its expectations. */
#include "tests/case_compare.h"

#include "ops/util/shape.h"
#include "proto/image.h"
#include "tests/case_tolerance.h"
#include "tests/support.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct comparison {
    case_reason *why;
    bool exact;
} comparison;

bool case_fail(case_reason *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return false;
}

void case_append(case_reason *why, const char *format, ...)
{
    const size_t length = strlen(why->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text + length, sizeof why->text - length, format, arguments);
    va_end(arguments);
}

/* Elements of numeric types as doubles; complex ones have two. */
static bool element_is_close(xcvm_dtype dtype, const void *a, const void *b, size_t i, case_tolerance tolerance,
                             double *got, double *expected)
{
    switch (dtype) {
    case XCVM_F32:
    case XCVM_C64:
        *got = ((const float *)a)[i];
        *expected = ((const float *)b)[i];
        break;
    case XCVM_F64:
    case XCVM_C128:
        *got = ((const double *)a)[i];
        *expected = ((const double *)b)[i];
        break;
    case XCVM_F16:
        *got = (double)xcvm_f16_to_f32(((const uint16_t *)a)[i]);
        *expected = (double)xcvm_f16_to_f32(((const uint16_t *)b)[i]);
        break;
    default:
        *got = (double)xcvm_bf16_to_f32(((const uint16_t *)a)[i]);
        *expected = (double)xcvm_bf16_to_f32(((const uint16_t *)b)[i]);
        break;
    }
    return case_is_close(*got, *expected, tolerance);
}

static bool compare_strings(const comparison *c, const char *what, const xcvm_value *got, const xcvm_value *expected)
{
    for (size_t i = 0; i < xcvm_element_count(expected); i++) {
        size_t length, expected_length;
        const char *text = xcvm_value_string_at(got, i, &length);
        const char *wanted = xcvm_string_at(expected, i, &expected_length);
        if (text == NULL || length != expected_length || memcmp(text, wanted, length) != 0)
            return case_fail(c->why, "%s: string %zu is \"%.*s\", not \"%.*s\"", what, i,
                             text != NULL ? (int)length : 0, text != NULL ? text : "", (int)expected_length, wanted);
    }
    return true;
}

static bool compare_elements(const comparison *c, const char *what, const xcvm_value *got, const xcvm_value *expected,
                             const case_expectation *e)
{
    xcvm_dtype dtype = (xcvm_dtype)expected->dtype;
    size_t count = xcvm_element_count(expected);
    bool complex = xcvm_dtype_in(dtype, XCVM_TYPES_COMPLEX);
    const case_tolerance tolerance = case_tolerance_of(e, dtype, c->exact);
    const void *data = xcvm_value_data(got);
    if (dtype == XCVM_STRING)
        return compare_strings(c, what, got, expected);
    for (size_t i = 0; xcvm_dtype_in(dtype, XCVM_TYPES_FLOAT | XCVM_TYPES_COMPLEX) && i < count * (complex ? 2 : 1);
         i++) {
        double a, b;
        if (!element_is_close(dtype, data, expected->data, i, tolerance, &a, &b))
            return case_fail(c->why, "%s: element %zu is %.17g, not %.17g", what, complex ? i / 2 : i, a, b);
    }
    bool exact = !xcvm_dtype_in(dtype, XCVM_TYPES_FLOAT | XCVM_TYPES_COMPLEX);
    if (exact && count > 0 && memcmp(data, expected->data, expected->bytes) != 0) {
        xcvm_value copy = *expected;
        test_bytes text = {0};
        xcvm_writer w;
        copy.data = (void *)data;
        xcvm_writer_start(&w, (xcvm_sink){test_bytes_sink, &text});
        xcvm_elements_write(&w, &copy);
        xcvm_writer_text(&w, ", not ");
        xcvm_elements_write(&w, expected);
        (void)xcvm_writer_finish(&w, NULL);
        case_fail(c->why, "%s: is %.*s", what, (int)text.length, text.at);
        test_bytes_free(&text);
        return false;
    }
    return true;
}

static bool compare_value(const comparison *c, const char *what, const xcvm_value *got, const case_value *expected,
                          const case_expectation *e)
{
    char text[100], wanted[100], item[200];
    xcvm_kind kind = got != NULL ? xcvm_value_kind(got) : XCVM_KIND_NULL;
    if (kind != expected->kind)
        return case_fail(c->why, "%s: is %s, not a value of kind %d", what,
                         got != NULL ? xcvm_value_describe(got, text, sizeof text) : "null", (int)expected->kind);
    if (kind == XCVM_KIND_NULL)
        return true;
    if (kind == XCVM_KIND_TENSOR) {
        const xcvm_value *tensor = &expected->tensor;
        if (xcvm_value_dtype(got) != (xcvm_dtype)tensor->dtype || !xcvm_same_shape(got, tensor))
            return case_fail(c->why, "%s: is %s, not %s", what, xcvm_value_describe(got, text, sizeof text),
                             xcvm_value_describe(tensor, wanted, sizeof wanted));
        return compare_elements(c, what, got, tensor, e);
    }
    if (xcvm_value_count(got) != expected->count)
        return case_fail(c->why, "%s: has %zu items, not %zu", what, xcvm_value_count(got), expected->count);
    for (size_t i = 0; i < expected->count; i++) {
        snprintf(item, sizeof item, "%.150s[%zu]", what, i);
        if (!compare_value(c, item, xcvm_value_item_at(got, i), &expected->items[i], e))
            return false;
    }
    return true;
}

static bool compare_type(const comparison *c, const char *what, const xcvm_value *got, const xcvm_type *type)
{
    char text[100], wanted[100];
    bool same = got != NULL && xcvm_value_kind(got) == type->kind &&
                (type->dtype == XCVM_NO_DTYPE || xcvm_value_dtype(got) == type->dtype);
    if (same && type->kind == XCVM_KIND_TENSOR && type->rank >= 0) {
        same = xcvm_value_rank(got) == type->rank;
        for (int i = 0; same && i < type->rank; i++)
            same = type->dims[i] < 0 || xcvm_value_dims(got)[i] == type->dims[i];
    }
    return same || case_fail(c->why, "%s: is %s, not %s", what,
                             got != NULL ? xcvm_value_describe(got, text, sizeof text) : "null",
                             xcvm_type_describe(type, wanted, sizeof wanted));
}

static bool compare_range(const comparison *c, const char *what, const xcvm_value *got, double low, double high)
{
    if (got == NULL || xcvm_value_kind(got) != XCVM_KIND_TENSOR ||
        !xcvm_dtype_in(xcvm_value_dtype(got), XCVM_TYPES_REAL_OR_BOOL))
        return case_fail(c->why, "%s: is no tensor of numbers", what);
    for (size_t i = 0; i < xcvm_value_count(got); i++) {
        double element =
            xcvm_value_dtype(got) == XCVM_BOOL ? (double)XCVM_CDATA(uint8_t, got)[i] : xcvm_element_as_double(got, i);
        if (!(element >= low && element <= high))
            return case_fail(c->why, "%s: element %zu is %g, not between %g and %g", what, i, element, low, high);
    }
    return true;
}

/* Returns NULL, and records a failure, if there is none of that name. */
static const xcvm_value *find_result(const comparison *c, const xcvm_program *program, const xcvm_session *session,
                                     const case_expectation *e)
{
    const size_t count = e->state ? xcvm_program_state_count(program) : xcvm_program_output_count(program);
    for (size_t i = 0; i < count; i++) {
        const xcvm_value_info *p = e->state ? xcvm_program_state_at(program, i) : xcvm_program_output_at(program, i);
        if (strcmp(p->name, e->output) == 0)
            return e->state ? xcvm_session_get_state(session, i) : xcvm_session_get_output(session, i);
    }
    case_fail(c->why, "there is no %s %s", e->state ? "state" : "output", e->output);
    return NULL;
}

bool case_compare(const test_case *test, const xcvm_program *program, const xcvm_session *session, bool exact,
                  case_reason *why)
{
    const comparison c = {why, exact};
    for (size_t i = 0; i < test->expectation_count; i++) {
        const case_expectation *e = &test->expectations[i];
        const xcvm_value *got = find_result(&c, program, session, e);
        if (got == NULL)
            return false;
        bool same = e->check == CASE_TYPE      ? compare_type(&c, e->output, got, &e->type)
                    : e->check == CASE_BETWEEN ? compare_range(&c, e->output, got, e->low, e->high)
                                               : compare_value(&c, e->output, got, &e->value, e);
        if (!same)
            return false;
    }
    return true;
}
