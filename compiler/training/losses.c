/* Losses that are added to models: means over all elements, like PyTorch's functions of these names with their
 * defaults. */
#include "compiler/training/losses.h"

#include "compiler/ir/compose.h"

#include <stdio.h>
#include <string.h>

typedef xcc_value *(*builder)(xcc_builder *b, xcc_value *x, xcc_value *y);

/* Type and shape of the labels. */
typedef enum label_kind {
    LIKE_OUTPUT, /* as the output */
    CLASS_1,     /* classes, i64, in the shape of the output without axis 1 */
    CLASS_LAST   /* the same without the last axis */
} label_kind;

typedef struct loss_row {
    xcc_loss_info info;
    label_kind labels;
    builder build;
} loss_row;

/* ---- Formulas ---- */

static xcc_value *mean(xcc_builder *b, xcc_value *x) { return xcc_build_reduce(b, XCVM_OP_ReduceMean, x, NULL, false); }

/* The mean over the labels that are not ignored. If all are ignored, it would be 0 / 0. Then loss and gradient are
 * 0. */
static xcc_value *nll(xcc_builder *b, xcc_value *x, xcc_value *y)
{
    if (x == NULL || y == NULL)
        return NULL;
    const int64_t ignored = xcc_loss_ignores(b->graph->module->options);
    xcc_value *loss = xcc_apply(b, NegativeLogLikelihoodLoss, y, .x = XCC_IN(x), .target = XCC_IN(y),
                                .ignore_index = ignored, .reduction = XCVM_LOSS_REDUCTION_mean);
    xcc_value *left_out = xcc_build_binary(
        b, XCVM_OP_Equal, y, xcc_build_cast(b, xcc_scalar_i64(b->graph, ignored), (xcvm_dtype)y->type.dtype));
    xcc_value *all = xcc_build_reduce(b, XCVM_OP_ReduceMin, xcc_build_cast(b, left_out, XCVM_I32), NULL, false);
    return xcc_build_call(b, XCVM_OP_Where, 3,
                          (xcc_value *[]){xcc_build_cast(b, all, XCVM_BOOL), xcc_build_number(b, loss, 0), loss});
}

static xcc_value *log_softmax(xcc_builder *b, xcc_value *x, int64_t axis)
{
    return x != NULL ? xcc_apply(b, LogSoftmax, y, .x = XCC_IN(x), .axis = axis) : NULL;
}

static xcc_value *softmax_cross_entropy(xcc_builder *b, xcc_value *x, xcc_value *y)
{
    return nll(b, log_softmax(b, x, 1), y);
}

static xcc_value *token_cross_entropy(xcc_builder *b, xcc_value *x, xcc_value *y)
{
    xcc_value *classes = xcc_build_dim_of(b, x, -1), *any = XCC_BUILD_INTS(b, -1);
    xcc_value *rows = xcc_build_reshape_to(b, x, xcc_build_concat(b, 2, (xcc_value *[]){any, classes}, 0));
    return nll(b, log_softmax(b, rows, 1), xcc_build_reshape(b, y, any));
}

static xcc_value *mse(xcc_builder *b, xcc_value *x, xcc_value *y)
{
    xcc_value *d = xcc_build_sub(b, x, y);
    return mean(b, xcc_build_mul(b, d, d));
}

static xcc_value *l1(xcc_builder *b, xcc_value *x, xcc_value *y)
{
    return mean(b, xcc_build_unary(b, XCVM_OP_Abs, xcc_build_sub(b, x, y)));
}

/* With c = min(|d|, 1): c * (|d| - c / 2). This is d * d / 2 up to 1 and |d| - 1 / 2 beyond. */
static xcc_value *smooth_l1(xcc_builder *b, xcc_value *x, xcc_value *y)
{
    xcc_value *d = xcc_build_unary(b, XCVM_OP_Abs, xcc_build_sub(b, x, y));
    xcc_value *c = xcc_build_binary(b, XCVM_OP_Min, d, xcc_build_number(b, d, 1));
    return mean(b, xcc_build_mul(b, c, xcc_build_sub(b, d, xcc_build_mul(b, c, xcc_build_number(b, d, 0.5)))));
}

