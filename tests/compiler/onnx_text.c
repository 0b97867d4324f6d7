#include "tests/compiler/onnx_text.h"

#include "base/dtype.h"
#include "compiler/wire.h"
#include "ops/shape.h"
#include "xcvm/compiler.h"

#include <check.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing fields ---- */

static void put_key(test_bytes *to, unsigned field, unsigned type, uint64_t value)
{
    uint8_t bytes[2 * XCC_VARINT_SIZE];
    size_t n = xcc_wire_put(bytes, field << 3 | type);
    n += xcc_wire_put(bytes + n, value);
    test_bytes_sink(to, bytes, n);
}

static void put_int(test_bytes *to, unsigned field, int64_t value)
{
    put_key(to, field, XCC_WIRE_VARINT, (uint64_t)value);
}

static void put_bytes(test_bytes *to, unsigned field, const void *bytes, size_t count)
{
    put_key(to, field, XCC_WIRE_BYTES, count);
    test_bytes_sink(to, bytes, count);
}

static void put_text(test_bytes *to, unsigned field, const char *text) { put_bytes(to, field, text, strlen(text)); }

/* Moves a message into a field. */
static void put_message(test_bytes *to, unsigned field, test_bytes *message)
{
    put_bytes(to, field, message->at, message->length);
    test_bytes_free(message);
}

static void put_float(test_bytes *to, unsigned field, float value)
{
    uint8_t bytes[XCC_VARINT_SIZE];
    test_bytes_sink(to, bytes, xcc_wire_put(bytes, field << 3 | XCC_WIRE_FIXED32));
    test_bytes_sink(to, &value, sizeof value);
}

/* ---- Reading text ---- */

enum { WORD = 128, MOST_GRAPHS = 16 };

typedef struct reader {
    const char *at;
    struct {
        char name[WORD];
        test_bytes bytes;
    } graphs[MOST_GRAPHS];
    size_t graph_count;
} reader;

