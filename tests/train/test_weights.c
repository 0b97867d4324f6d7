/* Tests of the weights of trainers: initial weights, weights of the best epoch, and export. */
#include "base/clock.h"
#include "tests/compiler/import_onnx/model_writer.h"
#include "tests/suites.h"
#include "tests/train/trainers.h"

#include <stdlib.h>
#include <zlib.h>

/* The model of a writer whose graph is complete. */
static test_bytes finish(model_writer *m)
{
    test_bytes model = {NULL, 0, 0};
    put_text(&m->graph, GRAPH_NAME, "graph");
    put_int(&model, MODEL_IR_VERSION, 8);
    put_message(&model, MODEL_GRAPH, &m->graph);
    opset(&model, MODEL_OPSET, "", OPSET);
    test_bytes_free(&m->graph);
    test_bytes_free(&m->node);
    test_bytes_free(&m->scratch);
    return model;
}

/* The loss is the mean of MatMul(x, w), x of the inner dimension of w. */
static void product(model_writer *m, const char *w, int64_t inner)
{
    input(m, "x", DTYPE_FLOAT, 2, (int64_t[]){-1, inner});
    begin_node(m, "MatMul");
    operand(m, "x");
    operand(m, w);
    result_of(m, "y", 0);
    end_node(m);
    begin_node(m, "ReduceMean");
    operand_of(m, "y", 0);
    result_of(m, "y", 1);
    attribute_int(m, "keepdims", 0);
    end_node(m);
    output(m, "y1", DTYPE_FLOAT);
}

/* ---- The beginning ---- */

START_TEST(drawn)
{
    static const struct {
        const char *head;
        int count;
    } weights[] = {{"init w f32[64x32]", 2048}, {"init b f32[32]", 32}, {"init v f32[16x32]", 512}};
    static char model[8192];
    int length = snprintf(model, sizeof model, "ir 8\nopset 13\ninput x f32[Nx64]\noutput y\n");
    for (size_t i = 0; i < 3; i++) {
        length += snprintf(model + length, sizeof model - (size_t)length, "%s", weights[i].head);
        for (int k = 0; k < weights[i].count; k++)
            length += snprintf(model + length, sizeof model - (size_t)length, " 1");
        length += snprintf(model + length, sizeof model - (size_t)length, "\n");
    }
    snprintf(model + length, sizeof model - (size_t)length,
             "h = MatMul(x, w)\ni = Add(h, b)\ny = Gemm(i, v) transB=1\n");
    static const struct {
        const char *init;
        double deviation; /* of w */
    } rows[] = {{"he", 0.17677}, {"glorot", 0.14434}, {"normal", 0.02}, {"uniform", 0.07217}, {"orthogonal", 0.125}};
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1", .loss = "mse"};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const xct_trainer_options options = {
            .size = sizeof options, .compile = &compile, .init = rows[r].init, .seed = 3};
        test_bytes bytes = onnx_from_text(model);
        xct_trainer *t = NULL;
        xcvm_error error = {.message = ""};
        const xcvm_status status = xct_trainer_create(bytes.at, bytes.length, &options, &t, &error);
        ck_assert_msg(status == XCVM_OK, "%s", error.message);
        const float *w = xcvm_value_data(parameter(t, "w")), *v = xcvm_value_data(parameter(t, "v"));
        double sum = 0, squares = 0;
        for (size_t i = 0; i < 2048; i++) {
            sum += (double)w[i];
            squares += (double)w[i] * (double)w[i];
        }
        const double deviation = sqrt(squares / 2048 - sum / 2048 * (sum / 2048));
        ck_assert_msg(fabs(deviation / rows[r].deviation - 1) < 0.06, "%s: %g", rows[r].init, deviation);
        ck_assert_msg(fabs(sum / 2048) < 4 * rows[r].deviation / sqrt(2048), "%s: mean %g", rows[r].init, sum / 2048);
        check_floats(parameter(t, "b"), (float[32]){0}, 32, 0);
        for (size_t i = 0; r == 4 && i < 16; i++)
            for (size_t k = 0; k <= i; k++) {
                double product = 0;
                for (size_t c = 0; c < 32; c++)
                    product += (double)v[i * 32 + c] * (double)v[k * 32 + c];
                ck_assert(fabs(product - (i == k)) < 1e-5);
            }
        xct_trainer_destroy(t);
        test_bytes_free(&bytes);
    }
}
END_TEST