/* The logarithm, at least -100, so that 0 * log(0) is 0. */
static xcc_value *bounded_log(xcc_builder *b, xcc_value *x)
{
    xcc_value *log = xcc_build_unary(b, XCVM_OP_Log, x), *least = xcc_build_number(b, x, -100);
    return log != NULL && least != NULL ? xcc_apply(b, Clip, y, .x = XCC_IN(log), .min = XCC_IN(least)) : NULL;
}

static xcc_value *bce(xcc_builder *b, xcc_value *x, xcc_value *y)
{
    xcc_value *one = xcc_build_number(b, x, 1);
    xcc_value *yes = xcc_build_mul(b, y, bounded_log(b, x));
    xcc_value *no = xcc_build_mul(b, xcc_build_sub(b, one, y), bounded_log(b, xcc_build_sub(b, one, x)));
    return mean(b, xcc_build_unary(b, XCVM_OP_Neg, xcc_build_add(b, yes, no)));
}

/* log(1 + exp(x)) - x * y */
static xcc_value *bce_with_logits(xcc_builder *b, xcc_value *x, xcc_value *y)
{
    return mean(b, xcc_build_sub(b, xcc_build_unary(b, XCVM_OP_Softplus, x), xcc_build_mul(b, x, y)));
}

static const loss_row rows[] = {
    {{"softmax_cross_entropy", "of scores of classes along axis 1; labels: i64, the classes"},
     CLASS_1,
     softmax_cross_entropy},
    {{"token_cross_entropy", "of scores of classes along the last axis; labels: i64, the classes"},
     CLASS_LAST,
     token_cross_entropy},
    {{"nll", "of logarithms of probabilities of classes along axis 1; labels: i64, the classes"}, CLASS_1, nll},
    {{"bce", "binary cross entropy of probabilities; labels: 0 to 1, of the output's type and shape"},
     LIKE_OUTPUT,
     bce},
    {{"bce_with_logits", "binary cross entropy of scores; labels: 0 to 1, of the output's type and shape"},
     LIKE_OUTPUT,
     bce_with_logits},
    {{"mse", "mean square of the difference; labels: of the output's type and shape"}, LIKE_OUTPUT, mse},
    {{"l1", "mean magnitude of the difference; labels: of the output's type and shape"}, LIKE_OUTPUT, l1},
    {{"smooth_l1", "half the square of differences up to 1, then their magnitude; labels: of the output's type and "
                   "shape"},
     LIKE_OUTPUT,
     smooth_l1},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

size_t xcc_loss_count(void) { return ROW_COUNT; }

const xcc_loss_info *xcc_loss_at(size_t index) { return index < ROW_COUNT ? &rows[index].info : NULL; }

static bool is_integer(xcvm_dtype dtype)
{
    return !xcvm_dtype_is_float(dtype) && dtype != XCVM_STRING && dtype != XCVM_NO_DTYPE;
}

const char *xcc_loss_suggest(int output_rank, int64_t classes, xcvm_dtype label_type, int label_rank)
{
    if (is_integer(label_type) && label_rank == output_rank - 1 && classes != 1)
        return output_rank == 3 ? "token_cross_entropy" : "softmax_cross_entropy";
    if (is_integer(label_type) && label_rank <= output_rank)
        return "bce_with_logits";
    const bool numbers = label_rank == output_rank || (classes == 1 && label_rank < output_rank);
    return xcvm_dtype_is_float(label_type) && numbers ? "mse" : NULL;
}

/* ---- In the graph ---- */

static const loss_row *find_row(const char *text)
{
    const size_t length = strcspn(text, "(");
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strlen(rows[i].info.name) == length && memcmp(rows[i].info.name, text, length) == 0)
            return &rows[i];
    return NULL;
}

