/* A recurrent language model, in the style of static_graph. Each word is a call of a static function with an LSTM,
 * whose state carries over. Truncated backpropagation through time: the gradients of several words are computed
 * together. */
#include "seed.h"
#include "xcvm/tape_static.h"

enum { WORDS = 6, UNITS = 4, LENGTH = 5, GATES = 4 * UNITS };

typedef struct model {
    xcvm_var embedding, w, r, b, out_w, out_b;
    xcvm_var h, c; /* the state; absent: zeros */
    int runs;
} model;

static xcvm_var make(xcvm_tape *t, int rank, const int64_t *dims, int seed)
{
    float data[128];
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    for (int i = 0; i < count; i++)
        data[i] = (float)((i * 5 + seed) % 13) / 13 - 0.5f;
    return xcvm_tape_parameter(t, XCVM_F32, rank, dims, data);
}

/* The loss for a word and the next one. */
static xcvm_status step(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    model *m = user;
    xcvm_var h, c;
    (void)in_count;
    (void)out_count;
    m->runs++;
    const xcvm_var axis = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(0));
    const xcvm_var x = xcvm_Unsqueeze(t, xcvm_Gather(t, m->embedding, in[0]), axis);
    xcvm_LSTM(t, x, m->w, m->r, m->b, XCVM_ABSENT, m->h, m->c, .hidden_size = UNITS, .out = {NULL, &h, &c});
    xcvm_var_release(t, m->h);
    xcvm_var_release(t, m->c);
    m->h = xcvm_var_keep(t, h);
    m->c = xcvm_var_keep(t, c);
    const xcvm_var scores = xcvm_Gemm(t, xcvm_Squeeze(t, h, axis), m->out_w, m->out_b);
    out[0] = xcvm_NegativeLogLikelihoodLoss(t, xcvm_LogSoftmax(t, scores), in[1]);
    return XCVM_OK;
}

static xcvm_var word(xcvm_tape *t, int at)
{
    static const int64_t text[] = {0, 1, 2, 3, 1, 4, 5, 2};
    return xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), &text[at % 8]);
}

int main(void)
{
    xcvm_tape *t = open_tape(XCVM_TAPE_EAGER);
    xcvm_error error;
    xcvm_static *schedule;
    model m = {.embedding = make(t, 2, DIMS(WORDS, UNITS), 0),
               .w = make(t, 3, DIMS(1, GATES, UNITS), 1),
               .r = make(t, 3, DIMS(1, GATES, UNITS), 2),
               .b = make(t, 2, DIMS(1, 2 * GATES), 3),
               .out_w = make(t, 2, DIMS(UNITS, WORDS), 4),
               .out_b = make(t, 1, DIMS(WORDS), 5)};
    xcvm_var *const held[] = {&m.h, &m.c};
    const xcvm_static_options options = {.size = sizeof options, .name = "step", .held = held, .held_count = 2};
    must(xcvm_static_create(t, (xcvm_static_function){step, &m}, &options, &schedule, &error), &error);
    xcvm_optimizer *sgd =
        optimize(t, "sgd:lr=0.5", 6, (const xcvm_var[]){m.embedding, m.w, m.r, m.b, m.out_w, m.out_b});
    for (int round = 0, at = 0; round < 40; round++) {
        xcvm_var sum = XCVM_ABSENT;
        for (int i = 0; i < LENGTH; i++, at++) {
            const xcvm_var in[] = {word(t, at), word(t, at + 1)};
            xcvm_var loss;
            xcvm_static_call(schedule, 2, in, 1, &loss);
            sum = i > 0 ? xcvm_Add(t, sum, loss) : loss;
        }
        backward(t, sum);
        if (round % 13 == 0)
            print(t, "loss", sum);
        xcvm_var_unchain(t, m.h);
        xcvm_var_unchain(t, m.c);
        learn(sgd);
        xcvm_tape_reset(t);
    }
    print(t, "h", m.h);
    printf("the step ran %d times in 200\n", m.runs);
    xcvm_optimizer_destroy(sgd);
    xcvm_static_destroy(schedule);
    close_tape(t);
    return 0;
}
