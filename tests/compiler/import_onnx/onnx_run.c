/* Running the models of onnx_text.h. */
#include "tests/compiler/import_onnx/onnx_reader.h"
#include "tests/compiler/import_onnx/onnx_text.h"

#include "ops/util/shape.h"
#include "xcvm/compiler.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static xcvm_value *read_value_text(onnx_reader *r)
{
    static onnx_literal l;
    xcvm_value *value;
    xcvm_error error;
    xcvm_kind kind = onnx_accept(r, "seq(")        ? XCVM_KIND_SEQUENCE
                     : onnx_accept(r, "optional(") ? XCVM_KIND_OPTIONAL
                     : onnx_accept(r, "map(")      ? XCVM_KIND_MAP
                                                   : XCVM_KIND_TENSOR;
    if (kind != XCVM_KIND_TENSOR) {
        xcvm_value *items[16], *list;
        size_t count = 0;
        while (!onnx_accept(r, ")")) {
            items[count++] = read_value_text(r);
            onnx_accept(r, ",");
        }
        ck_assert_int_eq(xcvm_list_create(NULL, kind, count, items, &list, &error), XCVM_OK);
        for (size_t i = 0; i < count; i++)
            xcvm_value_release(items[i]);
        return list;
    }
    onnx_read_literal(r, &l);
    if (l.dtype == XCVM_STRING) {
        const char *strings[16];
        for (size_t i = 0; i < l.count; i++)
            strings[i] = l.strings[i];
        ck_assert_int_eq(xcvm_string_tensor_create(NULL, l.rank, l.dims, strings, NULL, &value, &error), XCVM_OK);
        return value;
    }
    ck_assert_int_eq(xcvm_tensor_create(NULL, l.dtype, l.rank, l.dims, &value, &error), XCVM_OK);
    for (size_t i = 0; i < l.count; i++)
        onnx_store(l.dtype, l.numbers[i], (char *)xcvm_value_data(value) + i * xcvm_dtype_size(l.dtype));
    return value;
}

static bool equal(const xcvm_value *a, const xcvm_value *b)
{
    if (a->kind != b->kind || (a->kind != XCVM_KIND_TENSOR && a->count != b->count))
        return false;
    if (a->kind != XCVM_KIND_TENSOR) {
        for (size_t i = 0; i < a->count; i++)
            if (!equal(&xcvm_items(a)[i], &xcvm_items(b)[i]))
                return false;
        return true;
    }
    if (a->dtype != b->dtype || !xcvm_same_shape(a, b))
        return false;
    for (size_t i = 0; i < xcvm_element_count(a); i++) {
        if (a->dtype == XCVM_STRING) {
            size_t x, y;
            const char *s = xcvm_string_at(a, i, &x), *t = xcvm_string_at(b, i, &y);
            if (x != y || memcmp(s, t, x) != 0)
                return false;
            continue;
        }
        if (a->dtype == XCVM_BOOL) {
            if (XCVM_CDATA(bool, a)[i] != XCVM_CDATA(bool, b)[i])
                return false;
            continue;
        }
        double x = xcvm_element_as_double(a, i), y = xcvm_element_as_double(b, i);
        if (!(fabs(x - y) <= 1e-5 + 1e-5 * fabs(y)) && !(isnan(x) && isnan(y)) && x != y)
            return false;
    }
    return true;
}

static void print_value(const xcvm_value *v)
{
    char text[128];
    fprintf(stderr, "%s", xcvm_value_describe(v, text, sizeof text));
    for (size_t i = 0; v->kind == XCVM_KIND_TENSOR && v->dtype != XCVM_STRING && v->dtype != XCVM_BOOL &&
                       i < xcvm_element_count(v) && i < 32;
         i++)
        fprintf(stderr, " %g", xcvm_element_as_double(v, i));
    fputc('\n', stderr);
}

static void bind(xcvm_session *session, const xcvm_program *program, const char *name, xcvm_value *value)
{
    xcvm_error error;
    for (size_t i = 0; i < xcvm_program_input_count(program); i++)
        if (strcmp(xcvm_program_input_at(program, i)->name, name) == 0) {
            xcvm_status status = xcvm_session_set_input(session, i, value, &error);
            ck_assert_msg(status == XCVM_OK, "%s", error.message);
            return;
        }
    ck_abort_msg("there is no input %s", name);
}