bool xcc_loss_is_known(const char *text) { return find_row(text) != NULL; }

bool xcc_loss_takes_classes(const char *text)
{
    const loss_row *row = text != NULL ? find_row(text) : NULL;
    return row != NULL && row->labels != LIKE_OUTPUT;
}

int xcc_loss_class_axis(const char *text, int rank)
{
    return !xcc_loss_takes_classes(text) ? -1 : find_row(text)->labels == CLASS_1 ? 1 : rank - 1;
}

int64_t xcc_loss_ignores(const xcc_options *options)
{
    enum { USUAL = -100 };
    return options->training.own_ignore_label ? options->training.ignore_label : USUAL;
}

xcc_value *xcc_input_named(const xcc_graph *g, const char *name)
{
    for (size_t i = 0; i < g->input_count; i++)
        if (strcmp(g->inputs[i]->name, name) == 0)
            return g->inputs[i];
    return NULL;
}

xcc_value *xcc_input_add(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcc_module *m = g->module;
    if (xcc_input_named(g, name) != NULL) {
        xcvm_error_set(m->error, XCVM_INVALID_ARGUMENT, "the model has an input '%.200s', which training adds", name);
        return NULL;
    }
    xcc_value **inputs = xcc_alloc(m, (g->input_count + 1) * sizeof *inputs);
    xcc_value *v = xcc_value_create(g, NULL);
    if (inputs == NULL || v == NULL)
        return NULL;
    for (size_t i = 0; i < g->input_count; i++)
        inputs[i] = g->inputs[i];
    v->name = name;
    xcvm_value_set_tensor(&v->type, dtype, rank, dims);
    inputs[g->input_count] = v;
    return xcc_graph_set_inputs(g, g->input_count + 1, inputs) == XCVM_OK ? v : NULL;
}