/* An initializer that has no elements, but says that it has, is drawn within the limit. */
START_TEST(drawn_within_limit)
{
    enum { SIDE = 4096 };
    model_writer m = {.next = 0};
    put_int(&m.scratch, 1, SIDE);
    put_int(&m.scratch, 1, SIDE);
    put_int(&m.scratch, 2, DTYPE_FLOAT);
    put_text(&m.scratch, 8, "w");
    put_message(&m.graph, GRAPH_INITIALIZER, &m.scratch);
    product(&m, "w", SIDE);
    test_bytes bytes = finish(&m);
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1", .limits.memory_bytes = 16 << 20};
    const xct_trainer_options options = {.size = sizeof options, .compile = &compile, .init = "he"};
    xct_trainer *t = NULL;
    xcvm_error error = {.message = ""};
    ck_assert_int_eq(xct_trainer_create(bytes.at, bytes.length, &options, &t, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_msg(strstr(error.message, "would go past the memory limit of 16777216") != NULL, "%s", error.message);
    test_bytes_free(&bytes);
}
END_TEST

static void put_little(test_bytes *to, uint64_t number, size_t count)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    ck_assert(test_bytes_sink(to, bytes, count));
}

/* An archive in which the member "w.npy", f32[2x1], occurs several times. */
static void write_archive(const char *path, int times)
{
    enum { NPY = 128 + 8 };
    char npy[NPY];
    test_bytes file = {NULL, 0, 0}, directory = {NULL, 0, 0};
    memset(npy, ' ', 128);
    memcpy(npy, "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}", 68);
    npy[127] = '\n';
    for (int i = 0; i < times; i++) {
        const float w[2] = {(float)i, (float)i + 1};
        memcpy(npy + 128, w, sizeof w);
        const size_t at = file.length;
        for (int central = 0; central < 2; central++) {
            test_bytes *to = central ? &directory : &file;
            ck_assert(test_bytes_sink(to, central ? "PK\1\2\x14\0" : "PK\3\4", central ? 6 : 4));
            put_little(to, 20, 2);
            put_little(to, 0, 8);
            put_little(to, crc32(0, (const unsigned char *)npy, NPY), 4);
            put_little(to, NPY, 4);
            put_little(to, NPY, 4);
            put_little(to, 5, 2);
            put_little(to, 0, 2);
            if (central) {
                put_little(to, 0, 8);
                put_little(to, 0, 2);
                put_little(to, at, 4);
            }
            ck_assert(test_bytes_sink(to, "w.npy", 5));
        }
        ck_assert(test_bytes_sink(&file, npy, NPY));
    }
    const size_t start = file.length;
    ck_assert(test_bytes_sink(&file, directory.at, directory.length));
    ck_assert(test_bytes_sink(&file, "PK\5\6\0\0\0\0", 8));
    put_little(&file, (uint64_t)times, 2);
    put_little(&file, (uint64_t)times, 2);
    put_little(&file, directory.length, 4);
    put_little(&file, start, 4);
    put_little(&file, 0, 2);
    FILE *stream = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(file.at, 1, file.length, stream), file.length);
    ck_assert_int_eq(fclose(stream), 0);
    test_bytes_free(&file);
    test_bytes_free(&directory);
}

/* Two members of one name are refused, whichever would be meant. */
START_TEST(repeated_members)
{
    const char *path = in_folder("weights.npz");
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1"};
    const xct_trainer_options options = {.size = sizeof options, .compile = &compile, .weights = path};
    write_archive(path, 1);
    xct_trainer *t = make(line_model, &options);
    check_floats(parameter(t, "w"), (float[]){0, 1}, 2, 0);
    xct_trainer_destroy(t);
    write_archive(path, 2);
    xcvm_error error = {.message = ""};
    ck_assert_int_eq(xct_trainer_create(models[0].at, models[0].length, &options, &t, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "there are two arrays \"w\"") != NULL, "%s", error.message);
}
END_TEST

/* A network with equal initial weights, as exporters for training store them, and as those for inference do. */
#define NORMAL_HEAD                                                                                                    \
    "ir 8\nopset 15\ninput x f32[Nx2]\ninput y f32[Nx1]\noutput loss\n"                                                \
    "init w1 f32[2x4] 0.1 0.2 -0.3 0.4 0.5 -0.6 0.7 0.8\ninit w2 f32[4x1] 0.3 -0.2 0.5 0.4\n"                          \
    "init s f32[4] 1 1 1 1\ninit o f32[4] 0 0 0 0\n"
