/* tape_bench [THREADS]: the cost of calls on a tape, with one thread or as many as given (0: all). Measures a scalar
 * sum forward and backward, recording, a training step of a small network, eagerly and as a static schedule, and a
 * schedule compared with the compiled program. One line each: name, nanoseconds (or bytes). */
#include "tape_tensors.h"
#include "xcvm/compiler.h"
#include "xcvm/optimizers.h"
#include "xcvm/tape_static.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds. */
static double now(void) { return bench_now() * 1e9; }

static xcvm_error error;

static void must(xcvm_status status)
{
    if (status == XCVM_OK)
        return;
    fprintf(stderr, "tape_bench: %s: %s\n", error.instruction, error.message);
    exit(1);
}

/* Median of `rounds` times of `body`, divided by `count`. */
typedef double (*timed)(xcvm_tape *t, size_t count);
static void measure(const char *name, xcvm_tape *t, timed body, size_t count, size_t rounds)
{
    double times[101];
    for (size_t i = 0; i < rounds; i++)
        times[i] = body(t, count) / (double)count;
    qsort(times, rounds, sizeof *times, bench_by_value);
    printf("%-28s %10.1f\n", name, times[rounds / 2]);
}

static xcvm_var one(xcvm_tape *t, bool parameter)
{
    const float number = 1;
    return parameter ? xcvm_tape_parameter(t, XCVM_F32, 0, NULL, &number)
                     : xcvm_tape_constant(t, XCVM_F32, 0, NULL, &number);
}

static double add(xcvm_tape *t, size_t count)
{
    const xcvm_var x = one(t, false), y = one(t, false);
    const double begun = now();
    for (size_t i = 0; i < count; i++)
        xcvm_var_release(t, xcvm_Add(t, x, y));
    const double time = now() - begun;
    xcvm_tape_reset(t);
    must(xcvm_tape_status(t, &error));
    return time;
}

/* A chain of sums on a parameter, with its backward pass and the release of the records. */
static xcvm_var chain(xcvm_tape *t, xcvm_var x, xcvm_var y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x = xcvm_Add(t, x, y);
    return x;
}

static double recorded(xcvm_tape *t, size_t count)
{
    const xcvm_var x = one(t, true), y = one(t, false);
    const double begun = now();
    chain(t, x, y, count);
    const double time = now() - begun;
    xcvm_tape_reset(t);
    xcvm_var_release(t, x);
    must(xcvm_tape_status(t, &error));
    return time;
}

static double backward(xcvm_tape *t, size_t count)
{
    const xcvm_var x = one(t, true), y = one(t, false), z = chain(t, x, y, count);
    const double begun = now();
    must(xcvm_tape_backward(t, z, NULL, &error));
    const double time = now() - begun;
    xcvm_tape_reset(t);
    xcvm_var_release(t, x);
    return time;
}

static double product_backward(xcvm_tape *t, size_t count)
{
    const xcvm_var x = one(t, true), y = one(t, true);
    xcvm_var z = x;
    for (size_t i = 0; i < count; i++)
        z = xcvm_Mul(t, z, y);
    const double begun = now();
    must(xcvm_tape_backward(t, z, NULL, &error));
    const double time = now() - begun;
    xcvm_tape_reset(t);
    xcvm_var_release(t, x);
    xcvm_var_release(t, y);
    return time;
}

/* ---- 784-100-100-10 ---- */

enum { LAYERS = 3 };
static const int64_t sizes[LAYERS + 1] = {784, 100, 100, 10};

static xcvm_var random_tensor(xcvm_tape *t, bool parameter, int rank, const int64_t *dims, double scale)
{
    static uint32_t state = 1;
    return bench_tensor(t, &state, parameter, rank, dims, scale);
}

typedef struct network {
    xcvm_var w[LAYERS], b[LAYERS], x, target, rate;
} network;

static network make_network(xcvm_tape *t)
{
    network m;
    const int64_t class = 3;
    for (int i = 0; i < LAYERS; i++) {
        m.w[i] = random_tensor(t, true, 2, (const int64_t[]){sizes[i], sizes[i + 1]}, 0.1);
        m.b[i] = random_tensor(t, true, 1, &sizes[i + 1], 0.1);
    }
    m.x = random_tensor(t, false, 2, (const int64_t[]){1, 784}, 1);
    m.target = xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, &class));
    m.rate = xcvm_var_keep(t, xcvm_tape_scalar(t, XCVM_F32, 0.01));
    return m;
}

