/* Text dump of graphs. */
#include "compiler/ir/graph.h"
#include "proto/image.h"

#include <stdio.h>
#include <string.h>

typedef struct writer {
    const xcc_module *m;
    xcvm_sink sink;
    bool failed;
} writer;

static void put(writer *w, const char *text)
{
    if (!w->failed && !w->sink.call(w->sink.user, text, strlen(text)))
        w->failed = true;
}

static void put_indent(writer *w, uint32_t depth)
{
    for (uint32_t i = 0; i < depth; i++)
        put(w, "    ");
}

static void put_type(writer *w, const xcvm_value *type)
{
    char text[64];
    if (type->kind == XCVM_KIND_NULL) {
        put(w, "?");
    } else if (type->kind != XCVM_KIND_TENSOR) {
        const char *kind = type->kind == XCVM_KIND_SEQUENCE   ? "seq"
                           : type->kind == XCVM_KIND_OPTIONAL ? "optional"
                           : type->kind == XCVM_KIND_MAP      ? "map"
                                                              : "opaque";
        snprintf(text, sizeof text, "%s(%s)", kind, xcvm_dtype_name(type->dtype));
        put(w, text);
    } else {
        put(w, xcvm_dtype_name(type->dtype));
        if (type->rank < 0)
            put(w, "[...]");
        if (type->rank > 0)
            put(w, "[");
        for (int i = 0; i < type->rank; i++) {
            const char *name = xcc_symbol_name(w->m, type->dims[i]);
            if (type->dims[i] >= 0)
                snprintf(text, sizeof text, "%s%lld", i > 0 ? "x" : "", (long long)type->dims[i]);
            else if (type->dims[i] == XCVM_ANY_DIM)
                snprintf(text, sizeof text, "%s?", i > 0 ? "x" : "");
            else if (name != NULL)
                snprintf(text, sizeof text, "%s%.48s", i > 0 ? "x" : "", name);
            else
                snprintf(text, sizeof text, "%s?%lld", i > 0 ? "x" : "", (long long)(-2 - type->dims[i]));
            put(w, text);
        }
        if (type->rank > 0)
            put(w, "]");
    }
}

static void put_value(writer *w, const xcc_value *v)
{
    if (v == NULL) {
        put(w, "_");
        return;
    }
    static const char *const marks[] = {
        [XCC_RESULT] = "", [XCC_INPUT] = "", [XCC_CONSTANT] = "@", [XCC_PARAMETER] = "%", [XCC_STATE] = "&"};
    put(w, marks[v->kind]);
    put(w, v->name);
}

static void put_result(writer *w, const xcc_value *v)
{
    put_value(w, v);
    if (v == NULL)
        return;
    put(w, ": ");
    put_type(w, &v->type);
}

static void put_operands(writer *w, const xcc_node *n)
{
    bool first = true;
    for (size_t f = 0; f < n->schema->field_count; f++) {
        const xcvm_field *field = &n->schema->fields[f];
        if (!xcvm_field_is_input(field))
            continue;
        put(w, first ? "" : ", ");
        first = false;
        bool list = xcvm_field_is_list(field);
        size_t count = xcvm_field_count(field, n->args);
        put(w, list ? "[" : "");
        for (size_t i = 0; i < count; i++) {
            put(w, i > 0 ? ", " : "");
            put_value(w, xcc_value_of(xcvm_field_value(field, n->args, i)));
        }
        put(w, list ? "]" : "");
    }
    char attributes[400];
    xcvm_attributes_describe(n->schema, n->args, attributes, sizeof attributes);
    put(w, attributes[0] != '\0' ? (first ? "" : "; ") : "");
    put(w, attributes);
}

static void put_variables(writer *w)
{
    for (const xcc_value *v = w->m->variables; v != NULL; v = v->next_owned) {
        if (!xcc_is_variable(v))
            continue;
        put_indent(w, 1);
        put_result(w, v);
        put(w, v->kind == XCC_PARAMETER ? ", a parameter\n" : ", a state\n");
    }
}

static void put_graph(writer *w, const xcc_graph *g)
{
    put_indent(w, g->depth);
    put(w, g->name);
    put(w, "(");
    for (size_t i = 0; i < g->input_count; i++) {
        put(w, i > 0 ? ", " : "");
        put_result(w, g->inputs[i]);
    }
    put(w, ")\n");
    if (g->owner == NULL)
        put_variables(w);
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        size_t outputs = xcc_node_output_count(n);
        put_indent(w, g->depth + 1);
        for (size_t i = 0; i < outputs; i++) {
            put(w, i > 0 ? ", " : "");
            put_result(w, xcc_node_output(n, i));
        }
        put(w, outputs > 0 ? " = " : "");
        put(w, n->kind == XCC_INSTRUCTION ? n->schema->name : n->kind == XCC_IF ? "If" : "Loop");
        put(w, "(");
        if (n->kind == XCC_INSTRUCTION)
            put_operands(w, n);
        for (size_t i = 0; n->kind != XCC_INSTRUCTION && i < n->input_count; i++) {
            put(w, i > 0 ? ", " : "");
            put_value(w, n->inputs[i]);
        }
        put(w, ")");
        if (n->name[0] != '\0' || n->origin[0] != '\0') {
            put(w, "  # ");
            put(w, n->origin);
            put(w, " ");
            put(w, n->name);
        }
        for (size_t i = 0; i < n->capture_count; i++) {
            put(w, i > 0 ? ", " : "  uses ");
            put_value(w, n->captures[i]);
        }
        put(w, "\n");
        for (size_t i = 0; i < n->body_count; i++)
            put_graph(w, n->bodies[i]);
    }
    put_indent(w, g->depth + 1);
    put(w, "return ");
    for (size_t i = 0; i < g->output_count; i++) {
        put(w, i > 0 ? ", " : "");
        put_value(w, g->outputs[i]);
    }
    put(w, "\n");
}

xcvm_status xcc_graph_dump(const xcc_graph *g, xcvm_sink sink)
{
    writer w = {.m = g->module, .sink = sink};
    put_graph(&w, g);
    return w.failed ? xcvm_error_set(g->module->error, XCVM_IO, "the dump cannot be written") : XCVM_OK;
}
