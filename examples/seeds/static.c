/* In the style of static_graph: a static chain of layers. Its code runs in the first iteration, and a schedule in the
 * others. An operation has side effects in each iteration. */
#include "seed.h"
#include "xcvm/tape_static.h"

enum { LAYERS = 3, BATCH = 4 };
static const int64_t sizes[LAYERS + 1] = {5, 8, 8, 3};

typedef struct mlp {
    xcvm_var w[LAYERS], b[LAYERS];
    xcvm_operation report;
    int runs, reports;
} mlp;

static xcvm_var make(xcvm_tape *t, bool parameter, int rank, const int64_t *dims, int seed)
{
    float data[64];
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    for (int i = 0; i < count; i++)
        data[i] = (float)((i * 7 + seed) % 11) / 16 - 0.3f;
    return parameter ? xcvm_tape_parameter(t, XCVM_F32, rank, dims, data)
                     : xcvm_tape_constant(t, XCVM_F32, rank, dims, data);
}

static xcvm_status report(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                          xcvm_var *out)
{
    (void)t;
    (void)in_count;
    (void)in;
    (void)out_count;
    (void)out;
    ++*(int *)user;
    return XCVM_OK;
}

static xcvm_status forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                           xcvm_var *out)
{
    mlp *m = user;
    xcvm_var h = in[0];
    (void)in_count;
    (void)out_count;
    m->runs++;
    for (int i = 0; i < LAYERS; i++) {
        h = xcvm_Gemm(t, h, m->w[i], m->b[i]);
        h = i + 1 < LAYERS ? xcvm_Relu(t, h) : h;
    }
    xcvm_tape_call_operation(t, &m->report, 0, NULL, 0, NULL);
    out[0] = h;
    return XCVM_OK;
}

int main(void)
{
    xcvm_tape *t = open_tape(XCVM_TAPE_EAGER);
    xcvm_error error;
    xcvm_static *chain;
    mlp m = {.runs = 0};
    m.report = (xcvm_operation){.size = sizeof m.report, .name = "report", .forward = report, .user = &m.reports};
    for (int i = 0; i < LAYERS; i++) {
        m.w[i] = make(t, true, 2, (const int64_t[]){sizes[i], sizes[i + 1]}, i);
        m.b[i] = make(t, true, 1, &sizes[i + 1], i + 5);
    }
    must(xcvm_static_create(t, (xcvm_static_function){forward, &m}, NULL, &chain, &error), &error);
    xcvm_var parameters[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        parameters[2 * i] = m.w[i];
        parameters[2 * i + 1] = m.b[i];
    }
    xcvm_optimizer *sgd = optimize(t, "sgd:lr=0.5", 2 * LAYERS, parameters);
    for (int iteration = 0; iteration < 30; iteration++) {
        const xcvm_var x = make(t, false, 2, DIMS(BATCH, 5), 0);
        const xcvm_var labels = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(BATCH), DIMS(0, 2, 1, 2));
        xcvm_var y;
        xcvm_static_call(chain, 1, &x, 1, &y);
        const xcvm_var loss = xcvm_NegativeLogLikelihoodLoss(t, xcvm_LogSoftmax(t, y), labels);
        backward(t, loss);
        if (iteration % 10 == 0)
            print(t, "loss", loss);
        learn(sgd);
        xcvm_tape_reset(t);
    }
    print(t, "b", m.b[LAYERS - 1]);
    printf("the chain ran %d time, and reported %d times\n", m.runs, m.reports);
    xcvm_optimizer_destroy(sgd);
    xcvm_static_destroy(chain);
    close_tape(t);
    return 0;
}