static void release_network(xcvm_tape *t, const network *m)
{
    for (int i = 0; i < LAYERS; i++) {
        xcvm_var_release(t, m->w[i]);
        xcvm_var_release(t, m->b[i]);
    }
    xcvm_var_release(t, m->x);
    xcvm_var_release(t, m->target);
    xcvm_var_release(t, m->rate);
    must(xcvm_tape_status(t, &error));
}

static xcvm_var loss_of(xcvm_tape *t, const network *m, xcvm_var x, xcvm_var target)
{
    xcvm_var h = x;
    for (int i = 0; i < LAYERS; i++) {
        h = xcvm_Gemm(t, h, m->w[i], m->b[i]);
        if (i + 1 < LAYERS)
            h = xcvm_Relu(t, h);
    }
    return xcvm_NegativeLogLikelihoodLoss(t, xcvm_LogSoftmax(t, h), target);
}

static void descend(xcvm_tape *t, const network *m)
{
    xcvm_tape_set_recording(t, false);
    for (int i = 0; i < LAYERS; i++) {
        const xcvm_var parameters[] = {m->w[i], m->b[i]};
        for (int k = 0; k < 2; k++) {
            const xcvm_var p = parameters[k];
            xcvm_Sub(t, p, xcvm_Mul(t, xcvm_var_get_gradient(t, p), m->rate), .into = p);
            xcvm_var_clear_gradient(t, p);
        }
    }
    xcvm_tape_set_recording(t, true);
}

typedef struct learning {
    xcvm_layer *net;
    xcvm_optimizer *sgd;
} learning;

/* A step of an optimizer, by the function's own backward. */
static xcvm_status learn(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    const learning *l = user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_NegativeLogLikelihoodLoss(t, xcvm_LogSoftmax(t, xcvm_layer_call(l->net, in[0])), in[1]);
    xcvm_optimizer_clear_gradients(l->sgd);
    must(xcvm_tape_backward(t, out[0], NULL, &error));
    must(xcvm_optimizer_step(l->sgd, &error));
    return XCVM_OK;
}

/* Eagerly, or as a static schedule. */
static double mlp(xcvm_tape *t, size_t count, bool is_static)
{
    enum { PIXELS = 784 };
    float pixels[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (float)(i % 7) / 7;
    learning l = {.net = xcvm_layer_create_mlp(t, 4, (const int64_t[]){PIXELS, 100, 100, 10}, NULL)};
    xcvm_static *s;
    must(xcvm_optimizer_create(t, "sgd:lr=0.01", NULL, &l.sgd, &error));
    must(xcvm_optimizer_add_layer(l.sgd, l.net, &error));
    must(xcvm_static_create(t, (xcvm_static_function){learn, &l}, NULL, &s, &error));
    xcvm_static_set_enabled(s, is_static);
    const xcvm_var x = xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_F32, 2, (const int64_t[]){1, PIXELS}, pixels));
    const xcvm_var target =
        xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, (const int64_t[]){3}));
    const xcvm_var in[] = {x, target};
    double begun = 0;
    for (size_t n = 0; n < count + 2; n++) {
        xcvm_var loss;
        if (n == 2) /* after the calls that record and compile */
            begun = now();
        xcvm_static_call(s, 2, in, 1, &loss);
        xcvm_tape_reset(t);
    }
    const double time = now() - begun;
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(l.sgd);
    xcvm_layer_destroy(l.net);
    xcvm_var_release(t, x);
    xcvm_var_release(t, target);
    must(xcvm_tape_status(t, &error));
    return time;
}

static double mlp_by_calls(xcvm_tape *t, size_t count) { return mlp(t, count, false); }
static double mlp_optimizer(xcvm_tape *t, size_t count) { return mlp(t, count, true); }

/* The same with calls in place for the step, and the loss, or all of it, as a static schedule. */
static xcvm_status forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                           xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    out[0] = loss_of(t, user, in[0], in[1]);
    return XCVM_OK;
}

