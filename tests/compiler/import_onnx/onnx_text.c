/* The parser of the ONNX models of tests. */
#include "tests/compiler/import_onnx/onnx_text.h"
#include "tests/compiler/import_onnx/onnx_reader.h"

#include "base/dtype.h"
#include "proto/wire.h"

#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Writing fields ---- */

static void put_key(test_bytes *to, unsigned field, unsigned type, uint64_t value)
{
    uint8_t bytes[2 * XCVM_VARINT_SIZE];
    size_t n = xcvm_varint_put(bytes, field << 3 | type);
    n += xcvm_varint_put(bytes + n, value);
    test_bytes_sink(to, bytes, n);
}

static void put_int(test_bytes *to, unsigned field, int64_t value)
{
    put_key(to, field, XCVM_WIRE_VARINT, (uint64_t)value);
}

static void put_bytes(test_bytes *to, unsigned field, const void *bytes, size_t count)
{
    put_key(to, field, XCVM_WIRE_BYTES, count);
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
    uint8_t bytes[XCVM_VARINT_SIZE];
    test_bytes_sink(to, bytes, xcvm_varint_put(bytes, field << 3 | XCVM_WIRE_32BIT));
    test_bytes_sink(to, &value, sizeof value);
}

/* ---- Reading text ---- */

static void skip(onnx_reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

bool onnx_accept(onnx_reader *r, const char *token)
{
    skip(r);
    size_t length = strlen(token);
    if (strncmp(r->at, token, length) != 0)
        return false;
    r->at += length;
    return true;
}

void onnx_need(onnx_reader *r, const char *token)
{
    ck_assert_msg(onnx_accept(r, token), "'%s' is expected before: %.40s", token, r->at);
}

static bool word_char(char c) { return isalnum((unsigned char)c) || (c != '\0' && strchr("_.-+/", c) != NULL); }

void onnx_word(onnx_reader *r, char text[ONNX_WORD])
{
    skip(r);
    size_t n = 0;
    while (word_char(*r->at) && n < ONNX_WORD - 1)
        text[n++] = *r->at++;
    text[n] = '\0';
    ck_assert_msg(n > 0, "a word is expected before: %.40s", r->at);
}

static void string(onnx_reader *r, char text[ONNX_WORD])
{
    size_t n = 0;
    onnx_need(r, "\"");
    while (*r->at != '"' && n < ONNX_WORD - 1)
        text[n++] = *r->at++;
    text[n] = '\0';
    onnx_need(r, "\"");
}

static double number(onnx_reader *r)
{
    char *end;
    skip(r);
    double value = strtod(r->at, &end);
    ck_assert_msg(end != r->at, "a number is expected before: %.40s", r->at);
    r->at = end;
    return value;
}

/* Reads dimensions after "[", including "]"; names become -1. */
static int dims(onnx_reader *r, int64_t *list, char (*names)[ONNX_WORD])
{
    int rank = 0;
    while (!onnx_accept(r, "]")) {
        char text[ONNX_WORD] = "";
        size_t n = 0;
        skip(r);
        while ((isalnum((unsigned char)*r->at) && *r->at != 'x') || *r->at == '-')
            text[n++] = *r->at++;
        text[n] = '\0';
        bool numeric = isdigit((unsigned char)text[0]) || text[0] == '-';
        list[rank] = numeric ? strtoll(text, NULL, 10) : -1;
        strcpy(names[rank++], numeric ? "" : text);
        onnx_accept(r, "x");
    }
    return rank;
}

/* ---- Tensors ---- */

static xcvm_dtype dtype_of(const char *text)
{
    xcvm_dtype dtype = xcvm_dtype_from_name(text);
    ck_assert_msg(dtype != XCVM_NO_DTYPE, "%s is no element type", text);
    return dtype;
}

void onnx_read_literal(onnx_reader *r, onnx_literal *l)
{
    char text[ONNX_WORD], names[16][ONNX_WORD];
    onnx_word(r, text);
    *l = (onnx_literal){.dtype = dtype_of(text), .count = 1};
    onnx_need(r, "[");
    l->rank = dims(r, l->dims, names);
    for (int i = 0; i < l->rank; i++)
        l->count *= (size_t)l->dims[i];
    bool braces = onnx_accept(r, "{");
    for (size_t i = 0; i < l->count; i++) {
        if (l->dtype == XCVM_STRING)
            string(r, l->strings[i]);
        else
            l->numbers[i] = number(r);
    }
    if (braces)
        onnx_need(r, "}");
}

void onnx_store(xcvm_dtype dtype, double value, void *at)
{
    const int64_t integer = value >= -9e18 && value <= 9e18 ? (int64_t)value : 0;
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

static test_bytes tensor(const onnx_literal *l, const char *name)
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
        onnx_store(l->dtype, l->numbers[i], bytes);
        test_bytes_sink(&raw, bytes, xcvm_dtype_size(l->dtype));
    }
    put_bytes(&t, 9, raw.at, raw.length);
    test_bytes_free(&raw);
    return t;
}