#define NORMAL_BODY                                                                                                    \
    "h = MatMul(x, w1)\nn = BatchNormalization(h, s, o, m, v)\nr = Tanh(n)\np = MatMul(r, w2)\n"                       \
    "d = Sub(p, y)\nq = Mul(d, d)\nloss = ReduceMean(q) keepdims=0\n"
static const char separate_model[] = NORMAL_HEAD "init m f32[4] 0 0 0 0\ninit v f32[4] 1 1 1 1\n" NORMAL_BODY;
static const char *const merged_models[] = {
    NORMAL_HEAD "m = Identity(o)\nv = Identity(s)\n" NORMAL_BODY,
    /* With initializers as inputs. */
    NORMAL_HEAD "input s f32[4]\ninput o f32[4]\nm = Identity(o)\nv = Identity(s)\n" NORMAL_BODY,
};

typedef struct merged_notes {
    size_t count;
    char text[600];
} merged_notes;

static void keep_merged(void *user, xcc_diagnostic_kind kind, const char *text)
{
    merged_notes *n = user;
    ck_assert_int_eq(kind, XCC_DIAGNOSTIC_WEIGHTS);
    n->count++;
    (void)snprintf(n->text, sizeof n->text, "%s", text);
}

/* Weights that start equal learn as in PyTorch, each by itself, also if the model stores them once. */
START_TEST(merged)
{
    merged_notes notes = {.count = 0};
    const xcc_options compile = {.size = sizeof compile,
                                 .train = "sgd:lr=0.1",
                                 .diagnostics = {keep_merged, &notes},
                                 .training.train_batch_normalization = true};
    const xct_trainer_options options = {.size = sizeof options, .compile = &compile, .training_form = true};
    xct_trainer *a = make(separate_model, &options);
    ck_assert_uint_eq(notes.count, 0);
    xct_trainer *b = make(merged_models[_i], &options);
    ck_assert_uint_eq(notes.count, 1);
    ck_assert_str_eq(notes.text, "2 nodes are separated from equal weights that the model stores once: "
                                 "'m' (Identity), 'v' (Identity)");
    write_data();
    const xct_fit_options how = {.size = sizeof how, .epochs = 2, .batch = 8};
    fit(a, &how, XCVM_OK, "");
    fit(b, &how, XCVM_OK, "");
    static const char *const names[] = {"w1", "w2", "s", "o", "m", "v"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const xcvm_value *of_a = parameter(a, names[i]), *of_b = parameter(b, names[i]);
        ck_assert_msg(of_a != NULL && of_b != NULL, "%s", names[i]);
        check_floats(of_b, xcvm_value_data(of_a), xcvm_value_count(of_a), 0);
    }
    /* The exported model has them as initializers. */
    test_bytes model = {NULL, 0, 0};
    ck_assert_int_eq(xct_trainer_export(b, (xcvm_sink){test_bytes_sink, &model}, NULL), XCVM_OK);
    xct_trainer_destroy(a);
    ck_assert_int_eq(xct_trainer_create(model.at, model.length, &options, &a, NULL), XCVM_OK);
    ck_assert_uint_eq(notes.count, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_floats(parameter(a, names[i]), xcvm_value_data(parameter(b, names[i])),
                     xcvm_value_count(parameter(b, names[i])), 0);
    xct_trainer_destroy(a);
    xct_trainer_destroy(b);
    test_bytes_free(&model);
}
END_TEST

/* These have one name, no other reader, no numbers that learn, or an Identity that is a function of the model. */
START_TEST(shared)
{
    static const char *const texts[] = {
        "init w f32[2x2] 1 1 1 1\nh = MatMul(x, w)\ny = MatMul(h, w)\n",
        "init w f32[2x2] 1 1 1 1\nv = Identity(w)\ny = MatMul(x, v)\n",
        "init w f32[2x2] 1 1 1 1\nv = Neg(w)\nh = MatMul(x, w)\ny = MatMul(h, v)\n",
        "init i i64[2] 1 1\nj = Identity(i)\nk = Add(i, j)\nx2 = Reshape(x, k)\ny = MatMul(x2, x)\n",
        "opset my 1\ninit w f32[2x2] 1 1 1 1\nv = my::Identity(w)\nh = MatMul(x, w)\ny = MatMul(h, v)\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[600];
        (void)snprintf(text, sizeof text, "ir 8\nopset 13\ninput x f32[2x2]\noutput y\n%s", texts[i]);
        test_bytes model = onnx_from_text(text);
        xcvm_arena arena = {.allocator = xcvm_allocator_or_default(NULL)};
        xcc_model_edits found;
        ck_assert_int_eq(xcc_merged_weights_edits(model.at, model.length, &arena, &found, NULL), XCVM_OK);
        ck_assert_msg(found.names.count == 0, "%s: %s", texts[i], found.names.text);
        xcvm_arena_release(&arena);
        test_bytes_free(&model);
    }
}
END_TEST

/* Copied layers, of any elements and float type. */
START_TEST(copied)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"init w f32[2x2] 1 2 3 4\nv = Identity(w)\nh = MatMul(x, w)\ny = MatMul(h, v)\n", "y f32[2x2] 37 54 96 140\n"},
        {"init w f16[2x2] 1 2 3 4\nv = Identity(w)\na = Add(w, v)\nb = Cast(a) to=f32\ny = MatMul(x, b)\n",
         "y f32[2x2] 14 20 36 52\n"},
        {"init w f32[2x2] 1 2 3 4\nv = Identity(w)\nu = Identity(w)\nh = MatMul(u, v)\ny = MatMul(x, h)\n",
         "y f32[2x2] 37 54 96 140\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[600];
        (void)snprintf(text, sizeof text, "ir 8\nopset 13\ninput x f32[2x2]\noutput y\n%s", rows[i].text);
        test_bytes model = onnx_from_text(text), changed = {NULL, 0, 0};
        xcvm_arena arena = {.allocator = xcvm_allocator_or_default(NULL)};
        xcc_model_edits found;
        ck_assert_int_eq(xcc_merged_weights_edits(model.at, model.length, &arena, &found, NULL), XCVM_OK);
        ck_assert_msg(found.names.count == 1, "%s: %s", text, found.names.text);
        const xcc_replacement how = {.edits = &found};
        const xcvm_sink sink = {test_bytes_sink, &changed};
        ck_assert_int_eq(xcc_weights_replace(model.at, model.length, &how, sink, NULL), XCVM_OK);
        ck_assert_int_eq(xcc_merged_weights_edits(changed.at, changed.length, &arena, &found, NULL), XCVM_OK);
        ck_assert_uint_eq(found.names.count, 0);
        onnx_expect_model(&changed, NULL, text, "x f32[2x2] 1 2 3 5\n", rows[i].expected);
        xcvm_arena_release(&arena);
        test_bytes_free(&changed);
        test_bytes_free(&model);
    }
}
END_TEST