static xcvm_status step(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    const xcvm_status status = forward(user, t, in_count, in, out_count, out);
    if (status == XCVM_OK)
        must(xcvm_tape_backward(t, out[0], NULL, &error));
    descend(t, user);
    return status;
}

static double mlp_static(xcvm_tape *t, size_t count,
                         xcvm_status (*function)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in,
                                                 size_t out_count, xcvm_var *out))
{
    network m = make_network(t);
    const xcvm_var in[] = {m.x, m.target};
    xcvm_var loss;
    xcvm_static *s;
    double begun = 0;
    must(xcvm_static_create(t, (xcvm_static_function){function, &m}, NULL, &s, &error));
    for (size_t n = 0; n < count + 2; n++) {
        if (n == 2) /* after the calls that record and compile */
            begun = now();
        xcvm_static_call(s, 2, in, 1, &loss);
        if (function == forward) {
            must(xcvm_tape_backward(t, loss, NULL, &error));
            descend(t, &m);
        }
        xcvm_tape_reset(t);
    }
    const double time = now() - begun;
    xcvm_static_destroy(s);
    release_network(t, &m);
    return time;
}

static double mlp_static_forward(xcvm_tape *t, size_t count) { return mlp_static(t, count, forward); }
static double mlp_static_step(xcvm_tape *t, size_t count) { return mlp_static(t, count, step); }

/* A lower bound of a step: weights are read once in the forward pass, and updated once by an outer product. */
#ifdef __x86_64__
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static double
mlp_weights(xcvm_tape *t, size_t count)
{
    enum { MOST = 784 * 100 };
    static float weights[LAYERS][MOST], x[LAYERS + 1][784], g[784];
    (void)t;
    for (size_t i = 0; i < 784; i++)
        x[0][i] = g[i] = 1e-3F;
    const double begun = now();
    for (size_t k = 0; k < count; k++) {
        for (size_t l = 0; l < LAYERS; l++) {
            const size_t columns = (size_t)sizes[l + 1];
            memset(x[l + 1], 0, columns * sizeof(float));
            for (size_t i = 0; i < (size_t)sizes[l]; i++)
                for (size_t j = 0; j < columns; j++)
                    x[l + 1][j] += x[l][i] * weights[l][i * columns + j];
        }
        for (size_t l = LAYERS; l-- > 0;)
            for (size_t i = 0, columns = (size_t)sizes[l + 1]; i < (size_t)sizes[l]; i++)
                for (size_t j = 0; j < columns; j++)
                    weights[l][i * columns + j] -= x[l][i] * g[j];
        __asm__ volatile("" : : "r"(weights), "r"(x) : "memory");
    }
    return now() - begun;
}

/* ---- A network that is run: compiled, and as a static schedule ---- */

enum { IMAGE = 28 };

typedef struct layers {
    xcvm_var w[3];
} layers;

static layers make_layers(xcvm_tape *t)
{
    return (layers){{random_tensor(t, true, 4, (const int64_t[]){16, 1, 5, 5}, 0.5),
                     random_tensor(t, true, 4, (const int64_t[]){32, 16, 5, 5}, 0.2),
                     random_tensor(t, true, 2, (const int64_t[]){512, 10}, 0.2)}};
}

static xcvm_status run_layers(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                              xcvm_var *out)
{
    const layers *n = user;
    xcvm_var h = in[0];
    (void)in_count;
    (void)out_count;
    for (int i = 0; i < 2; i++)
        h = xcvm_MaxPool(t, xcvm_Relu(t, xcvm_Conv(t, h, n->w[i])), .kernel_shape = XCVM_INTS(2, 2),
                         .strides = XCVM_INTS(2, 2));
    const int64_t two = 2, shape[] = {1, 512};
    out[0] = xcvm_Gemm(t, xcvm_Reshape(t, h, xcvm_tape_constant(t, XCVM_I64, 1, &two, shape)), n->w[2]);
    return XCVM_OK;
}

typedef struct grown {
    char bytes[1 << 20];
    size_t count;
} grown;

static bool append(void *user, const void *bytes, size_t count)
{
    grown *g = user;
    if (count > sizeof g->bytes - g->count)
        return false;
    memcpy(g->bytes + g->count, bytes, count);
    g->count += count;
    return true;
}

static const int64_t image_dims[] = {1, 1, IMAGE, IMAGE};

