/* Models in inference form: nodes are rewritten as messages, in place, and encoded again for models in bytes. */
#include "compiler/onnx_model/inference_form.h"

#include "compiler/onnx_model/message.h"

#include <string.h>

/* First opsets: of training_mode as an attribute of BatchNormalization, and without is_test. */
enum { WITH_TRAINING_MODE = 14, WITHOUT_IS_TEST = 7 };
enum { BN_MEAN = 3, BN_VARIANCE = 4, BN_INPUTS = 5 };
enum { FALSE_FLAG = 0, UNKNOWN_FLAG = 2 };

typedef struct rewriting {
    xcc_module *m;
    unsigned uses;
    xcc_rewritten *form;
    xcc_table reads; /* how often nodes, bodies and outputs read a name */
    xcc_table flags; /* boolean constants: 0, 1, UNKNOWN_FLAG where those of one name differ */
    size_t gone_capacity;
} rewriting;

/* ---- Looking through the model ---- */

static xcvm_status note_flag(rewriting *r, const char *name, const Onnx__TensorProto *t)
{
    int64_t flag;
    if (name == NULL || t == NULL || t->data_type != XCVM_BOOL)
        return XCVM_OK;
    if (t->has_raw_data && t->raw_data.len == 1)
        flag = t->raw_data.data[0] != 0;
    else if (!t->has_raw_data && t->n_int32_data == 1)
        flag = t->int32_data[0] != 0;
    else
        return XCVM_OK;
    const struct xcc_table_entry *known = xcc_table_lookup(&r->flags, name);
    return xcc_table_put(r->m, &r->flags, name, known == NULL || known->value == flag ? flag : UNKNOWN_FLAG);
}

static xcvm_status note_read(rewriting *r, const char *name)
{
    const struct xcc_table_entry *known = xcc_table_lookup(&r->reads, name);
    return xcc_table_put(r->m, &r->reads, name, (known != NULL ? known->value : 0) + 1);
}

static xcvm_status survey_graph(rewriting *r, const Onnx__GraphProto *g);

static xcvm_status survey_nodes(rewriting *r, Onnx__NodeProto *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Onnx__NodeProto *n = nodes[i];
        XCVM_TRY(xcc_poll(r->m));
        for (size_t k = 0; k < n->n_input; k++)
            XCVM_TRY(note_read(r, n->input[k]));
        for (size_t k = 0; k < n->n_attribute; k++) {
            const Onnx__AttributeProto *a = n->attribute[k];
            if (n->n_output == 1 && n->op_type != NULL && strcmp(n->op_type, "Constant") == 0)
                XCVM_TRY(note_flag(r, n->output[0], a->t));
            if (a->g != NULL)
                XCVM_TRY(survey_graph(r, a->g));
            for (size_t b = 0; b < a->n_graphs; b++)
                XCVM_TRY(survey_graph(r, a->graphs[b]));
        }
    }
    return XCVM_OK;
}

static xcvm_status survey_graph(rewriting *r, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        XCVM_TRY(note_flag(r, g->initializer[i]->name, g->initializer[i]));
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name != NULL)
            XCVM_TRY(note_read(r, g->output[i]->name));
    return survey_nodes(r, g->node, g->n_node);
}

static xcvm_status survey(rewriting *r, const Onnx__ModelProto *model)
{
    XCVM_TRY(survey_graph(r, model->graph));
    for (size_t i = 0; i < model->n_functions; i++) {
        const Onnx__FunctionProto *f = model->functions[i];
        for (size_t k = 0; k < f->n_output; k++)
            XCVM_TRY(note_read(r, f->output[k]));
        XCVM_TRY(survey_nodes(r, f->node, f->n_node));
    }
    return XCVM_OK;
}

/* The version of ONNX's own operators; `otherwise` if there is none. */
static int64_t opset_of(Onnx__OperatorSetIdProto *const *opsets, size_t count, int64_t otherwise)
{
    int64_t version = 0;
    for (size_t i = 0; i < count; i++)
        if (xcc_domain(opsets[i]->domain)[0] == '\0' && opsets[i]->version > version)
            version = opsets[i]->version;
    return version != 0 ? version : otherwise;
}

