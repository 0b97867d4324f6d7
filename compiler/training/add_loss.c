/* The pass that adds the loss that the options select by name. If there is none, the error lists suitable losses. */
#include "compiler/gradients/gradients.h"
#include "compiler/ir/compilation.h"
#include "compiler/training/losses.h"
#include "compiler/training/training.h"

#include <stdio.h>
#include <string.h>

/* ---- Messages ---- */

static void append(char *text, size_t size, const char *name)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%.60s", used > 0 ? ", " : "", name);
}

static void list_losses(char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; xcc_loss_at(i) != NULL; i++)
        append(text, size, xcc_loss_at(i)->name);
}

/* Lists the losses that suit an output, by its producer and its shape. */
static const char *suitable(const xcc_value *output)
{
    const xcc_node *n = output->producer;
    const xcvm_value *type = &output->type;
    if (n != NULL && xcc_is(n, XCVM_OP_LogSoftmax))
        return "'nll' suits an output of LogSoftmax with integer labels of classes";
    if (n != NULL && xcc_is(n, XCVM_OP_Softmax))
        return "the output is that of a Softmax, which 'softmax_cross_entropy' has inside: end the model with the "
               "scores before it";
    if (n != NULL && xcc_is(n, XCVM_OP_Sigmoid))
        return "'bce' suits an output of Sigmoid with labels from 0 to 1 of its shape";
    if (type->rank == 3)
        return "'token_cross_entropy' suits integer labels of classes along the last axis, 'mse' float labels of the "
               "output's shape";
    if (type->rank >= 2 && type->dims[1] != 1)
        return "'softmax_cross_entropy' suits integer labels of classes, 'mse' float labels of the output's shape";
    return "'mse' suits numbers, 'bce_with_logits' labels 0 and 1, both of the output's shape";
}

/* Names of the losses in other frameworks. */
static const struct {
    const char *other, *name;
} others[] = {{"cross_entropy", "softmax_cross_entropy"},
              {"crossentropy", "softmax_cross_entropy"},
              {"categorical_crossentropy", "softmax_cross_entropy"},
              {"sparse_categorical_crossentropy", "softmax_cross_entropy"},
              {"nll_loss", "nll"},
              {"binary_cross_entropy", "bce"},
              {"binary_crossentropy", "bce"},
              {"binary_cross_entropy_with_logits", "bce_with_logits"},
              {"bce_loss", "bce"},
              {"mse_loss", "mse"},
              {"mean_squared_error", "mse"},
              {"l1_loss", "l1"},
              {"mae", "l1"},
              {"mean_absolute_error", "l1"},
              {"huber", "smooth_l1"},
              {"smooth_l1_loss", "smooth_l1"}};

static xcvm_status unknown_loss(xcc_module *m)
{
    const char *loss = m->options->loss, *name = NULL;
    const size_t length = strcspn(loss, "(");
    char known[200];
    list_losses(known, sizeof known);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i].other) == length && memcmp(others[i].other, loss, length) == 0)
            name = others[i].name;
    return xcvm_error_set(m->error, XCVM_INVALID_ARGUMENT,
                          "the model has no output '%.100s' to be the loss%s%s%s; losses that can be added are %s",
                          loss, name != NULL ? ". Its name here is '" : "", name != NULL ? name : "",
                          name != NULL ? "'" : "", known);
}

static bool is_number(const xcvm_value *type)
{
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] != 1)
            return false;
    return type->rank >= 0;
}

/* Without a name the loss is the only float output with one element. */
static xcvm_status find_own_loss(xcc_module *m)
{
    const xcc_graph *g = m->graph;
    xcc_value *output = NULL, *number = NULL;
    char known[200], names[160] = "", text[120];
    size_t found = 0, numbers = 0;
    for (size_t i = 0; i < g->output_count; i++) {
        if (xcc_graph_output_state(g, i) != NULL || !xcc_is_differentiable(g->outputs[i]))
            continue;
        output = g->outputs[i];
        number = is_number(&output->type) ? output : number;
        numbers += is_number(&output->type);
        append(names, sizeof names, g->output_names[i]);
        found++;
    }
    if (numbers == 1) {
        m->compilation->loss = number;
        return XCVM_OK;
    }
    list_losses(known, sizeof known);
    XCVM_CHECK(m->error, found > 0, INVALID_ARGUMENT, "the model has no output of a float type to be the loss");
    XCVM_CHECK(
        m->error, found == 1, INVALID_ARGUMENT,
        "the model has %zu outputs of float types (%s); name the output that is the loss, as --loss '%.60s', or a "
        "loss that is added, an output and the labels, as --loss 'mse(%.60s,labels)'; losses are %s",
        found, names, output->name, output->name, known);
    XCVM_FAIL(m->error, INVALID_ARGUMENT,
              "the loss '%.60s' is %s; it has to be one number, so end the model with a sum or a mean, or name a loss "
              "that is added with --loss: %s; there are "
              "%s",
              output->name, xcvm_value_describe(&output->type, text, sizeof text), suitable(output), known);
}

/* ---- The pass ---- */

static bool has_output(const xcc_graph *g, const char *name)
{
    for (size_t i = 0; i < g->output_count; i++)
        if (strcmp(g->output_names[i], name) == 0 && xcc_graph_output_state(g, i) == NULL)
            return true;
    return false;
}

xcvm_status xcc_pass_add_loss(xcc_module *m)
{
    const xcc_options *o = m->options;
    if (!o->backprop && o->train == NULL)
        return XCVM_OK;
    const bool own = o->loss == NULL || has_output(m->graph, o->loss);
    XCVM_CHECK(m->error, !o->training.own_ignore_label || (!own && xcc_loss_takes_classes(o->loss)), INVALID_ARGUMENT,
               "a label to ignore (%lld) is for a loss of classes that is added, as softmax_cross_entropy; a loss of "
               "the model's own decides itself, by the attribute ignore_index",
               (long long)o->training.ignore_label);
    if (o->loss == NULL)
        return o->gradients.phase == XCC_PHASE_WHOLE ? find_own_loss(m) : XCVM_OK;
    if (own)
        return XCVM_OK;
    if (!xcc_loss_is_known(o->loss))
        return unknown_loss(m);
    XCVM_TRY(xcc_loss_add(m, o->loss, &m->compilation->loss));
    return xcc_training_output(m, m->compilation->loss, "loss");
}