/* Bytes that are cut off, and memory that ends anywhere. */
START_TEST(merged_refused)
{
    test_bytes model = onnx_from_text(merged_models[1]);
    for (size_t length = 0; length < model.length; length++) {
        xcvm_arena arena = {.allocator = xcvm_allocator_or_default(NULL)};
        xcc_model_edits found;
        xcvm_error error = {.message = ""};
        /* A block of its own, so that the sanitizer sees a read beyond it. */
        uint8_t *cut = malloc(length + 1);
        ck_assert_ptr_nonnull(cut);
        memcpy(cut, model.at, length);
        const xcvm_status status = xcc_merged_weights_edits(cut, length, &arena, &found, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_INVALID_MODEL, "%zu: %s", length, error.message);
        xcvm_arena_release(&arena);
        free(cut);
    }
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t fail_at = 1; status != XCVM_OK; fail_at++) {
        test_allocator a;
        xcc_model_edits found;
        xcvm_error error = {.message = ""};
        test_allocator_start(&a, fail_at);
        xcvm_arena arena = {.allocator = &a.allocator};
        status = xcc_merged_weights_edits(model.at, model.length, &arena, &found, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%s", error.message);
        xcvm_arena_release(&arena);
        ck_assert_uint_eq(a.live, 0);
        ck_assert_uint_lt(fail_at, 1000);
    }
    test_bytes_free(&model);
}
END_TEST

/* ---- The end ---- */