/* Medians of runs in turn, so that both have the same conditions; the memory of the sessions. */
static void compare_network(void)
{
    enum { ROUNDS = 41, RUNS = 200 };
    static grown program_bytes;
    const xcvm_tape_options building = {.size = sizeof building, .threads = 1, .mode = XCVM_TAPE_BUILDING},
                            eager = {.size = sizeof eager, .threads = 1};
    const xcvm_session_options one = {.size = sizeof one, .threads = 1};
    const xcc_options plain = {.size = sizeof plain};
    xcvm_tape *t, *b;
    xcvm_program *program;
    xcvm_session *session;
    xcvm_static *s;
    must(xcvm_tape_create(&building, &b, &error));
    must(xcvm_tape_create(&eager, &t, &error));
    layers same = make_layers(b), m = make_layers(t);
    const xcvm_var x = xcvm_tape_input(b, "x", XCVM_F32, 4, image_dims, NULL);
    xcvm_var y;
    must(run_layers(&same, b, 1, &x, 1, &y));
    const xcvm_tape_output output = {"y", y};
    must(xcvm_tape_compile(b, 1, &output, &plain, (xcvm_sink){append, &program_bytes}, NULL, &error));
    must(xcvm_program_load(program_bytes.bytes, program_bytes.count, NULL, &program, &error));
    must(xcvm_session_create(program, &one, &session, &error));
    xcvm_value *image;
    must(xcvm_tensor_create(NULL, XCVM_F32, 4, image_dims, &image, &error));
    memset(xcvm_value_data(image), 0, xcvm_value_bytes(image));
    must(xcvm_session_set_input(session, 0, image, &error));
    must(xcvm_static_create(t, (xcvm_static_function){run_layers, &m}, NULL, &s, &error));
    const xcvm_var z = xcvm_var_keep(t, xcvm_tape_value(t, image));
    xcvm_tape_set_recording(t, false);
    double compiled[ROUNDS], statics[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double begun = now();
        for (int i = 0; i < RUNS; i++)
            must(xcvm_session_run(session, NULL, &error));
        compiled[round] = (now() - begun) / RUNS;
        begun = now();
        for (int i = 0; i < RUNS; i++)
            xcvm_var_release(t, xcvm_static_call(s, 1, &z, 1, &y));
        statics[round] = (now() - begun) / RUNS;
    }
    must(xcvm_tape_status(t, &error));
    qsort(compiled, ROUNDS, sizeof *compiled, bench_by_value);
    qsort(statics, ROUNDS, sizeof *statics, bench_by_value);
    xcvm_memory_info memory = {.size = sizeof memory};
    xcvm_static_info stats = {.size = sizeof stats};
    xcvm_session_get_memory_info(session, &memory);
    xcvm_static_get_info(s, &stats);
    printf("%-28s %10.1f\n%-28s %10.1f\n", "network_compiled", compiled[ROUNDS / 2], "network_static",
           statics[ROUNDS / 2]);
    printf("%-28s %10zu\n%-28s %10zu\n", "network_compiled_bytes", memory.reserved_bytes, "network_static_bytes",
           stats.memory_bytes);
    xcvm_value_release(image);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    xcvm_static_destroy(s);
    xcvm_tape_destroy(t);
    xcvm_tape_destroy(b);
}

int main(int argc, char **argv)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = argc > 1 ? atoi(argv[1]) : 1};
    xcvm_tape *t;
    must(xcvm_tape_create(&options, &t, &error));
    measure("scalar_add", t, add, 100000, 21);
    measure("scalar_add_recorded", t, recorded, 10000, 101);
    measure("scalar_add_backward", t, backward, 10000, 101);
    measure("scalar_mul_backward", t, product_backward, 10000, 101);
    measure("million_recorded", t, recorded, 1000000, 3);
    measure("mlp_step", t, mlp_by_calls, 2000, 11);
    measure("mlp_step_static_optimizer", t, mlp_optimizer, 2000, 11);
    measure("mlp_step_static_loss", t, mlp_static_forward, 2000, 11);
    for (int i = 0; i < 3; i++) {
        measure("mlp_step_static", t, mlp_static_step, 2000, 11);
        measure("mlp_weights_in_c", t, mlp_weights, 2000, 11);
    }
    xcvm_tape_destroy(t);
    compare_network();
    return 0;
}