/* ---- Graphs ---- */

static test_bytes read_type(onnx_reader *r)
{
    test_bytes type = {0}, inner, body = {0};
    bool sequence = onnx_accept(r, "seq("), optional = !sequence && onnx_accept(r, "optional(");
    if (sequence || optional) {
        inner = read_type(r);
        onnx_need(r, ")");
        put_message(&body, 1, &inner);
        put_message(&type, sequence ? 4 : 9, &body);
        return type;
    }
    char text[ONNX_WORD], names[16][ONNX_WORD];
    int64_t list[16];
    if (onnx_accept(r, "map(")) {
        onnx_word(r, text);
        put_int(&body, 1, dtype_of(text));
        onnx_need(r, ",");
        inner = read_type(r);
        onnx_need(r, ")");
        put_message(&body, 2, &inner);
        put_message(&type, 5, &body);
        return type;
    }
    onnx_word(r, text);
    put_int(&body, 1, dtype_of(text));
    if (onnx_accept(r, "[")) {
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

static test_bytes *graph_named(onnx_reader *r, const char *name)
{
    for (size_t i = 0; i < r->graph_count; i++)
        if (strcmp(r->graphs[i].name, name) == 0)
            return &r->graphs[i].bytes;
    ck_abort_msg("there is no graph %s", name);
    return NULL;
}

/* Values of an attribute: fields of AttributeProto, and its type. */
static void read_list(onnx_reader *r, test_bytes *a)
{
    int type = 7;
    for (const char *c = r->at; *c != ']' && *c != '\0'; c++)
        if (*c == '"')
            type = 8;
        else if (*c == '.' && type != 8)
            type = 6;
    while (!onnx_accept(r, "]")) {
        char text[ONNX_WORD];
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

static void read_attribute(onnx_reader *r, test_bytes *node)
{
    char name[ONNX_WORD], text[ONNX_WORD];
    test_bytes a = {0};
    onnx_word(r, name);
    put_text(&a, 1, name);
    onnx_need(r, "=");
    if (onnx_accept(r, "@")) {
        onnx_word(r, text);
        const test_bytes *graph = graph_named(r, text);
        put_bytes(&a, 6, graph->at, graph->length);
        put_int(&a, 20, 5);
    } else if (onnx_accept(r, "$")) {
        onnx_word(r, text);
        put_text(&a, 21, text);
        put_int(&a, 20, 2);
    } else if (onnx_accept(r, "[")) {
        read_list(r, &a);
    } else if (*r->at == '"') {
        string(r, text);
        put_text(&a, 4, text);
        put_int(&a, 20, 3);
    } else if (isalpha((unsigned char)*r->at)) {
        const char *start = r->at;
        onnx_word(r, text);
        if (*r->at == '[') {
            static onnx_literal l;
            r->at = start;
            onnx_read_literal(r, &l);
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
        bool floating =
            memchr(start, '.', (size_t)(r->at - start)) != NULL || memchr(start, 'n', (size_t)(r->at - start)) != NULL;
        if (floating)
            put_float(&a, 2, (float)value);
        else
            put_int(&a, 3, strtoll(start, NULL, 10));
        put_int(&a, 20, floating ? 1 : 2);
    }
    put_message(node, 5, &a);
}

static void read_node(onnx_reader *r, test_bytes *graph, unsigned field)
{
    char text[ONNX_WORD], domain[ONNX_WORD] = "";
    test_bytes node = {0};
    do {
        onnx_word(r, text);
        put_text(&node, 2, strcmp(text, "_") == 0 ? "" : text);
    } while (onnx_accept(r, ","));
    onnx_need(r, "=");
    onnx_word(r, text);
    if (onnx_accept(r, "::")) {
        strcpy(domain, text);
        onnx_word(r, text);
    }
    put_text(&node, 4, text);
    if (domain[0] != '\0')
        put_text(&node, 7, domain);
    onnx_need(r, "(");
    while (!onnx_accept(r, ")")) {
        onnx_word(r, text);
        put_text(&node, 1, strcmp(text, "_") == 0 ? "" : text);
        onnx_accept(r, ",");
    }
    skip(r);
    while (*r->at != '\n' && *r->at != '\0') {
        read_attribute(r, &node);
        skip(r);
    }
    put_message(graph, field, &node);
}

static void read_value(onnx_reader *r, test_bytes *graph, unsigned field)
{
    char text[ONNX_WORD];
    test_bytes info = {0};
    onnx_word(r, text);
    put_text(&info, 1, text);
    skip(r);
    if (*r->at != '\n' && *r->at != '\0') {
        test_bytes type = read_type(r);
        put_message(&info, 2, &type);
    }
    put_message(graph, field, &info);
}

static bool read_graph_line(onnx_reader *r, test_bytes *graph)
{
    if (onnx_accept(r, "input ")) {
        read_value(r, graph, 11);
    } else if (onnx_accept(r, "output ")) {
        read_value(r, graph, 12);
    } else if (onnx_accept(r, "init ")) {
        char name[ONNX_WORD];
        static onnx_literal l;
        onnx_word(r, name);
        onnx_read_literal(r, &l);
        test_bytes t = tensor(&l, name);
        put_message(graph, 5, &t);
    } else {
        return false;
    }
    return true;
}

void onnx_end_line(onnx_reader *r)
{
    skip(r);
    ck_assert_msg(*r->at == '\n' || *r->at == '\0', "the line goes on: %.40s", r->at);
    while (*r->at == '\n' || *r->at == ' ')
        r->at++;
}

static void read_body(onnx_reader *r)
{
    ck_assert_uint_lt(r->graph_count, ONNX_GRAPHS);
    test_bytes graph = {0};
    char name[ONNX_WORD];
    onnx_word(r, name);
    put_text(&graph, 2, name);
    onnx_need(r, "{");
    onnx_end_line(r);
    while (!onnx_accept(r, "}")) {
        if (!read_graph_line(r, &graph))
            read_node(r, &graph, 1);
        onnx_end_line(r);
    }
    strcpy(r->graphs[r->graph_count].name, name);
    r->graphs[r->graph_count++].bytes = graph;
}

static void read_opset(onnx_reader *r, test_bytes *to, unsigned field)
{
    char text[ONNX_WORD];
    test_bytes opset = {0};
    skip(r);
    if (!isdigit((unsigned char)*r->at)) {
        onnx_word(r, text);
        put_text(&opset, 1, text);
    }
    put_int(&opset, 2, (int64_t)number(r));
    put_message(to, field, &opset);
}

static void read_function(onnx_reader *r, test_bytes *model)
{
    char text[ONNX_WORD];
    test_bytes function = {0};
    onnx_word(r, text);
    put_text(&function, 10, text);
    onnx_need(r, "::");
    onnx_word(r, text);
    put_text(&function, 1, text);
    onnx_need(r, "(");
    while (!onnx_accept(r, ")")) {
        onnx_word(r, text);
        put_text(&function, 4, text);
        onnx_accept(r, ",");
    }
    onnx_need(r, "-> (");
    while (!onnx_accept(r, ")")) {
        onnx_word(r, text);
        put_text(&function, 5, text);
        onnx_accept(r, ",");
    }
    while (!onnx_accept(r, "{")) {
        onnx_word(r, text);
        put_text(&function, 6, text);
    }
    onnx_end_line(r);
    while (!onnx_accept(r, "}")) {
        if (onnx_accept(r, "opset "))
            read_opset(r, &function, 9);
        else
            read_node(r, &function, 7);
        onnx_end_line(r);
    }
    put_message(model, 25, &function);
}

/* If the environment variable is set, models are saved, so that scripts/lowerings.sh can inspect them. */
static void save_model(const test_bytes *model)
{
    static unsigned count;
    const char *folder = getenv("XCVM_KEEP_MODELS");
    char path[512];
    if (folder == NULL)
        return;
    snprintf(path, sizeof path, "%s/%d-%u.onnx", folder, (int)getpid(), count++);
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "%s cannot be written", path);
    ck_assert_uint_eq(fwrite(model->at, 1, model->length, file), model->length);
    ck_assert_int_eq(fclose(file), 0);
}

test_bytes onnx_from_text(const char *text)
{
    onnx_reader r = {.at = text};
    test_bytes model = {0}, graph = {0};
    put_text(&graph, 2, "test");
    while (*r.at == ' ' || *r.at == '\n')
        r.at++;
    while (*r.at != '\0') {
        if (onnx_accept(&r, "ir "))
            put_int(&model, 1, (int64_t)number(&r));
        else if (onnx_accept(&r, "opset "))
            read_opset(&r, &model, 8);
        else if (onnx_accept(&r, "graph "))
            read_body(&r);
        else if (onnx_accept(&r, "function "))
            read_function(&r, &model);
        else if (!read_graph_line(&r, &graph))
            read_node(&r, &graph, 1);
        onnx_end_line(&r);
    }
    put_message(&model, 7, &graph);
    for (size_t i = 0; i < r.graph_count; i++)
        test_bytes_free(&r.graphs[i].bytes);
    save_model(&model);
    return model;
}