static void skip(reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

static bool accept(reader *r, const char *token)
{
    skip(r);
    size_t length = strlen(token);
    if (strncmp(r->at, token, length) != 0)
        return false;
    r->at += length;
    return true;
}

static void need(reader *r, const char *token)
{
    ck_assert_msg(accept(r, token), "'%s' is expected before: %.40s", token, r->at);
}

static bool word_char(char c) { return isalnum((unsigned char)c) || (c != '\0' && strchr("_.-+/", c) != NULL); }

static void word(reader *r, char text[WORD])
{
    skip(r);
    size_t n = 0;
    while (word_char(*r->at) && n < WORD - 1)
        text[n++] = *r->at++;
    text[n] = '\0';
    ck_assert_msg(n > 0, "a word is expected before: %.40s", r->at);
}

static void string(reader *r, char text[WORD])
{
    size_t n = 0;
    need(r, "\"");
    while (*r->at != '"' && n < WORD - 1)
        text[n++] = *r->at++;
    text[n] = '\0';
    need(r, "\"");
}

static double number(reader *r)
{
    char *end;
    skip(r);
    double value = strtod(r->at, &end);
    ck_assert_msg(end != r->at, "a number is expected before: %.40s", r->at);
    r->at = end;
    return value;
}

/* Dimensions behind "[", up to and with "]"; names become -1. */
static int dims(reader *r, int64_t *list, char (*names)[WORD])
{
    int rank = 0;
    while (!accept(r, "]")) {
        char text[WORD] = "";
        size_t n = 0;
        skip(r);
        while ((isalnum((unsigned char)*r->at) && *r->at != 'x') || *r->at == '-')
            text[n++] = *r->at++;
        text[n] = '\0';
        bool numeric = isdigit((unsigned char)text[0]) || text[0] == '-';
        list[rank] = numeric ? strtoll(text, NULL, 10) : -1;
        strcpy(names[rank++], numeric ? "" : text);
        accept(r, "x");
    }
    return rank;
}

/* ---- Tensors ---- */

typedef struct literal {
    xcvm_dtype dtype;
    int rank;
    int64_t dims[16];
    size_t count;
    double numbers[4096];
    char strings[16][WORD];
} literal;

static xcvm_dtype dtype_of(const char *text)
{
    xcvm_dtype dtype = xcvm_dtype_from_name(text);
    ck_assert_msg(dtype != XCVM_NO_DTYPE, "%s is no element type", text);
    return dtype;
}

static void read_literal(reader *r, literal *l)
{
    char text[WORD], names[16][WORD];
    word(r, text);
    *l = (literal){.dtype = dtype_of(text), .count = 1};
    need(r, "[");
    l->rank = dims(r, l->dims, names);
    for (int i = 0; i < l->rank; i++)
        l->count *= (size_t)l->dims[i];
    bool braces = accept(r, "{");
    for (size_t i = 0; i < l->count; i++) {
        if (l->dtype == XCVM_STRING)
            string(r, l->strings[i]);
        else
            l->numbers[i] = number(r);
    }
    if (braces)
        need(r, "}");
}

static void store(xcvm_dtype dtype, double value, void *at)
{
    const int64_t integer = (int64_t)value;
    const float narrow = (float)value;
    const uint16_t half = dtype == XCVM_F16 ? xcvm_f32_to_f16(narrow) : xcvm_f32_to_bf16(narrow);
    if (dtype == XCVM_F32)
        memcpy(at, &narrow, sizeof narrow);
    else if (dtype == XCVM_F64)
        memcpy(at, &value, sizeof value);
    else if (dtype == XCVM_F16 || dtype == XCVM_BF16)
        memcpy(at, &half, sizeof half);
    else
        memcpy(at, &integer, xcvm_dtype_size(dtype));
}

static test_bytes tensor(const literal *l, const char *name)
{
    test_bytes t = {0}, raw = {0};
    for (int i = 0; i < l->rank; i++)
        put_int(&t, 1, l->dims[i]);
    put_int(&t, 2, l->dtype);
    put_text(&t, 8, name);
    if (l->dtype == XCVM_STRING) {
        for (size_t i = 0; i < l->count; i++)
            put_text(&t, 6, l->strings[i]);
        return t;
    }
    for (size_t i = 0; i < l->count; i++) {
        char bytes[16];
        store(l->dtype, l->numbers[i], bytes);
        test_bytes_sink(&raw, bytes, xcvm_dtype_size(l->dtype));
    }
    put_bytes(&t, 9, raw.at, raw.length);
    test_bytes_free(&raw);
    return t;
}

/* ---- Graphs ---- */

static test_bytes read_type(reader *r)
{
    test_bytes type = {0}, inner, body = {0};
    bool sequence = accept(r, "seq("), optional = !sequence && accept(r, "optional(");
    if (sequence || optional) {
        inner = read_type(r);
        need(r, ")");
        put_message(&body, 1, &inner);
        put_message(&type, sequence ? 4 : 9, &body);
        return type;
    }
    char text[WORD], names[16][WORD];
    int64_t list[16];
    word(r, text);
    put_int(&body, 1, dtype_of(text));
    if (accept(r, "[")) {
        test_bytes shape = {0};
        int rank = dims(r, list, names);
        for (int i = 0; i < rank; i++) {
            test_bytes dim = {0};
            if (names[i][0] != '\0')
                put_text(&dim, 2, names[i]);
            else
                put_int(&dim, 1, list[i]);
            put_message(&shape, 1, &dim);
        }
        put_message(&body, 2, &shape);
    }
    put_message(&type, 1, &body);
    return type;
}

static test_bytes *graph_named(reader *r, const char *name)
{
    for (size_t i = 0; i < r->graph_count; i++)
        if (strcmp(r->graphs[i].name, name) == 0)
            return &r->graphs[i].bytes;
    ck_abort_msg("there is no graph %s", name);
    return NULL;
}

/* Values of an attribute: fields of AttributeProto, and its type. */
static void read_list(reader *r, test_bytes *a)
{
    int type = 7;
    for (const char *c = r->at; *c != ']' && *c != '\0'; c++)
        if (*c == '"')
            type = 8;
        else if (*c == '.' && type != 8)
            type = 6;
    while (!accept(r, "]")) {
        char text[WORD];
        if (type == 8) {
            string(r, text);
            put_text(a, 9, text);
        } else if (type == 6) {
            put_float(a, 7, (float)number(r));
        } else {
            put_int(a, 8, (int64_t)number(r));
        }
    }
    put_int(a, 20, type);
}

static void read_attribute(reader *r, test_bytes *node)
{
    char name[WORD], text[WORD];
    test_bytes a = {0};
    word(r, name);
    put_text(&a, 1, name);
    need(r, "=");
    if (accept(r, "@")) {
        word(r, text);
        const test_bytes *graph = graph_named(r, text);
        put_bytes(&a, 6, graph->at, graph->length);
        put_int(&a, 20, 5);
    } else if (accept(r, "$")) {
        word(r, text);
        put_text(&a, 21, text);
        put_int(&a, 20, 2);
    } else if (accept(r, "[")) {
        read_list(r, &a);
    } else if (*r->at == '"') {
        string(r, text);
        put_text(&a, 4, text);
        put_int(&a, 20, 3);
    } else if (isalpha((unsigned char)*r->at)) {
        const char *start = r->at;
        word(r, text);
        if (*r->at == '[') {
            static literal l;
            r->at = start;
            read_literal(r, &l);
            test_bytes t = tensor(&l, "");
            put_message(&a, 5, &t);
            put_int(&a, 20, 4);
        } else {
            put_int(&a, 3, dtype_of(text));
            put_int(&a, 20, 2);
        }
    } else {
        const char *start = r->at;
        double value = number(r);
        bool floating = memchr(start, '.', (size_t)(r->at - start)) != NULL;
        if (floating)
            put_float(&a, 2, (float)value);
        else
            put_int(&a, 3, strtoll(start, NULL, 10));
        put_int(&a, 20, floating ? 1 : 2);
    }
    put_message(node, 5, &a);
}

static void read_node(reader *r, test_bytes *graph, unsigned field)
{
    char text[WORD], domain[WORD] = "";
    test_bytes node = {0};
    do {
        word(r, text);
        put_text(&node, 2, strcmp(text, "_") == 0 ? "" : text);
    } while (accept(r, ","));
    need(r, "=");
    word(r, text);
    if (accept(r, "::")) {
        strcpy(domain, text);
        word(r, text);
    }
    put_text(&node, 4, text);
    if (domain[0] != '\0')
        put_text(&node, 7, domain);
    need(r, "(");
    while (!accept(r, ")")) {
        word(r, text);
        put_text(&node, 1, strcmp(text, "_") == 0 ? "" : text);
        accept(r, ",");
    }
    skip(r);
    while (*r->at != '\n' && *r->at != '\0') {
        read_attribute(r, &node);
        skip(r);
    }
    put_message(graph, field, &node);
}

static void read_value(reader *r, test_bytes *graph, unsigned field)
{
    char text[WORD];
    test_bytes info = {0};
    word(r, text);
    put_text(&info, 1, text);
    skip(r);
    if (*r->at != '\n' && *r->at != '\0') {
        test_bytes type = read_type(r);
        put_message(&info, 2, &type);
    }
    put_message(graph, field, &info);
}

static bool read_graph_line(reader *r, test_bytes *graph)
{
    if (accept(r, "input ")) {
        read_value(r, graph, 11);
    } else if (accept(r, "output ")) {
        read_value(r, graph, 12);
    } else if (accept(r, "init ")) {
        char name[WORD];
        static literal l;
        word(r, name);
        read_literal(r, &l);
        test_bytes t = tensor(&l, name);
        put_message(graph, 5, &t);
    } else {
        return false;
    }
    return true;
}

static void end_line(reader *r)
{
    skip(r);
    ck_assert_msg(*r->at == '\n' || *r->at == '\0', "the line goes on: %.40s", r->at);
    while (*r->at == '\n' || *r->at == ' ')
        r->at++;
}

static void read_body(reader *r)
{
    ck_assert_uint_lt(r->graph_count, MOST_GRAPHS);
    test_bytes graph = {0};
    char name[WORD];
    word(r, name);
    put_text(&graph, 2, name);
    need(r, "{");
    end_line(r);
    while (!accept(r, "}")) {
        if (!read_graph_line(r, &graph))
            read_node(r, &graph, 1);
        end_line(r);
    }
    strcpy(r->graphs[r->graph_count].name, name);
    r->graphs[r->graph_count++].bytes = graph;
}

static void read_opset(reader *r, test_bytes *to, unsigned field)
{
    char text[WORD];
    test_bytes opset = {0};
    skip(r);
    if (!isdigit((unsigned char)*r->at)) {
        word(r, text);
        put_text(&opset, 1, text);
    }
    put_int(&opset, 2, (int64_t)number(r));
    put_message(to, field, &opset);
}

static void read_function(reader *r, test_bytes *model)
{
    char text[WORD];
    test_bytes function = {0};
    word(r, text);
    put_text(&function, 10, text);
    need(r, "::");
    word(r, text);
    put_text(&function, 1, text);
    need(r, "(");
    while (!accept(r, ")")) {
        word(r, text);
        put_text(&function, 4, text);
        accept(r, ",");
    }
    need(r, "-> (");
    while (!accept(r, ")")) {
        word(r, text);
        put_text(&function, 5, text);
        accept(r, ",");
    }
    while (!accept(r, "{")) {
        word(r, text);
        put_text(&function, 6, text);
    }
    end_line(r);
    while (!accept(r, "}")) {
        if (accept(r, "opset "))
            read_opset(r, &function, 9);
        else
            read_node(r, &function, 7);
        end_line(r);
    }
    put_message(model, 25, &function);
}

test_bytes onnx_from_text(const char *text)
{
    reader r = {.at = text};
    test_bytes model = {0}, graph = {0};
    put_text(&graph, 2, "test");
    while (*r.at == ' ' || *r.at == '\n')
        r.at++;
    while (*r.at != '\0') {
        if (accept(&r, "ir "))
            put_int(&model, 1, (int64_t)number(&r));
        else if (accept(&r, "opset "))
            read_opset(&r, &model, 8);
        else if (accept(&r, "graph "))
            read_body(&r);
        else if (accept(&r, "function "))
            read_function(&r, &model);
        else if (!read_graph_line(&r, &graph))
            read_node(&r, &graph, 1);
        end_line(&r);
    }
    put_message(&model, 7, &graph);
    for (size_t i = 0; i < r.graph_count; i++)
        test_bytes_free(&r.graphs[i].bytes);
    return model;
}

/* ---- Running ---- */

static xcvm_value *read_value_text(reader *r)
{
    static literal l;
    xcvm_value *value;
    xcvm_error error;
    bool sequence = accept(r, "seq("), optional = !sequence && accept(r, "optional(");
    if (sequence || optional) {
        xcvm_value *items[16], *list;
        size_t count = 0;
        while (!accept(r, ")")) {
            items[count++] = read_value_text(r);
            accept(r, ",");
        }
        ck_assert_int_eq(
            xcvm_list_create(NULL, sequence ? XCVM_KIND_SEQUENCE : XCVM_KIND_OPTIONAL, count, items, &list, &error),
            XCVM_OK);
        for (size_t i = 0; i < count; i++)
            xcvm_value_release(items[i]);
        return list;
    }
    read_literal(r, &l);
    if (l.dtype == XCVM_STRING) {
        const char *strings[16];
        for (size_t i = 0; i < l.count; i++)
            strings[i] = l.strings[i];
        ck_assert_int_eq(xcvm_string_tensor_create(NULL, l.rank, l.dims, strings, NULL, &value, &error), XCVM_OK);
        return value;
    }
    ck_assert_int_eq(xcvm_tensor_create(NULL, l.dtype, l.rank, l.dims, &value, &error), XCVM_OK);
    for (size_t i = 0; i < l.count; i++)
        store(l.dtype, l.numbers[i], (char *)xcvm_value_data(value) + i * xcvm_dtype_size(l.dtype));
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
        if (strcmp(xcvm_program_input(program, i)->name, name) == 0) {
            xcvm_status status = xcvm_session_set_input(session, i, value, &error);
            ck_assert_msg(status == XCVM_OK, "%s", error.message);
            return;
        }
    ck_abort_msg("there is no input %s", name);
}

static const xcvm_value *result(const xcvm_session *session, const xcvm_program *program, const char *name)
{
    for (size_t i = 0; i < xcvm_program_output_count(program); i++)
        if (strcmp(xcvm_program_output(program, i)->name, name) == 0)
            return xcvm_session_output(session, i);
    ck_abort_msg("there is no output %s", name);
    return NULL;
}

void onnx_expect(const char *text, const char *given, const char *expected)
{
    test_bytes model = onnx_from_text(text), bytes = {0};
    xcvm_error error;
    xcvm_status status = xcc_compile(model.at, model.length, NULL, test_bytes_sink, &bytes, NULL, &error);
    ck_assert_msg(status == XCVM_OK, "%s: %s\n%s", xcvm_status_name(status), error.message, text);
    xcvm_program *program;
    xcvm_session *session;
    status = xcvm_program_load(bytes.at, bytes.length, NULL, &program, &error);
    ck_assert_msg(status == XCVM_OK, "%s\n%s", error.message, text);
    const xcvm_session_options options = {.size = sizeof options, .threads = 1};
    ck_assert_int_eq(xcvm_session_create(program, &options, &session, &error), XCVM_OK);
    char name[WORD];
    for (reader r = {.at = given}; *r.at != '\0'; end_line(&r)) {
        word(&r, name);
        xcvm_value *value = read_value_text(&r);
        bind(session, program, name, value);
        xcvm_value_release(value);
    }
    status = xcvm_session_run(session, NULL, &error);
    ck_assert_msg(status == XCVM_OK, "%s: %s\n%s", error.instruction, error.message, text);
    for (reader r = {.at = expected}; *r.at != '\0'; end_line(&r)) {
        word(&r, name);
        xcvm_value *value = read_value_text(&r);
        const xcvm_value *actual = result(session, program, name);
        if (!equal(actual, value)) {
            print_value(actual);
            ck_abort_msg("%s is another value, of\n%s", name, text);
        }
        xcvm_value_release(value);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    test_bytes_free(&bytes);
    test_bytes_free(&model);
}

void onnx_refuse(const char *text, xcvm_status status, const char *part)
{
    test_bytes model = onnx_from_text(text), bytes = {0};
    xcvm_error error = {.pc = -1};
    xcvm_status actual = xcc_compile(model.at, model.length, NULL, test_bytes_sink, &bytes, NULL, &error);
    ck_assert_msg(actual == status, "%s instead of %s: %s\n%s", xcvm_status_name(actual), xcvm_status_name(status),
                  error.message, text);
    ck_assert_msg(strstr(error.message, part) != NULL, "'%s' is not in: %s", part, error.message);
    ck_assert_uint_eq(bytes.length, 0);
    test_bytes_free(&bytes);
    test_bytes_free(&model);
}