START_TEST(exported)
{
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1"};
    xct_trainer *t = make(line_model, &(xct_trainer_options){.size = sizeof(xct_trainer_options), .compile = &compile});
    xcvm_value *w = tensor(XCVM_F32, 2, (int64_t[]){2, 1}, (float[]){5, -6});
    ck_assert_int_eq(xct_trainer_set_parameter(t, "w", w, NULL), XCVM_OK);
    test_bytes model = {NULL, 0, 0}, again = {NULL, 0, 0};
    xcvm_error error = {.message = ""};
    ck_assert_msg(xct_trainer_export(t, (xcvm_sink){test_bytes_sink, &model}, &error) == XCVM_OK, "%s", error.message);
    ck_assert_int_eq(xct_trainer_export(t, (xcvm_sink){test_full_sink, NULL}, &error), XCVM_IO);
    xct_trainer_destroy(t);
    /* The exported file is a model with these weights. */
    const xct_trainer_options options = {.size = sizeof options, .compile = &compile};
    ck_assert_int_eq(xct_trainer_create(model.at, model.length, &options, &t, &error), XCVM_OK);
    check_floats(parameter(t, "w"), (float[]){5, -6}, 2, 0);
    ck_assert_int_eq(xct_trainer_export(t, (xcvm_sink){test_bytes_sink, &again}, &error), XCVM_OK);
    ck_assert(test_bytes_equal(&model, &again));
    xct_trainer_destroy(t);
    test_bytes_free(&model);
    test_bytes_free(&again);
    xcvm_value_release(w);
}
END_TEST

static void count_note(void *user, xcc_diagnostic_kind kind, const char *text)
{
    ck_assert_int_eq(kind, XCC_DIAGNOSTIC_INFERENCE_FORM);
    ck_assert_msg(strstr(text, "'k' (Dropout)") != NULL, "%s", text);
    ++*(size_t *)user;
}

/* Dropout is active in training. In the exported model it is not, unless the training form is kept. */
START_TEST(exported_form)
{
    size_t notes = 0;
    const bool kept = _i == 1;
    const xcc_options compile = {
        .size = sizeof compile, .train = "sgd:lr=0.1", .loss = "mse", .diagnostics = {count_note, &notes}};
    const xct_trainer_options options = {.size = sizeof options, .compile = &compile, .training_form = kept};
    xct_trainer *t = make(net_model, &options);
    test_bytes model = {NULL, 0, 0}, program = {NULL, 0, 0};
    xcc_report report = {.size = sizeof report};
    xcvm_error error = {.message = ""};
    ck_assert_uint_eq(notes, 0);
    ck_assert_msg(xct_trainer_export(t, (xcvm_sink){test_bytes_sink, &model}, &error) == XCVM_OK, "%s", error.message);
    ck_assert_uint_eq(notes, kept ? 0 : 1);
    ck_assert_int_eq(xcc_compile(model.at, model.length, NULL, (xcvm_sink){test_bytes_sink, &program}, &report, &error),
                     XCVM_OK);
    ck_assert_uint_eq(report.training_nodes, kept ? 1 : 0);
    xct_trainer_destroy(t);
    test_bytes_free(&model);
    test_bytes_free(&program);
}
END_TEST