static const xcvm_value *result(const xcvm_session *session, const xcvm_program *program, const char *name)
{
    for (size_t i = 0; i < xcvm_program_output_count(program); i++)
        if (strcmp(xcvm_program_output_at(program, i)->name, name) == 0)
            return xcvm_session_get_output(session, i);
    ck_abort_msg("there is no output %s", name);
    return NULL;
}

void onnx_expect(const char *text, const char *given, const char *expected)
{
    test_bytes model = onnx_from_text(text);
    onnx_expect_model(&model, NULL, text, given, expected);
    test_bytes_free(&model);
}

typedef struct onnx_run {
    test_bytes bytes; /* the program reads its constants from here */
    xcvm_program *program;
    xcvm_session *session;
} onnx_run;

/* Compiles the model, and sets the inputs. */
static onnx_run begin_run(const test_bytes *model, const xcc_options *compile, const char *text, const char *given)
{
    xcvm_error error;
    onnx_run run = {0};
    xcvm_status status =
        xcc_compile(model->at, model->length, compile, (xcvm_sink){test_bytes_sink, &run.bytes}, NULL, &error);
    ck_assert_msg(status == XCVM_OK, "%s: %s\n%s", xcvm_status_name(status), error.message, text);
    status = xcvm_program_load(run.bytes.at, run.bytes.length, NULL, &run.program, &error);
    ck_assert_msg(status == XCVM_OK, "%s\n%s", error.message, text);
    const xcvm_session_options options = {.size = sizeof options, .threads = 1};
    ck_assert_int_eq(xcvm_session_create(run.program, &options, &run.session, &error), XCVM_OK);
    char name[ONNX_WORD];
    for (onnx_reader r = {.at = given}; *r.at != '\0'; onnx_end_line(&r)) {
        onnx_word(&r, name);
        xcvm_value *value = read_value_text(&r);
        bind(run.session, run.program, name, value);
        xcvm_value_release(value);
    }
    return run;
}

static void end_run(onnx_run *run)
{
    xcvm_session_destroy(run->session);
    xcvm_program_destroy(run->program);
    test_bytes_free(&run->bytes);
}

void onnx_expect_model(const test_bytes *model, const xcc_options *compile, const char *text, const char *given,
                       const char *expected)
{
    onnx_run run = begin_run(model, compile, text, given);
    xcvm_error error;
    xcvm_status status = xcvm_session_run(run.session, NULL, &error);
    ck_assert_msg(status == XCVM_OK, "%s: %s\n%s", error.instruction, error.message, text);
    char name[ONNX_WORD];
    for (onnx_reader r = {.at = expected}; *r.at != '\0'; onnx_end_line(&r)) {
        onnx_word(&r, name);
        xcvm_value *value = read_value_text(&r);
        const xcvm_value *actual = result(run.session, run.program, name);
        if (!equal(actual, value)) {
            print_value(actual);
            ck_abort_msg("%s is another value, of\n%s", name, text);
        }
        xcvm_value_release(value);
    }
    end_run(&run);
}

void onnx_fail(const char *text, const char *given, xcvm_status status, const char *part)
{
    test_bytes model = onnx_from_text(text);
    onnx_run run = begin_run(&model, NULL, text, given);
    xcvm_error error = {.pc = -1};
    xcvm_status actual = xcvm_session_run(run.session, NULL, &error);
    ck_assert_msg(actual == status, "%s instead of %s: %s\n%s", xcvm_status_name(actual), xcvm_status_name(status),
                  error.message, text);
    ck_assert_msg(strstr(error.message, part) != NULL, "'%s' is not in: %s", part, error.message);
    end_run(&run);
    test_bytes_free(&model);
}

void onnx_refuse(const char *text, xcvm_status status, const char *part)
{
    test_bytes model = onnx_from_text(text), bytes = {0};
    xcvm_error error = {.pc = -1};
    xcvm_status actual = xcc_compile(model.at, model.length, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error);
    ck_assert_msg(actual == status, "%s instead of %s: %s\n%s", xcvm_status_name(actual), xcvm_status_name(status),
                  error.message, text);
    ck_assert_msg(strstr(error.message, part) != NULL, "'%s' is not in: %s", part, error.message);
    ck_assert_uint_eq(bytes.length, 0);
    test_bytes_free(&bytes);
    test_bytes_free(&model);
}
