/* Helpers for tests of the quantizer: calibration data, models in text and their quantized form, and limited memory. */
#ifndef XCVM_TESTS_COMPILER_QUANTIZE_SUPPORT_H
#define XCVM_TESTS_COMPILER_QUANTIZE_SUPPORT_H

#include "compiler/quantize/quantize.h"
#include "tests/compiler/import_onnx/onnx_text.h"

#include "onnx/onnx.pb-c.h"

#include <check.h>
#include <string.h>

/* ---- Data ---- */

/* Data, by default even numbers between -factor and factor, moved by shift; open dimensions are 1 to 3. */
typedef struct source {
    xcvm_status (*read)(void *source, size_t batch, xcvm_value **inputs, xcvm_error *error);
    const xcc_quantizer *q;
    size_t batches;
    double factor, shift;
    float bad;         /* put into the last batch, if it is not 0 */
    int64_t wrong_dim; /* of the last axis, if it is not 0 */
} source;

UNUSED static xcvm_status read_batch(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    const source *s = user;
    uint32_t seed = (uint32_t)batch * 7919u + 1;
    for (size_t i = 0; i < xcc_quantizer_input_count(s->q); i++) {
        const xcvm_value_info *p = xcc_quantizer_input_at(s->q, i);
        int64_t dims[XCVM_MAX_RANK];
        for (int d = 0; d < p->type.rank; d++)
            dims[d] = p->type.dims[d] < 0 ? 1 + (int64_t)batch % 3 : p->type.dims[d];
        if (s->wrong_dim != 0)
            dims[p->type.rank - 1] = s->wrong_dim;
        ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, p->type.rank, dims, &inputs[i], error), XCVM_OK);
        float *x = xcvm_value_data(inputs[i]);
        for (size_t k = 0; k < xcvm_value_count(inputs[i]); k++)
            x[k] = (float)(((double)(test_random(&seed) >> 8) / 8388608.0 - 1) * s->factor + s->shift);
        if (s->bad != 0 && batch + 1 == s->batches)
            x[0] = s->bad;
    }
    return XCVM_OK;
}

/* ---- Models ---- */

/* A quantizer and the model that it was lent. */
typedef struct quantizing {
    test_bytes model;
    xcc_quantizer *q;
} quantizing;

UNUSED static xcvm_status run_on(xcc_quantizer *q, source *s, xcvm_error *error)
{
    s->q = q;
    const xcc_calibration data = {.batch_count = s->batches, .read = s->read != NULL ? s->read : read_batch, .user = s};
    return xcc_quantizer_run(q, &data, error);
}

/* Runs the quantizer on a model in text, without data if `s` is NULL. Must be closed after any outcome. */
UNUSED static xcvm_status try_quantize(quantizing *z, const char *text, const xcc_quantizer_options *options, source *s,
                                       xcvm_error *error)
{
    *z = (quantizing){.model = onnx_from_text(text)};
    XCVM_TRY(xcc_quantizer_create(z->model.at, z->model.length, options, &z->q, error));
    return s != NULL ? run_on(z->q, s, error) : xcc_quantizer_run(z->q, NULL, error);
}

UNUSED static void quantize(quantizing *z, const char *text, const xcc_quantizer_options *options, source *s)
{
    xcvm_error error = {0};
    ck_assert_msg(try_quantize(z, text, options, s, &error) == XCVM_OK, "%s", error.message);
}

UNUSED static void close_quantizing(quantizing *z)
{
    xcc_quantizer_destroy(z->q);
    test_bytes_free(&z->model);
}

#define OPTIONS(...)                                                                                                   \
    &(const xcc_quantizer_options) { .size = sizeof(xcc_quantizer_options), .threads = 1, __VA_ARGS__ }

/* Convolutions with a normalization and a residual, pools and a product. */
UNUSED static const char block[] =
    "opset 13\ninput x f32[Nx2x4x4]\noutput y\n"
    "init w f32[3x2x1x1] 0.5 -1 0.25 0.75 -0.3 0.9\ninit s f32[3] 1 2 0.5\ninit b f32[3] 0.1 -0.1 0\n"
    "init m f32[3] 0.2 0 0.1\ninit v f32[3] 1 0.5 2\ninit u f32[3x3x1x1] 1 -1 0.5 0.2 0.3 -0.7 0.9 0.1 -0.2\n"
    "init c f32[3] 1 0 -1\ninit d f32[2x3] 1 2 3 -3 -2 -1\ninit e f32[2] 0.5 -0.5\n"
    "c1 = Conv(x, w)\nn1 = BatchNormalization(c1, s, b, m, v)\nr1 = Relu(n1)\nc2 = Conv(r1, u, c)\na = Add(c2, r1)\n"
    "ar = Relu(a)\np = MaxPool(ar) kernel_shape=[2 2] strides=[2 2]\ng = GlobalAveragePool(p)\nf = Flatten(g)\n"
    "y = Gemm(f, d, e) transB=1\n";

/* ---- What is written ---- */

enum { BATCHES = 10 };

typedef struct result {
    quantizing z;
    xcc_quantizer *q; /* of z */
    test_bytes bytes;
    Onnx__ModelProto *model;
} result;

/* Quantizes a model, with data between -2 and 2 or none, and writes what then has to compile. */
UNUSED static void open_result(result *r, const char *text, const xcc_quantizer_options *options, bool with_data)
{
    xcvm_error error = {0};
    source s = {.batches = BATCHES, .factor = 2};
    *r = (result){.q = NULL};
    quantize(&r->z, text, options, with_data ? &s : NULL);
    r->q = r->z.q;
    ck_assert_msg(xcc_quantizer_save(r->q, (xcvm_sink){test_bytes_sink, &r->bytes}, &error) == XCVM_OK, "%s",
                  error.message);
    r->model = onnx__model_proto__unpack(NULL, r->bytes.length, (const uint8_t *)r->bytes.at);
    ck_assert_ptr_nonnull(r->model);
    test_bytes program = {0};
    ck_assert_msg(xcc_compile(r->bytes.at, r->bytes.length, NULL, (xcvm_sink){test_bytes_sink, &program}, NULL,
                              &error) == XCVM_OK,
                  "%s", error.message);
    test_bytes_free(&program);
}

UNUSED static void close_result(result *r)
{
    onnx__model_proto__free_unpacked(r->model, NULL);
    test_bytes_free(&r->bytes);
    close_quantizing(&r->z);
}

UNUSED static const xcc_quantizer_node_info *node(const xcc_quantizer *q, const char *name)
{
    const xcc_quantizer_node_info *n;
    for (size_t i = 0; (n = xcc_quantizer_node_at(q, i)) != NULL; i++)
        if (strcmp(n->name, name) == 0)
            return n;
    ck_abort_msg("there is no node %s", name);
    return NULL;
}

/* ---- Memory ---- */

/* Wherever memory ends, all of it comes back. */
UNUSED static void check_memory(const char *text, const xcc_quantizer_options *options, source *s)
{
    size_t done = 0;
    for (size_t fail_at = 1; done < 3; fail_at += 1 + fail_at / 16) {
        test_allocator a;
        quantizing z;
        xcvm_error error = {0};
        xcc_quantizer_options o = *options;
        test_allocator_start(&a, fail_at);
        o.allocator = &a.allocator;
        const xcvm_status status = try_quantize(&z, text, &o, s, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%zu: %s", fail_at, error.message);
        done += status == XCVM_OK;
        close_quantizing(&z);
        ck_assert_uint_eq(a.live, 0);
        ck_assert_uint_lt(fail_at, 1000000);
    }
}

#endif