/* Reads the names in parentheses; NULL if they are omitted. Only the last name may contain commas. */
static xcvm_status read_names(xcc_module *m, const char *text, const char **output, const char **labels)
{
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    *output = *labels = NULL;
    if (open == NULL)
        return XCVM_OK;
    XCVM_CHECK(m->error, close != NULL && close[1] == '\0', INVALID_ARGUMENT,
               "'%.200s' is no loss; as softmax_cross_entropy(OUTPUT,LABELS) it would be", text);
    const char *comma = close;
    while (comma > open && *comma != ',')
        comma--;
    const char *end = comma > open ? comma : close;
    if (end > open + 1 && (*output = xcc_string(m, open + 1, (size_t)(end - open - 1))) == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (comma > open && close > comma + 1 && (*labels = xcc_string(m, comma + 1, (size_t)(close - comma - 1))) == NULL)
        return XCVM_OUT_OF_MEMORY;
    return XCVM_OK;
}

static xcvm_status find_output(xcc_module *m, const loss_row *row, const char *name, xcc_value **output)
{
    const xcc_graph *g = m->graph;
    const char *first = NULL;
    char names[200] = "";
    size_t found = 0;
    for (size_t i = 0; i < g->output_count; i++) {
        const xcvm_value *type = &g->outputs[i]->type;
        const bool is_float = type->kind == XCVM_KIND_TENSOR && xcvm_dtype_is_float((xcvm_dtype)type->dtype);
        const bool fits = name != NULL ? strcmp(g->output_names[i], name) == 0 : is_float;
        const size_t length = strlen(names);
        if (is_float && xcc_graph_output_state(g, i) == NULL) {
            (void)snprintf(names + length, sizeof names - length, "%s'%.60s'", length > 0 ? ", " : "",
                           g->output_names[i]);
            first = first != NULL ? first : g->output_names[i];
        }
        if (!fits || xcc_graph_output_state(g, i) != NULL)
            continue;
        XCVM_CHECK(m->error, is_float, INVALID_ARGUMENT, "output '%.200s' is no tensor of a float type to have a loss",
                   name);
        *output = g->outputs[i];
        found++;
    }
    XCVM_CHECK(m->error, name == NULL || found > 0, INVALID_ARGUMENT,
               "the model has no output '%.200s' to have a loss; its outputs of float types are %s", name,
               names[0] != '\0' ? names : "none");
    XCVM_CHECK(m->error, found > 0, INVALID_ARGUMENT, "the model has no output of a float type to have a loss");
    XCVM_CHECK(
        m->error, found == 1, INVALID_ARGUMENT,
        "the model has %zu outputs of float types (%s); name the one that the loss is of and the labels, as --loss "
        "'%s(%.60s,labels)'",
        found, names, row->info.name, first);
    return XCVM_OK;
}

/* ---- Outputs that do not suit the loss ---- */

/* Returns the node that computes the elements of a value, before nodes that move or copy them. NULL: an input or a
 * constant. */
static const xcc_node *find_activation(const xcc_value *v)
{
    static const xcvm_opcode moves[] = {XCVM_OP_Reshape, XCVM_OP_Transpose, XCVM_OP_Squeeze,  XCVM_OP_Unsqueeze,
                                        XCVM_OP_Flatten, XCVM_OP_Cast,      XCVM_OP_Identity, XCVM_OP_Slice};
    const xcc_node *n = v->producer;
    for (bool moved = true; n != NULL && moved;) {
        moved = false;
        for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
            moved = moved || xcc_is(n, moves[i]);
        if (moved) {
            const xcc_value *from = xcc_node_input(n, 0);
            n = from != NULL ? from->producer : NULL;
        }
    }
    return n;
}

#define ONCE_MORE(function)                                                                                            \
    "the loss computes " function " itself, so the model learns slowly. End the model with the scores before it"

/* Losses, and the functions whose results do not suit them. */
static const struct {
    builder loss;
    xcvm_opcode activation;
    const char *advice;
} misfits[] = {
    {softmax_cross_entropy, XCVM_OP_Softmax, ONCE_MORE("Softmax")},
    {token_cross_entropy, XCVM_OP_Softmax, ONCE_MORE("Softmax")},
    {softmax_cross_entropy, XCVM_OP_Sigmoid, ONCE_MORE("Softmax")},
    {token_cross_entropy, XCVM_OP_Sigmoid, ONCE_MORE("Softmax")},
    {softmax_cross_entropy, XCVM_OP_LogSoftmax,
     "the loss computes LogSoftmax again, which changes nothing; nll saves the time"},
    {nll, XCVM_OP_Softmax,
     "the loss takes logarithms of probabilities. End the model with LogSoftmax, or with the scores before the Softmax "
     "and use "
     "softmax_cross_entropy"},
    {nll, XCVM_OP_Sigmoid, "the loss takes logarithms of probabilities. End the model with LogSoftmax, or use bce"},
    {bce_with_logits, XCVM_OP_Sigmoid,
     "the loss computes Sigmoid itself, so the model learns slowly. Use bce, or end the model "
     "with the scores before it"},
    {bce_with_logits, XCVM_OP_Softmax, "the loss takes scores and computes Sigmoid. Use bce for probabilities"},
    {bce_with_logits, XCVM_OP_LogSoftmax, "the loss takes scores and computes Sigmoid. End the model with the scores"},
    {bce, XCVM_OP_LogSoftmax, "the loss takes probabilities. End the model with the scores and use bce_with_logits"},
};
/* Results of these are scores, neither probabilities nor their logarithms. */
static const xcvm_opcode linear[] = {XCVM_OP_Gemm, XCVM_OP_MatMul, XCVM_OP_Conv, XCVM_OP_ConvTranspose};

static bool is_linear(const xcc_node *n)
{
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
        if (xcc_is(n, linear[i]))
            return true;
    return false;
}

/* A bias may be added. */
static bool has_scores(const xcc_node *n)
{
    bool scores = is_linear(n);
    for (size_t i = 0; xcc_is(n, XCVM_OP_Add) && i < 2 && !scores; i++)
        scores = is_linear(xcc_node_input(n, i)->producer);
    return scores;
}

static const char *find_advice(const loss_row *row, const xcc_node *n)
{
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++)
        if (misfits[i].loss == row->build && xcc_is(n, misfits[i].activation))
            return misfits[i].advice;
    if ((row->build != nll && row->build != bce) || !has_scores(n))
        return NULL;
    return row->build == nll ? "the loss takes logarithms of probabilities. Use softmax_cross_entropy for scores"
                             : "the loss takes probabilities. Use bce_with_logits for scores";
}

