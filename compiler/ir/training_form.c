/* Nodes in training form: finding and naming them, and converting them to inference form. */
#include "compiler/ir/training_form.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/compilation.h"

#include "ops/util/convert.h"

#include <stdio.h>
#include <string.h>

/* ---- Names ---- */

void xcc_node_names_add(xcc_node_names *names, const char *name, const char *op, unsigned uses)
{
    enum { NAMED = 3 };
    names->count++;
    names->uses |= uses;
    if (names->named == NAMED)
        return;
    const int length =
        snprintf(names->text + names->length, sizeof names->text - names->length, "%s'%.60s' (%.30s)",
                 names->named > 0 ? ", " : "", name != NULL && name[0] != '\0' ? name : "without a name", op);
    names->length += length > 0 ? (size_t)length : 0;
    names->named++;
}

void xcc_node_names_note(const xcc_node_names *names, const xcc_options *options, xcc_diagnostic_kind kind,
                         const char *what)
{
    char text[700], more[40] = "";
    if (names->count == 0 || options->diagnostics.call == NULL)
        return;
    if (names->count > names->named)
        (void)snprintf(more, sizeof more, " and %zu more", names->count - names->named);
    (void)snprintf(text, sizeof text, "%zu %s %s: %s%s", names->count, names->count == 1 ? "node is" : "nodes are",
                   what, names->text, more);
    options->diagnostics.call(options->diagnostics.user, kind, text);
}

/* ---- Nodes ---- */

/* Reads a constant of one element; false if it is not one. */
static bool is_number(const xcvm_value *operand, double *number)
{
    const xcc_value *v = (const xcc_value *)operand;
    if (!xcc_is_constant(v) || v->type.data == NULL || xcvm_value_count(&v->type) != 1)
        return false;
    if (xcvm_dtype_is_float((xcvm_dtype)v->type.dtype))
        xcvm_load_f64((xcvm_dtype)v->type.dtype, v->type.data, 0, 1, number);
    else
        *number = (double)xcvm_element_as_int(&v->type, 0);
    return true;
}

unsigned xcc_node_training_form(const xcc_node *n)
{
    double number;
    if (xcc_is(n, XCVM_OP_BatchNormalization))
        return XCC_ARGS(BatchNormalization, n)->training_mode != 0 ? XCC_USES_BATCH : 0;
    if (!xcc_is(n, XCVM_OP_Dropout))
        return 0;
    const xcvm_Dropout_args *a = XCC_ARGS(Dropout, n);
    if (!is_number(a->training_mode, &number) || number == 0)
        return 0;
    return is_number(a->ratio, &number) && number == 0 ? 0 : XCC_USES_RANDOM;
}

xcvm_status xcc_node_to_inference(xcc_node *n)
{
    enum { TRAINING_MODE = 2 };
    if (xcc_is(n, XCVM_OP_BatchNormalization))
        XCC_ARGS(BatchNormalization, n)->training_mode = 0;
    if (!xcc_is(n, XCVM_OP_Dropout) || XCC_ARGS(Dropout, n)->training_mode == NULL)
        return XCVM_OK;
    xcc_value *no = xcc_scalar(n->graph->module->graph, XCVM_BOOL, 0);
    if (no == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcc_node_set_input(n, TRAINING_MODE, no);
    return XCVM_OK;
}

/* ---- Graphs ---- */

static xcvm_status resolve(xcc_module *m, const xcc_graph *g, xcc_node_names *names)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(m));
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(resolve(m, n->bodies[i], names));
        if (m->options->inference)
            XCVM_TRY(xcc_node_to_inference(n));
        const unsigned uses = xcc_node_training_form(n);
        if (uses != 0)
            xcc_node_names_add(names, n->name, n->schema->name, uses);
    }
    return XCVM_OK;
}

xcvm_status xcc_training_form_resolve(xcc_module *m)
{
    static const char *const what[] = {
        [XCC_USES_BATCH] = "in training form, so that results depend on the batch",
        [XCC_USES_RANDOM] = "in training form, so that results depend on random numbers",
        [XCC_USES_BATCH | XCC_USES_RANDOM] =
            "in training form, so that results depend on the batch and on random numbers",
    };
    const xcc_options *o = m->options;
    xcc_node_names names = {.count = 0};
    XCVM_TRY(resolve(m, m->graph, &names));
    m->compilation->training_nodes = names.count;
    if (!o->backprop && o->train == NULL)
        xcc_node_names_note(&names, o, XCC_DIAGNOSTIC_TRAINING_FORM, what[names.uses]);
    return XCVM_OK;
}