/* Names of any length: one of a thousand characters learns, has an average, and is exported. */
START_TEST(long_names)
{
    char name[1001];
    memset(name, 'w', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    model_writer m = {.next = 0};
    constant(&m, name, DTYPE_FLOAT, 2, (int64_t[]){2, 1}, 3);
    product(&m, name, 2);
    test_bytes original = finish(&m);
    for (int average = 0; average < 2; average++) {
        const xcc_options compile = {
            .size = sizeof compile, .train = "sgd:lr=0.5", .training.average = average ? 0.5 : 0};
        const xct_trainer_options options = {.size = sizeof options, .compile = &compile, .init = "he", .seed = 1};
        xct_trainer *t = NULL;
        ck_assert_int_eq(xct_trainer_create(original.at, original.length, &options, &t, NULL), XCVM_OK);
        float first[2];
        memcpy(first, xcvm_value_data(parameter(t, name)), sizeof first);
        ck_assert(first[0] != 3 && first[1] != 1);
        xcvm_value *x = tensor(XCVM_F32, 2, (int64_t[]){1, 2}, (float[]){4, 2});
        xcvm_error error = {.message = ""};
        const xcvm_status status = xct_trainer_step(t, (const xcvm_value *[]){x}, NULL, NULL, &error);
        ck_assert_msg(status == XCVM_OK, "%s", error.message);
        test_bytes model = {NULL, 0, 0};
        ck_assert_int_eq(xct_trainer_export(t, (xcvm_sink){test_bytes_sink, &model}, &error), XCVM_OK);
        xct_trainer_destroy(t);
        const xct_trainer_options again = {.size = sizeof again, .compile = &compile};
        ck_assert_int_eq(xct_trainer_create(model.at, model.length, &again, &t, &error), XCVM_OK);
        const float part = average ? 0.5F : 1;
        check_floats(parameter(t, name), (float[]){first[0] - 2 * part, first[1] - 1 * part}, 2, 1e-6F);
        xct_trainer_destroy(t);
        test_bytes_free(&model);
        xcvm_value_release(x);
    }
    test_bytes_free(&original);
}
END_TEST

/* Visiting and exporting 20,000 parameters takes no quadratic time. */
START_TEST(many_parameters)
{
    enum { COUNT = 20000, LINE = 64 };
    char *text = malloc(COUNT * 2 * LINE + 200);
    ck_assert_ptr_nonnull(text);
    int length = sprintf(text, "ir 8\nopset 13\ninput x f32[2]\noutput loss\n");
    for (int i = 0; i < COUNT; i++)
        length += sprintf(text + length, "init layers.parameter%d f32[2] %d 1\n", i, i);
    length += sprintf(text + length, "s0 = Identity(x)\n");
    for (int i = 0; i < COUNT; i++)
        length += sprintf(text + length, "s%d = Add(s%d, layers.parameter%d)\n", i + 1, i, i);
    (void)sprintf(text + length, "loss = ReduceSum(s%d) keepdims=0\n", COUNT);
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.1", .training.average = 0.5};
    xct_trainer *t = make(text, &(xct_trainer_options){.size = sizeof(xct_trainer_options), .compile = &compile});
    free(text);
    const uint64_t began = test_cpu_ns();
    ck_assert_uint_eq(xct_trainer_parameter_count(t), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const char *name;
        const xcvm_value *value = xct_trainer_parameter_at(t, i, &name);
        ck_assert(((const float *)xcvm_value_data(value))[1] == 1);
        ck_assert_int_eq(xct_trainer_set_parameter(t, name, value, NULL), XCVM_OK);
    }
    test_bytes model = {NULL, 0, 0};
    xcvm_error error = {.message = ""};
    ck_assert_msg(xct_trainer_export(t, (xcvm_sink){test_bytes_sink, &model}, &error) == XCVM_OK, "%s", error.message);
    const double seconds = (double)(test_cpu_ns() - began) * 1e-9;
    ck_assert_msg(seconds < 2, "%g s", seconds);
    ck_assert(test_bytes_equal(&model, &models[0]));
    test_bytes_free(&model);
    xct_trainer_destroy(t);
}
END_TEST

/* ---- The best ---- */

/* Weights at the end of each epoch, and the best of them. */
typedef struct epochs {
    xct_trainer *t;
    float best[2], last[2];
    double loss;
    uint64_t step, stop_at;
} epochs;

static void observe(void *user, const xct_progress *progress)
{
    epochs *e = user;
    if (progress->step == e->stop_at)
        xct_trainer_stop(e->t);
    if (progress->validation == NULL)
        return;
    memcpy(e->last, xcvm_value_data(parameter(e->t, "w")), sizeof e->last);
    if (progress->validation->loss >= e->loss)
        return;
    e->loss = progress->validation->loss;
    e->step = progress->step;
    memcpy(e->best, e->last, sizeof e->best);
}

/* With this momentum the loss falls, and then rises again. */
static const xcc_options swinging = {.size = sizeof swinging, .train = "sgd:lr=0.1,momentum=0.98"};
static const xct_trainer_options swinging_options = {.size = sizeof swinging_options, .compile = &swinging};

START_TEST(best_weights)
{
    write_data();
    for (int weights = XCT_WEIGHTS_AUTO; weights <= XCT_WEIGHTS_BEST; weights++) {
        xct_trainer *t = make(line_model, &swinging_options);
        epochs e = {.t = t, .loss = INFINITY};
        const xct_fit_options options = {.size = sizeof options,
                                         .epochs = 100,
                                         .batch = 8,
                                         .held_out = 0.3,
                                         .patience = 2,
                                         .weights = (xct_weights)weights,
                                         .progress = {observe, &e}};
        const xct_fit_report report = fit(t, &options, XCVM_OK, "");
        ck_assert_int_eq(report.end, XCT_END_PATIENCE);
        ck_assert(memcmp(e.best, e.last, sizeof e.best) != 0);
        const bool best = weights != XCT_WEIGHTS_LAST;
        check_floats(parameter(t, "w"), best ? e.best : e.last, 2, 0);
        ck_assert_uint_eq(report.best_step, best ? e.step : 0);
        ck_assert(!best || report.best_loss == e.loss);
        xct_trainer_destroy(t);
    }
    /* Without patience the last ones are usual. */
    xct_trainer *t = make(line_model, &swinging_options);
    epochs e = {.t = t, .loss = INFINITY};
    const xct_fit_options options = {
        .size = sizeof options, .epochs = 12, .batch = 8, .held_out = 0.3, .progress = {observe, &e}};
    ck_assert_uint_eq(fit(t, &options, XCVM_OK, "").best_step, 0);
    ck_assert(memcmp(e.best, e.last, sizeof e.best) != 0);
    check_floats(parameter(t, "w"), e.last, 2, 0);
    xct_trainer_destroy(t);
}
END_TEST

/* A training that is stopped after its best epoch, resumed, and resumed again after its end, gives the same weights as
 * without interruption. */
START_TEST(best_weights_resumed)
{
    write_data();
    xct_fit_options options = {
        .size = sizeof options, .epochs = 100, .batch = 8, .held_out = 0.3, .patience = 3, .checkpoint_every = 1};
    xct_trainer *whole = make(line_model, &swinging_options);
    const xct_fit_report all = fit(whole, &options, XCVM_OK, "");
    ck_assert_uint_gt(all.best_step, 0);
    ck_assert_uint_lt(all.best_step + 2, all.steps);
    options.checkpoints = in_folder("saved");
    for (uint64_t stop = all.best_step + 2; stop < all.best_step + 5; stop += 2) {
        xct_trainer *t = make(line_model, &swinging_options);
        options.resume = stop > all.best_step + 2;
        epochs e = {.t = t, .stop_at = stop == all.best_step + 2 ? stop : 0};
        options.progress.call = observe;
        options.progress.user = &e;
        const xct_fit_report report = fit(t, &options, XCVM_OK, "");
        ck_assert_int_eq(report.end, e.stop_at > 0 ? XCT_END_STOPPED : XCT_END_PATIENCE);
        ck_assert_uint_eq(report.steps, e.stop_at > 0 ? e.stop_at : all.steps);
        ck_assert_uint_eq(report.best_step, all.best_step);
        check_floats(parameter(t, "w"), xcvm_value_data(parameter(whole, "w")), 2, 0);
        xct_trainer_destroy(t);
    }
    xct_trainer *again = make(line_model, &swinging_options);
    options.progress.call = NULL;
    const xct_fit_report report = fit(again, &options, XCVM_OK, "");
    ck_assert_int_eq(report.end, XCT_END_PATIENCE);
    ck_assert_uint_eq(report.steps, all.steps);
    check_same(whole, again);
    /* Without weights of the best epoch, the last weights remain. */
    options.weights = XCT_WEIGHTS_LAST;
    ck_assert_uint_eq(fit(again, &options, XCVM_OK, "").best_step, 0);
    ck_assert(memcmp(xcvm_value_data(parameter(again, "w")), xcvm_value_data(parameter(whole, "w")), 8) != 0);
    xct_trainer_destroy(again);
    xct_trainer_destroy(whole);
}
END_TEST

Suite *suite_train_weights(void)
{
    Suite *suite = suite_create("train_weights");
    TCase *tests = tcase_create("weights");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_checked_fixture(tests, NULL, release_models);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, drawn);
    tcase_add_test(tests, drawn_within_limit);
    tcase_add_test(tests, repeated_members);
    tcase_add_loop_test(tests, merged, 0, sizeof merged_models / sizeof *merged_models);
    tcase_add_test(tests, shared);
    tcase_add_test(tests, copied);
    tcase_add_test(tests, merged_refused);
    tcase_add_test(tests, exported);
    tcase_add_loop_test(tests, exported_form, 0, 2);
    tcase_add_test(tests, long_names);
    tcase_add_test(tests, many_parameters);
    tcase_add_test(tests, best_weights);
    tcase_add_test(tests, best_weights_resumed);
    suite_add_tcase(suite, tests);
    return suite;
}