/* ---- Nodes ---- */

static Onnx__AttributeProto *find_attribute(const Onnx__NodeProto *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (n->attribute[i]->name != NULL && strcmp(n->attribute[i]->name, name) == 0)
            return n->attribute[i];
    return NULL;
}

/* Only the calls of a function determine its attributes. */
static bool is_set(const Onnx__AttributeProto *a)
{
    return a != NULL && (a->i != 0 || (a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0'));
}

static xcvm_status set_attribute(xcc_module *m, Onnx__NodeProto *n, const char *name, int64_t value)
{
    Onnx__AttributeProto *a = find_attribute(n, name);
    if (a == NULL) {
        Onnx__AttributeProto **all = xcc_alloc(m, (n->n_attribute + 1) * sizeof(Onnx__AttributeProto *));
        a = xcc_alloc(m, sizeof *a);
        if (all == NULL || a == NULL)
            return XCVM_OUT_OF_MEMORY;
        if (n->n_attribute > 0)
            memcpy(all, n->attribute, n->n_attribute * sizeof(Onnx__AttributeProto *));
        *a = (Onnx__AttributeProto)ONNX__ATTRIBUTE_PROTO__INIT;
        a->name = (char *)(uintptr_t)name;
        all[n->n_attribute++] = a;
        n->attribute = all;
    }
    a->ref_attr_name = NULL;
    a->has_type = a->has_i = true;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->i = value;
    return XCVM_OK;
}

static bool is_operator(const Onnx__NodeProto *n, const char *domain, const char *op)
{
    return n->op_type != NULL && strcmp(n->op_type, op) == 0 && strcmp(xcc_domain(n->domain), domain) == 0;
}

static bool normalizes_by_batch(const Onnx__NodeProto *n, int64_t version)
{
    bool several = false;
    if (n->n_input != BN_INPUTS || n->n_output == 0)
        return false;
    if (version >= WITH_TRAINING_MODE)
        return is_set(find_attribute(n, "training_mode"));
    for (size_t i = 1; i < n->n_output; i++)
        several = several || n->output[i][0] != '\0';
    return several && (version >= WITHOUT_IS_TEST || !is_set(find_attribute(n, "is_test")));
}

static xcvm_status append(rewriting *r, Onnx__NodeProto *n, Onnx__NodeProto ***nodes, size_t *count, size_t *capacity)
{
    Onnx__NodeProto **grown = xcc_grow(r->m, *nodes, *count, capacity, sizeof(Onnx__NodeProto *));
    if (grown == NULL)
        return XCVM_OUT_OF_MEMORY;
    *nodes = grown;
    grown[(*count)++] = n;
    return XCVM_OK;
}

static Onnx__NodeProto *make_copy(xcc_module *m, char *from, char *to)
{
    Onnx__NodeProto *n = xcc_alloc(m, sizeof *n);
    char **names = xcc_alloc(m, 2 * sizeof *names);
    if (n == NULL || names == NULL)
        return NULL;
    *n = (Onnx__NodeProto)ONNX__NODE_PROTO__INIT;
    n->op_type = (char *)(uintptr_t) "Identity";
    names[0] = from;
    names[1] = to;
    n->input = names;
    n->output = names + 1;
    n->n_input = n->n_output = 1;
    return n;
}

static xcvm_status drop_value(rewriting *r, const char *name)
{
    xcc_rewritten *form = r->form;
    const char **gone = xcc_grow(r->m, form->gone, form->gone_count, &r->gone_capacity, sizeof(const char *));
    if (gone == NULL)
        return XCVM_OUT_OF_MEMORY;
    form->gone = gone;
    gone[form->gone_count++] = name;
    return XCVM_OK;
}

/* A list of nodes that is written again. */
typedef struct node_list {
    Onnx__NodeProto **at;
    size_t count, capacity;
} node_list;

static xcvm_status infer_normalization(rewriting *r, Onnx__NodeProto *n, int64_t version, node_list *list)
{
    if (version >= WITH_TRAINING_MODE)
        XCVM_TRY(set_attribute(r->m, n, "training_mode", 0));
    else if (version < WITHOUT_IS_TEST)
        XCVM_TRY(set_attribute(r->m, n, "is_test", 1));
    for (size_t i = 1; i < n->n_output; i++) {
        char *name = n->output[i];
        if (name[0] == '\0')
            continue;
        if (xcc_table_lookup(&r->reads, name) == NULL) {
            XCVM_TRY(drop_value(r, name));
            continue;
        }
        /* Results are y, then mean and variance, once or twice. */
        Onnx__NodeProto *copy = make_copy(r->m, n->input[i % 2 == 1 ? BN_MEAN : BN_VARIANCE], name);
        if (copy == NULL)
            return XCVM_OUT_OF_MEMORY;
        XCVM_TRY(append(r, copy, &list->at, &list->count, &list->capacity));
    }
    n->n_output = 1;
    return XCVM_OK;
}

/* The operators that drop elements, and which of their inputs says whether they do. */
static const struct {
    const char *domain, *op;
    size_t input;
} droppers[] = {{"", "Dropout", 2},
                {"com.microsoft", "BiasDropout", 4},
                {"com.microsoft", "BitmaskDropout", 2},
                {"com.microsoft", "BitmaskBiasDropout", 4}};

/* A mask that nothing reads is removed, since it would keep the node from being quantized or left out. */
static xcvm_status drop_mask(rewriting *r, Onnx__NodeProto *n)
{
    enum { MASK = 1 };
    if (n->n_output <= MASK || xcc_table_lookup(&r->reads, n->output[MASK]) != NULL)
        return XCVM_OK;
    if (n->output[MASK][0] != '\0')
        XCVM_TRY(drop_value(r, n->output[MASK]));
    n->n_output = MASK;
    return XCVM_OK;
}

static xcvm_status infer_dropout(rewriting *r, Onnx__NodeProto *n, int64_t version, bool *changed)
{
    for (size_t i = 0; i < sizeof droppers / sizeof *droppers; i++) {
        const size_t input = droppers[i].input;
        if (!is_operator(n, droppers[i].domain, droppers[i].op))
            continue;
        if (droppers[i].domain[0] == '\0' && version < WITHOUT_IS_TEST) {
            *changed = !is_set(find_attribute(n, "is_test"));
            if (*changed)
                XCVM_TRY(drop_mask(r, n));
            return *changed ? set_attribute(r->m, n, "is_test", 1) : XCVM_OK;
        }
        if (n->n_input <= input || n->input[input][0] == '\0')
            return XCVM_OK;
        const struct xcc_table_entry *flag = xcc_table_lookup(&r->flags, n->input[input]);
        if (flag != NULL && flag->value == FALSE_FLAG)
            return XCVM_OK;
        *changed = true;
        const struct xcc_table_entry *reads = xcc_table_lookup(&r->reads, n->input[input]);
        XCVM_TRY(xcc_table_put(r->m, &r->reads, n->input[input], reads->value - 1));
        n->input[input] = (char *)(uintptr_t) "";
        while (n->n_input > 1 && n->input[n->n_input - 1][0] == '\0')
            n->n_input--;
        XCVM_TRY(drop_mask(r, n));
    }
    return XCVM_OK;
}

static xcvm_status rewrite_graph(rewriting *r, Onnx__GraphProto *g, int64_t version, bool *changed);

static xcvm_status rewrite_bodies(rewriting *r, const Onnx__NodeProto *n, int64_t version, bool *changed)
{
    for (size_t i = 0; i < n->n_attribute; i++) {
        if (n->attribute[i]->g != NULL)
            XCVM_TRY(rewrite_graph(r, n->attribute[i]->g, version, changed));
        for (size_t b = 0; b < n->attribute[i]->n_graphs; b++)
            XCVM_TRY(rewrite_graph(r, n->attribute[i]->graphs[b], version, changed));
    }
    return XCVM_OK;
}

/* `places`, if it is not NULL, has an entry for each node. */
static xcvm_status rewrite_nodes(rewriting *r, Onnx__NodeProto ***nodes, size_t *count, int64_t version,
                                 struct xcc_placed *places, bool *changed)
{
    node_list list = {.count = 0};
    for (size_t i = 0; i < *count; i++) {
        Onnx__NodeProto *n = (*nodes)[i];
        struct xcc_placed place = {.first = list.count};
        XCVM_TRY(xcc_poll(r->m));
        XCVM_TRY(append(r, n, &list.at, &list.count, &list.capacity));
        XCVM_TRY(rewrite_bodies(r, n, version, &place.changed));
        bool own = false;
        unsigned uses = XCC_USES_RANDOM;
        if (is_operator(n, "", "BatchNormalization")) {
            uses = XCC_USES_BATCH;
            own = (r->uses & uses) != 0 && normalizes_by_batch(n, version);
            if (own)
                XCVM_TRY(infer_normalization(r, n, version, &list));
        } else if ((r->uses & uses) != 0) {
            XCVM_TRY(infer_dropout(r, n, version, &own));
        }
        if (own)
            xcc_node_names_add(&r->form->names, xcc_node_label(n), n->op_type, uses);
        place.changed = place.changed || own;
        place.count = list.count - place.first;
        *changed = *changed || place.changed;
        if (places != NULL)
            places[i] = place;
    }
    *nodes = list.at;
    *count = list.count;
    return XCVM_OK;
}

static xcvm_status rewrite_graph(rewriting *r, Onnx__GraphProto *g, int64_t version, bool *changed)
{
    return rewrite_nodes(r, &g->node, &g->n_node, version, NULL, changed);
}

static xcvm_status rewrite_function(rewriting *r, Onnx__FunctionProto *f, int64_t version, bool *changed)
{
    return rewrite_nodes(r, &f->node, &f->n_node, opset_of(f->opset_import, f->n_opset_import, version), NULL, changed);
}

/* Removes the Constant nodes of flags that nothing reads any more. ONNX Runtime would warn of each. */
static xcvm_status drop_flags(rewriting *r, const Onnx__GraphProto *g, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct xcc_placed *place = &r->form->nodes[i];
        const Onnx__NodeProto *n = g->node[place->first];
        if (!is_operator(n, "", "Constant") || n->n_output != 1)
            continue;
        const struct xcc_table_entry *reads = xcc_table_lookup(&r->reads, n->output[0]);
        if (reads == NULL || reads->value > 0)
            continue;
        place->count = 0;
        place->changed = true;
        XCVM_TRY(drop_value(r, n->output[0]));
    }
    return XCVM_OK;
}

xcvm_status xcc_inference_form_rewrite(xcc_module *m, Onnx__ModelProto *model, unsigned uses, xcc_rewritten *form)
{
    rewriting r = {.m = m, .uses = uses, .form = form, .reads = {.key = &m->key}, .flags = {.key = &m->key}};
    const int64_t version = opset_of(model->opset_import, model->n_opset_import, 1);
    bool changed = false;
    *form = (xcc_rewritten){.nodes = xcc_alloc(m, (model->graph->n_node + 1) * sizeof *form->nodes),
                            .functions = xcc_alloc(m, (model->n_functions + 1) * sizeof *form->functions)};
    if (form->nodes == NULL || form->functions == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(survey(&r, model));
    const size_t count = model->graph->n_node;
    XCVM_TRY(rewrite_nodes(&r, &model->graph->node, &model->graph->n_node, version, form->nodes, &changed));
    XCVM_TRY(drop_flags(&r, model->graph, count));
    for (size_t i = 0; i < model->n_functions; i++)
        XCVM_TRY(rewrite_function(&r, model->functions[i], version, &form->functions[i]));
    return XCVM_OK;
}