static void note_activation(const xcc_module *m, const loss_row *row, const xcc_value *output)
{
    const xcc_node *n = find_activation(output);
    const char *advice = n != NULL && m->options->diagnostics.call != NULL ? find_advice(row, n) : NULL;
    char text[500];
    if (advice == NULL)
        return;
    (void)snprintf(text, sizeof text, "%s is applied to output '%.60s', the result of %s: %s", row->info.name,
                   output->name, n->schema->name, advice);
    m->options->diagnostics.call(m->options->diagnostics.user, XCC_DIAGNOSTIC_LOSS, text);
}

/* Dimensions of the labels. */
static xcvm_status shape_labels(xcc_module *m, const loss_row *row, const xcc_value *output, int *rank,
                                int64_t dims[XCVM_MAX_RANK])
{
    const xcvm_value *type = &output->type;
    char text[200];
    const int least = row->labels == LIKE_OUTPUT ? 0 : row->labels == CLASS_LAST ? 1 : 2;
    XCVM_CHECK(m->error, type->rank >= least, INVALID_ARGUMENT, "%s needs an output of %s, '%.100s' is %s",
               row->info.name,
               least == 0   ? "known rank"
               : least == 1 ? "at least one axis"
                            : "at least two axes",
               output->name, xcvm_value_describe(type, text, sizeof text));
    const int left_out = row->labels == LIKE_OUTPUT ? -1 : row->labels == CLASS_1 ? 1 : type->rank - 1;
    *rank = 0;
    for (int i = 0; i < type->rank; i++) {
        if (i == left_out)
            continue;
        dims[*rank] = type->dims[i] == XCVM_ANY_DIM ? xcc_symbol(m, NULL) : type->dims[i];
        if (dims[(*rank)++] == XCVM_ANY_DIM)
            return XCVM_OUT_OF_MEMORY;
    }
    return XCVM_OK;
}

xcvm_status xcc_loss_add(xcc_module *m, const char *text, xcc_value **loss)
{
    const loss_row *row = find_row(text);
    const char *output_name, *labels_name;
    xcc_value *output = NULL;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    XCVM_TRY(read_names(m, text, &output_name, &labels_name));
    XCVM_TRY(find_output(m, row, output_name, &output));
    XCVM_TRY(shape_labels(m, row, output, &rank, dims));
    const xcvm_dtype dtype = row->labels == LIKE_OUTPUT ? (xcvm_dtype)output->type.dtype : XCVM_I64;
    xcc_value *labels = labels_name != NULL ? xcc_input_named(m->graph, labels_name) : NULL;
    if (labels == NULL)
        labels = xcc_input_add(m->graph, labels_name != NULL ? labels_name : "labels", dtype, rank, dims);
    if (labels == NULL)
        return m->error->status;
    note_activation(m, row, output);
    xcc_builder b = {.graph = m->graph, .name = "loss", .origin = row->info.name};
    *loss = row->build(&b, output, labels);
    return *loss != NULL ? XCVM_OK : m->error->status;
}
